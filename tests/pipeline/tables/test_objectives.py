"""How services meet their objectives, and what an admin is told of it."""

from __future__ import annotations

import math
from typing import Any, Final

from pyspark.sql import DataFrame
from tests.pipeline.tables.conftest import MS, Makes, Rows, at

DAY: Final = 86_400
SAID: Final = '{"share":0.9,"within_ms":500,"days":30}'
Row = dict[str, Any]


def bucket(ms: float) -> int:
    return math.floor(math.log(ms * MS + 1) * 16)


def hist(**counts: int) -> list[Row]:
    """`ms400=3`: three that took about 400 ms."""
    return [{"bucket": bucket(int(name[2:])), "count": count} for name, count in counts.items()]


def minute(seconds: float, tasks: int, ok: int, total: list[Row], not_ok: list[Row] | None, **more: Any) -> Row:
    row = {
        "service": "echo",
        "broker": "b1",
        "date": at(seconds).date(),
        "minute": at(seconds),
        "tasks": tasks,
        "ok": ok,
    }
    return {**row, "total_hist": total, "not_ok_hist": not_ok, **more}


def told(said: str = SAID, seconds: float = 0, service: str = "echo") -> Row:
    when = {"date": at(seconds).date(), "hour": at(seconds).hour, "objective_told": at(seconds)}
    return {"service": service, "broker": "b1", **when, "objective": said}


def loads(rows: Rows, *tellings: Row) -> DataFrame:
    return rows.of("service_loads", {"service": "echo", "broker": "b1", "date": at().date(), "samples": 9}, *tellings)


def test_what_ended_ok_and_in_time_is_good(rows: Rows, make: Makes) -> None:
    service_minutes = rows.of(
        "service_minutes",
        # One is late, one failed at once, and one failed late: it is bad once.
        minute(0, 10, 8, hist(ms400=8, ms600=2), hist(ms400=1, ms600=1)),
        minute(0, 10, 10, hist(ms499=10), [], broker="b2"),
        minute(60, 4, 4, hist(ms400=3, ms5000=1), []),
        minute(3600, 10, 10, hist(ms1=10), []),
        minute(3660, 0, 0, [], []),
        minute(0, 7, 0, hist(ms1=7), hist(ms1=7), service="other"),
    )
    first, second = make("objectives", service_loads=loads(rows, told()), service_minutes=service_minutes)
    assert (first["service"], first["share"], first["within_ms"], first["days"]) == ("echo", 0.9, 500, 30)
    assert (first["at"], first["tasks"], first["good"], first["bad"]) == (at(), 24, 20, 4)
    assert math.isclose(first["burn_rate"], 4 / 24 / 0.1)
    assert (second["at"], second["tasks"], second["good"], second["bad"]) == (at(3600), 10, 10, 0)
    assert second["burn_rate"] == 0
    assert math.isclose(second["burnt"], 4 / 34 / 0.1)


def test_hours_of_an_older_pipeline_have_no_histogram_of_what_was_not_ok(rows: Rows, make: Makes) -> None:
    """Then it is not known whether what was late was OK."""
    service_minutes = rows.of(
        "service_minutes",
        minute(0, 10, 8, hist(ms400=8, ms600=2), None),
        minute(60, 3, 1, hist(ms600=3), None),
    )
    (row,) = make("objectives", service_loads=loads(rows, told()), service_minutes=service_minutes)
    assert (row["tasks"], row["bad"]) == (13, 4 + 3)


def test_without_a_time_only_the_outcome_counts(rows: Rows, make: Makes) -> None:
    said = '{"share":0.9,"within_ms":null,"days":30}'
    service_minutes = rows.of("service_minutes", minute(0, 10, 8, hist(ms90000=10), hist(ms90000=2)))
    (row,) = make("objectives", service_loads=loads(rows, told(said)), service_minutes=service_minutes)
    assert (row["within_ms"], row["bad"]) == (None, 2)


def test_the_latest_objective_holds_for_all_of_its_days(rows: Rows, make: Makes) -> None:
    service_minutes = rows.of(
        "service_minutes",
        *[minute(-days * DAY, 10, 9, hist(ms1=10), hist(ms1=1)) for days in (0, 1, 6, 8)],
    )
    tellings = (told(seconds=-DAY), told('{"share":0.5,"within_ms":500,"days":7}', 30))
    found = make("objectives", service_loads=loads(rows, *tellings), service_minutes=service_minutes)
    assert [row["at"] for row in sorted(found, key=lambda row: row["at"])] == [at(-6 * DAY), at(-DAY), at()]
    assert {(row["share"], row["days"]) for row in found} == {(0.5, 7)}


def test_without_objectives_there_are_no_rows(rows: Rows, make: Makes) -> None:
    service_minutes = rows.of("service_minutes", minute(0, 10, 8, [], []))
    for tellings in ((), (told("null"),), (told(seconds=-3 * DAY),), (told("no JSON"),)):
        assert make("objectives", service_loads=loads(rows, *tellings), service_minutes=service_minutes) == []
    assert make("objectives", service_loads=loads(rows, told())) == []


