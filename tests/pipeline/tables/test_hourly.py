"""What is computed of tasks hour by hour is the same in this process and in Spark's tasks."""

from __future__ import annotations

import pytest
from tests.pipeline.tables.conftest import Makes, Rows, at

from famulus.pipeline.columnar.hours import HOUR, minutes_of
from famulus.pipeline.tables import hourly
from famulus.pipeline.tables.hourly import shares_of

HOUR_S = 3600


@pytest.mark.parametrize("results_here", [0, 1000])
def test_sparks_tasks_compute_the_same(
    rows: Rows, make: Makes, monkeypatch: pytest.MonkeyPatch, results_here: int
) -> None:
    kinds: list[dict[str, object]] = [{}, {"outcome": "LATE"}, {"outcome": "RETRY", "worker": None}, {}]
    several: list[dict[str, object]] = [
        {"message_id": f"m{number % 7}", "ended": at(number * 0.1 * HOUR_S), "service": f"s{number % 2}", **more}
        for number, more in enumerate(kinds * 5)
    ]
    opened = [{"message_id": f"m{number}", "at": at(number)} for number in range(10)]
    names = ("service_minutes", "worker_hours", "lost_attempts", "task_facts", "audit")

    def made() -> list[object]:
        tasks, open_tasks = rows.of("tasks", *several), rows.of("open_tasks", *opened)
        alone = [make(name, tasks=tasks) for name in names[:3]]
        return alone + [make(name, tasks=tasks, open_tasks=open_tasks) for name in names[3:]]

    here = made()
    assert all(here[at] for at in (0, 1, 3, 4))
    monkeypatch.setattr(hourly, "ROWS_HERE", 0)
    monkeypatch.setattr(hourly, "RESULTS_HERE", results_here)
    assert made() == here


def test_shares_are_runs_of_hours_with_about_as_many_rows() -> None:
    even = shares_of(dict.fromkeys(range(24), 5), 8)
    assert even == [[hour, hour + 1, hour + 2] for hour in range(0, 24, 3)]
    assert shares_of({3: 1, 1: 100, 2: 1, 4: 1}, 2) == [[1], [2, 3, 4]]
    assert shares_of({1: 0, 2: 0}, 4) == [[1, 2]]
    assert shares_of({}, 4) == []


@pytest.mark.parametrize("parts", range(1, 61))
def test_each_minute_is_in_one_part(parts: int) -> None:
    found = [(minute, part) for part in range(parts) for minute in minutes_of(part, parts)]
    assert found == [(minute, minute * parts // 60) for minute in HOUR]
