"""Whose connection ends when the config changes, and whose does not."""

from __future__ import annotations

from famulus.core.steward.guests import Guests

B2, B3, INVITED = b"the key of b2", b"the key of b3", b"the key of an invitation"


def test_a_connection_ends_when_its_key_is_known_no_more_and_not_at_once() -> None:
    guests = Guests()
    come = [(b"1", "broker/b2", B2), (b"2", "broker/b3", B3)]
    assert guests.look(come, [], {B2, B3}) == []
    assert guests.look([], [], {B3}) == [], "it may read why"
    assert guests.look([], [], {B3}) == [b"1"]
    assert guests.look([], [b"1"], {B3}) == []


def test_a_broker_with_another_key_under_the_same_name_is_another_one() -> None:
    guests = Guests()
    guests.look([(b"1", "broker/b2", B2)], [], {B2})
    new = b"the new key of b2"
    assert guests.look([(b"2", "broker/b2", new)], [], {new}) == []
    assert guests.look([], [], {new}) == [b"1"]


def test_who_came_to_join_stays_while_its_invitation_is_valid_or_once_it_is_a_broker() -> None:
    guests = Guests()
    come = [(b"1", "joining", INVITED), (b"2", "joining", B2)]
    assert guests.look(come, [], {INVITED: "joining", B2: "joining"}) == []
    for _ in range(2):
        assert guests.look([], [], {INVITED: "joining", B2: "broker/b2"}) == []
    assert guests.look([], [], {B2: "broker/b2"}) == []
    assert guests.look([], [], {B2: "broker/b2"}) == [b"1"]


def test_who_came_without_a_key_stays_as_long_as_that_is_allowed() -> None:
    guests = Guests()
    assert guests.look([(b"1", "plain", b"")], [], {B2, b""}) == []
    assert [guests.look([], [], known) for known in ({B2, b""}, {B2}, {B2})] == [[], [], [b"1"]]


def test_who_is_known_again_at_the_next_look_stays() -> None:
    guests = Guests()
    guests.look([(b"1", "broker/b2", B2)], [], {B2})
    for known in (set[bytes](), {B2}, set[bytes](), {B2}):
        assert guests.look([], [], known) == []


def test_nothing_is_kept_of_those_who_are_gone() -> None:
    guests = Guests()
    for number in range(100):
        peer = b"%d" % number
        assert guests.look([(peer, "broker/b2", B2)], [peer], set()) == []
    assert (guests._keys, guests._doubted) == ({}, set())
