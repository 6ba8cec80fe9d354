"""The scale measurement: its plan, its arithmetic, and one small crowd for real."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.lab.bench.descriptors import connections_that_fit, sockets_that_fit
from famulus.lab.bench.scale import (
    amount,
    fitting,
    idle_percents,
    shares,
    summary,
)
from famulus.lab.bench.steps import SIZES, WINDOW_BYTES_MAX, Gathering, Limits, gatherings, plan, tens, window_for


def test_crowds_grow_tenfold() -> None:
    expected = [(10, 1), (100, 10), (1000, 100), (10_000, 1000)]
    assert gatherings(Limits()) == [Gathering(*each) for each in expected]
    assert gatherings(Limits(workers=25)) == [Gathering(10, 1), Gathering(25, 2)]
    assert gatherings(Limits(workers=4)) == [Gathering(4, 1)]


@pytest.mark.parametrize(
    ("most", "expected"), [(1, [1]), (10, [1, 10]), (250, [1, 10, 100, 250]), (1000, [1, 10, 100, 1000])]
)
def test_the_wish_is_always_the_last(most: int, expected: list[int]) -> None:
    assert list(tens(most)) == expected


def test_each_axis_grows_by_one_thing_only() -> None:
    steps = plan(Limits())
    axes = ("connections", "connections_idle", "bytes")
    grown = {axis: [amount(step) for step in steps if step.axis == axis] for axis in axes}
    tens = [1, 10, 100, 1000]
    assert grown == {"connections": tens, "connections_idle": tens, "bytes": list(SIZES)}
    assert [step.asking for step in steps if step.axis == "connections"] == tens
    assert {step.asking for step in steps if step.axis != "connections"} == {1}
    for axis in ("workers", "connected"):
        of_axis = [step for step in steps if step.axis == axis]
        assert [amount(step) for step in of_axis] == [10, 100, 1000, 10_000]
        assert {(step.connections, step.size, step.window) for step in of_axis} == {(1, 100, 100)}
    assert {step.asked for step in steps if step.axis == "connected"} == {1}
    assert len(set(steps)) == len(steps), "a step is the key of its own figures"


def test_a_window_of_long_bodies_is_smaller() -> None:
    assert window_for(100, 100) == 100
    assert window_for(SIZES[-1], 100) * SIZES[-1] <= WINDOW_BYTES_MAX
    assert window_for(WINDOW_BYTES_MAX * 2, 100) == 1


@given(st.integers(min_value=1, max_value=100_000), st.integers(min_value=50, max_value=20_000))
def test_a_crowd_is_shared_evenly_by_as_few_processes_as_can_hold_it(total: int, most: int) -> None:
    parts = list(shares(total, most))
    counts = [count for _, count in parts]
    assert [first for first, _ in parts] == [0, *accumulate(counts)][:-1]
    assert sum(counts) == total
    assert max(counts) <= most
    assert max(counts) - min(counts) <= 1
    assert len(parts) == -(-total // most)


def test_what_does_not_fit_is_said_and_left_out() -> None:
    limits, warning = fitting(Limits(workers=10_000, connections=1000), files=20_000)
    assert (limits.workers, warning) == (10_000, "")
    limits, warning = fitting(Limits(workers=10_000, connections=1000), files=4096)
    assert limits.workers == connections_that_fit(4096) - 1000
    assert "10000 workers do not fit" in warning
    assert fitting(Limits(workers=10, connections=1000), files=100)[0].workers == 1
    assert sockets_that_fit(100) == 1


def step(axis: str, cpu_us: float) -> dict[str, Any]:
    return {"axis": axis, "broker_cpu_us": cpu_us}


def test_growth_is_the_last_step_over_the_first() -> None:
    steps = [
        step("workers", 20),
        step("workers", 30),
        step("workers", 24),
        step("connected", 20),
        step("connected", 21),
        step("connections", 10),
        step("connections", 25),
        step("connections_idle", 0),
        step("connections_idle", 8),
    ]
    assert summary(steps) == {
        "growth": pytest.approx(1.2),
        "growth_connected": pytest.approx(1.05),
        "growth_connections": pytest.approx(2.5),
        "growth_connections_idle": 0.0,
        "steps": steps,
    }
    assert [each["ratio"] for each in steps[:5]] == pytest.approx([1.0, 1.5, 1.2, 1.0, 1.05])


def test_a_burst_is_seen_beside_the_mean() -> None:
    """Four looks a second apart; the whole second of CPU time was spent in one of them."""
    percents = idle_percents([5.0, 5.0, 6.0, 6.0, 6.0], idle_s=4.0)
    assert percents == {"cpu_percent": pytest.approx(25.0), "cpu_percent_peak": pytest.approx(100.0)}
