"""Outcomes that a client's pipe would not take at once: none is lost while the client reads."""

from __future__ import annotations

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.core.dispatch import held
from famulus.core.dispatch.held import GIVE_UP_NS, TRY_FIRST_NS, TRY_LAST_NS, TRY_MAX, Held


def outcomes(client: bytes, count: int, size: int = 1) -> list[list[bytes]]:
    return [[client, b"%d" % number, b"{}", bytes(size)] for number in range(count)]


def test_what_was_refused_is_tried_again_until_all_is_taken() -> None:
    waiting, now_ns, told = Held(), 0, []
    assert waiting.hold(now_ns, outcomes(b"ann", 5 * TRY_MAX)) == 0
    while len(waiting):
        now_ns = waiting.next_due_ns
        trying, given_up = waiting.due(now_ns)
        assert given_up == 0
        assert len(trying) <= TRY_MAX
        told += trying[:1500]
        waiting.hold(now_ns, trying[1500:])
    assert sorted(told) == sorted(outcomes(b"ann", 5 * TRY_MAX))
    assert waiting.due(now_ns + TRY_LAST_NS) == ([], 0)
    assert waiting.next_due_ns == NEVER_NS


@pytest.mark.parametrize("count", [1, 100, 3 * TRY_MAX])
def test_a_client_that_takes_nothing_is_given_up(count: int) -> None:
    waiting, now_ns, tries = Held(), 0, 0
    waiting.hold(now_ns, outcomes(b"ann", count))
    dropped = 0
    while waiting.next_due_ns < NEVER_NS:
        now_ns = waiting.next_due_ns
        trying, given_up = waiting.due(now_ns)
        dropped += given_up
        tries += 1
        waiting.hold(now_ns, trying)
    assert dropped == count
    assert GIVE_UP_NS < now_ns < GIVE_UP_NS + 2 * TRY_LAST_NS
    assert tries < 30, "less and less often"


def test_one_client_that_does_not_read_does_not_hold_up_another() -> None:
    waiting = Held()
    waiting.hold(0, outcomes(b"deaf", 3 * TRY_MAX))
    waiting.due(TRY_FIRST_NS)
    waiting.hold(TRY_FIRST_NS, outcomes(b"ann", 3))
    trying, _ = waiting.due(TRY_FIRST_NS + 5 * NS_PER_MS)
    assert outcomes(b"ann", 3) == [message for message in trying if message[0] == b"ann"]


def test_it_is_bounded_in_count_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MESSAGES_MAX", 5)
    assert Held().hold(0, outcomes(b"ann", 7)) == 2
    monkeypatch.setattr(held, "BYTES_MAX", 2 * (held.OVERHEAD_BYTES + 102))
    assert Held().hold(0, outcomes(b"ann", 4, size=100)) == 2
