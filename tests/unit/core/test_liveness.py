"""Which workers are lost, by their silence."""

from __future__ import annotations

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.liveness import Liveness
from famulus.core.dispatch.session import Session
from famulus.wire.inner import SessionTerms


def worker(seen_ns: int = 0) -> Session:
    """It is lost after three seconds."""
    return Session(Account(b""), b"peer", b"ann", [], SessionTerms(1, 1000), seen_ns)


def test_who_says_nothing_for_too_long_is_lost_once() -> None:
    liveness, session = Liveness(), worker()
    liveness.watch(session)
    due_ns = session.silence_ns
    assert liveness.next_due_ns == due_ns
    assert liveness.lost(due_ns - 1) == []
    assert liveness.lost(due_ns) == [session]
    assert liveness.lost(2 * due_ns) == []
    assert liveness.next_due_ns == NEVER_NS


def test_who_was_seen_meanwhile_is_looked_at_again_later() -> None:
    liveness, session = Liveness(), worker()
    liveness.watch(session)
    session.seen_ns = 2 * NS_PER_S
    assert liveness.lost(session.silence_ns) == []
    assert liveness.next_due_ns == 2 * NS_PER_S + session.silence_ns
    assert liveness.lost(2 * NS_PER_S + session.silence_ns) == [session]


def test_who_is_forgotten_is_not_lost_as_well() -> None:
    liveness, gone, here = Liveness(), worker(), worker()
    liveness.watch(gone)
    liveness.watch(here)
    liveness.forget(gone)
    assert liveness.lost(here.silence_ns) == [here]


def test_nobody_is_to_blame_for_our_own_sleep() -> None:
    liveness, session = Liveness(), worker()
    liveness.watch(session)
    liveness.forgive(10 * NS_PER_S)
    assert liveness.lost(10 * NS_PER_S) == []
    assert liveness.lost(10 * NS_PER_S + session.silence_ns) == [session]


def test_workers_that_come_and_go_leave_no_long_heap_behind() -> None:
    liveness = Liveness()
    staying = worker()
    liveness.watch(staying)
    for _ in range(1000):
        session = worker()
        liveness.watch(session)
        liveness.forget(session)
    assert len(liveness._heap) < 200
    assert liveness.lost(staying.silence_ns) == [staying]