def burst(*bad: int, tasks: int = 100) -> list[Row]:
    """A minute for each number of bad tasks."""
    return [minute(60 * n, tasks, tasks - each, hist(ms1=tasks), hist(ms1=each)) for n, each in enumerate(bad)]


def test_a_budget_burns_too_fast_if_it_does_for_long_and_still_does(rows: Rows, make: Makes) -> None:
    """With a share of 0.99, 14.4 times too many are 14.4 of 100."""
    said = '{"share":0.99,"within_ms":null,"days":30}'

    def alarms(*bad: int, tasks: int = 100) -> list[tuple[int, int]]:
        service_minutes = rows.of("service_minutes", *burst(*bad, tasks=tasks))
        made = make("objectives", service_loads=loads(rows, told(said)), service_minutes=service_minutes)
        return [(row["fast_minutes"], row["slow_minutes"]) for row in sorted(made, key=lambda row: row["at"])]

    assert alarms(*[15] * 10) == [(10, 10)]
    assert alarms(*[14] * 10) == [(0, 10)]
    # Over the hour it would be enough, but the last five minutes are well. Those of the other alarm are half an hour.
    assert alarms(*[30] * 10, *[0] * 10) == [(12, 20)]
    # Sixty minutes have no trouble; then there is much, but at first not enough of it for an hour.
    assert alarms(*[0] * 60, *[100] * 10)[1] == (2, 7)
    # All of few.
    assert alarms(*[1] * 9, tasks=1) == [(0, 0)]
    assert alarms(*[1] * 11, tasks=1) == [(2, 2)]


def test_an_admin_is_told_of_budgets_that_burn_and_that_are_used_up(rows: Rows, make: Makes) -> None:
    hour = {"share": 0.99, "days": 30, "tasks": 1000, "bad": 5, "good": 995, "burnt": 0.5, "burn_rate": 0.5}
    hot = {**hour, "bad": 200, "burn_rate": 20.0}
    found = make(
        "findings",
        service_hours=rows.of("service_hours", {"service": "echo", "family": "main", "date": at().date(), "at": at()}),
        objectives=rows.of(
            "objectives",
            {**hour, "service": "fine", "at": at()},
            {**hot, "service": "fast", "at": at(-3600), "fast_minutes": 7, "slow_minutes": 9, "within_ms": 500},
            {**hour, "service": "fast", "at": at(), "burnt": 1.3, "within_ms": 500},
            {**hot, "service": "slow", "at": at(), "slow_minutes": 1},
            {**hot, "service": "past", "at": at(-DAY), "fast_minutes": 7, "burnt": 7.0},
            {**hour, "service": "past", "at": at()},
        ),
    )
    assert {(row["kind"], row["subject"]): (row["severity"], row["key"]) for row in found} == {
        ("budget_burning", "fast"): ("critical", None),
        ("budget_burning", "slow"): ("warning", None),
        ("budget_used_up", "fast"): ("warning", None),
    }
    evidence = {(row["kind"], row["subject"]): row["evidence"] for row in found}
    assert evidence["budget_burning", "fast"] == (
        "at 9 minutes of the last day; most in the hour from 2026-11-15 11:00 UTC: 200 of 1000 tasks were bad, "
        "20.0 times as many as may be"
    )
    assert evidence["budget_used_up", "fast"] == (
        "205 of 2000 tasks of the last 30 days did not end OK within 500 ms, 1.3 times as many as may"
    )


def test_an_objective_is_beside_the_loads_of_its_hour(rows: Rows, make: Makes) -> None:
    telling = {"event": "objective", "service": "echo"}
    brokers = rows.of(
        "brokers",
        {**telling, "detail": "null"},
        {**telling, "detail": SAID, "at": at(5)},
        {"event": "load", "service": "echo", "slots_free": 0, "slots_busy": 2, "backlog": 1, "at": at(1)},
        {**telling, "service": "idle", "detail": SAID},
    )
    echo, idle = sorted(make("service_loads", brokers=brokers), key=lambda row: row["service"])
    assert (echo["objective"], echo["objective_told"]) == (SAID, at(5))
    assert (echo["samples"], echo["slots_sum"], echo["saturated_s"]) == (1, 2, 1)
    assert (idle["objective"], idle["samples"], idle["slots_max"]) == (SAID, 0, 0)
    (load,) = make("service_loads", brokers=rows.of("brokers", {"event": "load", "service": "echo", "slots_free": 1}))
    assert (load["objective"], load["objective_told"]) == (None, None)


def test_histograms_of_an_older_pipeline_are_summed_without_the_one_that_they_lack(rows: Rows, make: Makes) -> None:
    hour = {"service": "echo", "family": "main", "date": at().date(), "tasks": 3, "total_hist": hist(ms1=3)}
    hours = rows.of("service_hours", {**hour, "not_ok_hist": None}, {**hour, "hour": 1, "not_ok_hist": hist(ms1=2)})
    (day,) = make("service_days", service_hours=hours)
    assert (day["total_hist"], day["not_ok_hist"]) == (hist(ms1=6), hist(ms1=2))
