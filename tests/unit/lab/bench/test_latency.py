"""An open loop keeps its schedule, and counts from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from famulus.core.clock import NS_PER_S
from famulus.core.session.client import ClientSession
from famulus.core.session.task_kind import TaskKind
from famulus.lab.bench.buckets import LatencyBuckets
from famulus.lab.bench.latency import FRACTIONS, figures_of, rates_of
from famulus.lab.bench.load import Schedule, Seen, Window


@given(st.floats(min_value=1, max_value=100_000), st.integers(min_value=1, max_value=50))
def test_so_many_are_due_as_the_rate_says(per_s: float, most: int) -> None:
    schedule = Schedule(0, NS_PER_S // 10, per_s)
    due: list[int] = []
    while not schedule.is_over:
        due += schedule.due(NS_PER_S, most)
    assert abs(len(due) - per_s / 10) <= 1
    assert due == sorted(set(due))
    assert due[-1] < NS_PER_S // 10


def test_nothing_is_due_before_its_time() -> None:
    schedule = Schedule(1000, NS_PER_S, 1000)
    assert schedule.due(999, 10) == []
    assert schedule.due(1000, 10) == [1000]
    assert schedule.next_ns == 1_001_000


def test_what_was_held_up_is_still_due_at_its_own_instant() -> None:
    """The whole point: after a stall of 5 ms the tasks of these 5 ms count from when they should have left."""
    schedule = Schedule(0, NS_PER_S, 1000)
    assert schedule.due(5_000_000, 100) == [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]


def test_in_a_closed_loop_a_task_is_due_while_fewer_are_open_than_the_window_holds() -> None:
    session = ClientSession()
    window = Window(session, 3, until_ns=1000)
    assert window.next_ns == 0, "at once"
    for due_ns in window.due(10, 2):
        session.submit(10, due_ns, TaskKind("echo", 1000), b"")
    assert window.due(20, 100) == [20]
    session.submit(20, 20, TaskKind("echo", 1000), b"")
    assert (window.due(30, 100), window.next_ns, window.is_over) == ([], 1000, False)
    assert (window.due(1000, 100), window.is_over) == ([], True)


def test_rounds_are_added_up() -> None:
    rounds = [
        Seen(offered=3, outcomes={"OK": 2, "REJECTED": 1}, latencies={"OK": LatencyBuckets({5: 2}, 5)}, latest_ns=7),
        Seen(offered=1, outcomes={"OK": 1}, latencies={"OK": LatencyBuckets({9: 1}, 9)}, latest_ns=3),
    ]
    figures = figures_of(10.0, rounds, 100.0)
    assert (figures["offered"], figures["outcomes"]) == (4, {"OK": 3, "REJECTED": 1})
    assert (figures["latency_ns"]["p50"], figures["latency_ns"]["max"]) == (5, 9)
    assert (figures["fraction"], figures["sent_late_ns_max"]) == (0.1, 7)


def test_rates_are_round_parts_of_the_saturation() -> None:
    assert rates_of(16_790) == [1700.0, 4200.0, 8400.0, 13_000.0, 15_000.0]
    assert len(rates_of(3)) == len(FRACTIONS)
    assert min(rates_of(3)) == 1.0
