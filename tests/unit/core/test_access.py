"""Refusals and uses are gathered into few rows, whoever sends many."""

from __future__ import annotations

import pytest

from famulus.core.access import (
    BACKEND,
    CALL,
    CONNECT,
    FRONTEND,
    OTHERS,
    RECENT_MAX,
    REFUSALS_MAX,
    REFUSALS_OF_ONE_MAX,
    TURNED_AWAY_MAX,
    UNKNOWN_KEY,
    USES_MAX,
    Access,
    Refusal,
    TurnedAway,
    note_turned_away,
)
from famulus.core.dispatch.strangers import host_of, name_of_connection

NOT_ALLOWED = b"not_allowed"
ANN = Refusal(FRONTEND, CALL, NOT_ALLOWED, b"ann", b"", b"10.0.0.7", b"echo")


@pytest.fixture
def access() -> Access:
    return Access()


def test_equal_refusals_are_one_row(access: Access) -> None:
    for _ in range(3):
        access.refuse(ANN, 5)
    access.refuse(ANN._replace(service=b"other"), 6, times=4)
    first, second = access.take(7)
    assert first[:9] == (7, FRONTEND, CALL, NOT_ALLOWED, b"ann", b"", b"10.0.0.7", b"echo", 3)
    assert (second.service, second.times) == (b"other", 4)
    assert (first.request_bytes, first.response_bytes, first.busy_ns) == (-1, -1, -1)
    assert access.take(8) == []


def test_one_that_wants_ever_new_services_hides_nobody_else(access: Access) -> None:
    for number in range(10_000):
        access.refuse(ANN._replace(service=b"s%d" % number), 5)
    access.refuse(ANN._replace(principal=b"bob"), 5)
    rows = access.take(6)
    assert len(rows) == REFUSALS_OF_ONE_MAX + 2
    (others,) = [row for row in rows if row.address == OTHERS]
    assert (others.principal, others.service, others.times) == (b"ann", b"", 10_000 - REFUSALS_OF_ONE_MAX)
    assert [row.times for row in rows if row.principal == b"bob"] == [1]


def test_strangers_together_are_bounded_and_none_goes_uncounted(access: Access) -> None:
    for number in range(10_000):
        access.refuse(Refusal(FRONTEND, CONNECT, UNKNOWN_KEY, key=b"%064x" % number, address=b"10.0.0.7"), 5)
    rows = access.take(6)
    assert len(rows) == REFUSALS_OF_ONE_MAX + 1
    assert sum(row.times for row in rows) == 10_000
    assert (rows[-1].address, rows[-1].key, rows[-1].why) == (OTHERS, b"", UNKNOWN_KEY)
    # In the next second they are told by name again.
    access.refuse(Refusal(FRONTEND, CONNECT, UNKNOWN_KEY, key=b"ab", address=b"10.0.0.7"), 7)
    assert [row.key for row in access.take(8)] == [b"ab"]


def test_many_principals_together_are_bounded(access: Access) -> None:
    for number in range(10_000):
        access.refuse(ANN._replace(principal=b"p%d" % number), 5)
    rows = access.take(6)
    assert len(rows) == REFUSALS_MAX + 1
    assert (rows[-1].principal, rows[-1].address, rows[-1].times) == (b"", OTHERS, 10_000 - REFUSALS_MAX)


def test_uses_are_summed_and_bounded(access: Access) -> None:
    for _ in range(2):
        use = access.use(b"ann", b"echo")
        use.tasks += 1
        use.busy_ns += 10
    for number in range(10_000):
        access.use(b"ann", b"s%d" % number).tasks += 1
    first, *rows = access.take(9)
    assert first == (9, FRONTEND, CALL, b"", b"ann", b"", b"", b"echo", 2, 0, 0, 20)
    assert len(rows) == USES_MAX
    assert (rows[-1].service, rows[-1].times) == (OTHERS, 10_000 - USES_MAX + 1)
    assert access.take(10) == []


def test_the_last_refusals_are_known_without_a_journal_too() -> None:
    access = Access(on=False)
    for number in range(100):
        access.refuse(ANN._replace(service=b"s%d" % number), number)
    access.refuse(ANN._replace(service=b"s90"), 200, times=2)
    assert len(access.recent) == RECENT_MAX
    (*_, last) = access.recent
    assert last.service == b"s90"
    assert (access.recent[last].times, access.recent[last].at_ns) == (3, 200)
    assert access.take(300) == []


def test_those_whom_a_listener_turned_away_are_told_once(access: Access) -> None:
    turned_away: dict[TurnedAway, int] = {}
    for number in range(1000):
        note_turned_away(turned_away, TurnedAway(UNKNOWN_KEY, b"10.0.0.7", number.to_bytes(2, "big")))
    assert len(turned_away) == TURNED_AWAY_MAX + 1
    assert turned_away[TurnedAway(UNKNOWN_KEY, OTHERS)] == 1000 - TURNED_AWAY_MAX
    access.turn_away(BACKEND, turned_away, 5)
    assert turned_away == {}
    rows = access.take(6)
    assert {(row.port, row.wanted) for row in rows} == {(BACKEND, CONNECT)}
    assert rows[1].key == b"0001"
    assert sum(row.times for row in rows) == 1000


@pytest.mark.parametrize(
    ("place", "host"),
    [("10.0.0.7:1234", b"10.0.0.7"), ("[fe80::1]:80", b"fe80::1"), ("this machine", b"this machine")],
)
def test_where_a_connection_comes_from(place: str, host: bytes) -> None:
    assert host_of(name_of_connection(7, bytes(8), place)) == host
