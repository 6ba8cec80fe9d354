"""A broker whose log was lost: it asks those whom it remembers, takes no work meanwhile, and then is as before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from famulus.core.config.draft import Author, Draft
from famulus.core.steward.books import book_of
from famulus.core.steward.steward import BEHIND
from famulus.errors import ProtocolError

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Member, Network


@pytest.fixture
def b2(network: Network) -> Member:
    """It knows all that there is, and remembers where the others are."""
    network["b1"].edits("service/echo", {"timeout_ms": 5})
    network.later(2000)
    network["b2"].known = dict(network["b2"].core.config.brokers)
    return network["b2"]


def test_a_broker_that_lost_its_log_takes_all_from_its_peers_and_is_active_again(network: Network, b2: Member) -> None:
    b2.disk.clear()
    b2.start()
    assert (b2.core.behind, b2.core.state) == (True, "joining")
    assert sorted(b2.core.peers) == ["b1", "b3"]
    network.later(3000)
    assert network.digests() == {network["b1"].core.edits.digest}
    assert (b2.core.behind, b2.core.state) == (False, "active")
    assert b2.core.config.services["echo"].timeout_ms == 5
    assert {signed.id for signed in b2.disk} == {signed.id for signed in network["b1"].core.edits}


def test_so_does_one_whose_first_record_is_lost(network: Network, b2: Member) -> None:
    """All others build upon it."""
    del b2.disk[0]
    b2.start()
    assert b2.core.edits.version == 0
    assert b2.core.behind
    network.later(3000)
    assert network.digests() == {network["b1"].core.edits.digest}
    assert b2.core.state == "active"


def test_one_that_lost_only_what_names_its_peers_finds_them_all_the_same(network: Network, b2: Member) -> None:
    b2.disk = [signed for signed in b2.disk if signed.edit.key in ("broker/b1", "broker/b2")][:2]
    b2.known = {identity: broker for identity, broker in (b2.known or {}).items() if identity == "b3"}
    b2.start()
    assert "b3" in b2.core.peers
    network.cut = {frozenset({"b1", "b2"})}
    network.later(3000)
    assert network.digests() == {network["b1"].core.edits.digest}


def test_while_it_catches_up_it_takes_neither_work_nor_edits(network: Network, b2: Member) -> None:
    b2.disk.clear()
    b2.start()
    with pytest.raises(ProtocolError, match=BEHIND):
        b2.core.edit([Draft("service/echo", "PUT", {}, ())], Author("ann"), network.now_ms)
    # A part of it has come: it knows itself again, but not yet what became of it.
    b2.core.add(network.first)
    assert b2.core.config.broker_states["b2"] == "active"
    assert b2.core.state == "joining"
    book = book_of(b2.core.located, "b2", [], 1)
    assert book is not None
    assert book.state == "joining"


def test_one_that_is_disabled_in_what_it_lost_does_not_serve_on_its_way_back(network: Network, b2: Member) -> None:
    network["b1"].edits("broker_state/b2", {"state": "disabled"})
    b2.disk.clear()
    b2.start()
    states = set()
    for _ in range(6):
        network.later(500)
        states.add(b2.core.state)
    assert states <= {"joining", "disabled"}
    assert b2.core.state == "disabled"


def test_two_that_lost_their_logs_do_not_take_each_other_for_whole(network: Network, b2: Member) -> None:
    b3 = network["b3"]
    b3.known = dict(b3.core.config.brokers)
    network.cut = {frozenset({"b1", "b2"}), frozenset({"b1", "b3"})}
    for member in (b2, b3):
        member.disk = list(network.first)
        member.start()
        member.core.behind = True
    network.later(5000)
    assert b2.core.edits.digest == b3.core.edits.digest
    assert (b2.core.state, b3.core.state) == ("joining", "joining")
    network.cut.clear()
    network.later(3000)
    assert (b2.core.state, b3.core.state) == ("active", "active")
    assert network.digests() == {network["b1"].core.edits.digest}


def test_whom_it_remembered_and_the_config_does_not_know_any_more_is_no_peer(network: Network, b2: Member) -> None:
    network["b1"].edits("broker/b3", None)
    network.later(1000)
    b2.disk.clear()
    b2.start()
    network.later(3000)
    assert sorted(b2.core.peers) == ["b1"]
