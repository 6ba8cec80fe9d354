"""Where the time of tasks goes, from histograms by bins of time."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from famulus.pipeline.histogram import BUCKETS
from famulus.pipeline.report.time_spent import TimeSpent, time_spent
from famulus.pipeline.report.timeline import COUNTS, HISTOGRAMS, TimeAxis, Timeline

MS = 1_000_000
#: By service, the waits, the runs and the totals of each bin, in milliseconds.
Times = dict[str, list[tuple[list[float], list[float], list[float]]]]


def timeline_of(times: Times) -> Timeline:
    bins = max(len(each) for each in times.values())
    counts = {name: np.zeros((len(times), bins), dtype=np.int64) for name in COUNTS}
    histograms = {name: np.zeros((len(times), bins, BUCKETS), dtype=np.int64) for name in HISTOGRAMS}
    for service, parts in enumerate(times.values()):
        for at, three in enumerate(parts):
            counts["tasks"][service, at] = len(three[2])
            for name, values in zip(HISTOGRAMS, three, strict=True):
                for ms in values:
                    histograms[name][service, at, math.floor(math.log(ms * MS + 1) * 16)] += 1
    return Timeline(TimeAxis(0, 1, bins), list(times), counts, histograms, datetime(2026, 3, 2, tzinfo=UTC))


def test_the_time_of_tasks_is_waiting_and_running() -> None:
    (echo,) = time_spent(timeline_of({"echo": [([30, 30], [10, 10], [40, 40]), ([], [], []), ([0], [20], [20])]}))
    assert (echo.service, echo.tasks) == ("echo", 3)
    assert echo.wait_share == pytest.approx(60 / 100, rel=0.05)
    shares = echo.wait_shares()
    assert shares[0] == pytest.approx(0.75, rel=0.05)
    assert np.isnan(shares[1])
    assert shares[2] == pytest.approx(0, abs=0.001)
    together = echo.wait_shares(2)
    assert together == pytest.approx([0.75, 0], rel=0.05, abs=0.001)


def test_each_part_has_its_own_percentiles() -> None:
    waits, runs = [1.0] * 96 + [500.0] * 4, [20.0] * 50 + [200.0] * 50
    totals = [wait + run for wait, run in zip(waits, runs, strict=True)]
    (echo,) = time_spent(timeline_of({"echo": [(waits, runs, totals)]}))
    assert [each / MS for each in echo.waits] == pytest.approx([1, 1, 500], rel=0.035)
    assert [each / MS for each in echo.runs] == pytest.approx([20, 200, 200], rel=0.035)
    assert [each / MS for each in echo.totals] == pytest.approx([21, 201, 700], rel=0.035)


def test_those_that_wait_longest_together_come_first_and_those_without_tasks_not_at_all() -> None:
    found = time_spent(
        timeline_of(
            {
                "quick": [([1] * 10, [1] * 10, [2] * 10)],
                "slow": [([90], [9000], [9090])],
                "silent": [([], [], [])],
                # Turned away: it waited, and never ran.
                "full": [([100], [], [100])],
            }
        )
    )
    assert [each.service for each in found] == ["full", "slow", "quick"]
    full: TimeSpent = found[0]
    assert full.wait_share == 1
    assert all(np.isnan(each) for each in full.runs)
