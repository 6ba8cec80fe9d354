"""Comparisons: which rows are on which side, what is decided, and in which words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.pipeline.conftest import START, Put, Row, histogram

from famulus.errors import PlaceError, QueryError
from famulus.pipeline.compare import words
from famulus.pipeline.compare.comparison import Comparison
from famulus.pipeline.compare.reading import compare_times, compare_workers, named
from famulus.pipeline.compare.sides import TimeRange, around, workers_side
from famulus.pipeline.report.reading import Tables

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def minutes(service: str, begin: datetime, count: int, *times_ms: float, failed: int = 0) -> Iterator[Row]:
    """Each minute the same, save that every other one is a little slower."""
    for number in range(count):
        times = [each * (1 + number % 2 / 10) for each in times_ms]
        yield {
            "minute": begin + timedelta(minutes=number), "service": service, "tasks": len(times),
            "ok": len(times) - failed, "runs": len(times), "busy_ns": int(sum(times) * 5e5),
            "total_hist": histogram(*times), "queue_hist": histogram(*(each / 2 for each in times)),
        }  # fmt: skip


def hours(first: int, last: int) -> TimeRange:
    return TimeRange(NOON.replace(hour=first), NOON.replace(hour=last))


def by_service(found: list[Comparison]) -> dict[str, Comparison]:
    return {each.service: each for each in found}


@pytest.fixture
def compared(put: Put) -> dict[str, Comparison]:
    """An hour before ten and the hour after it, of services to which different things happen."""
    ten = NOON.replace(hour=10)
    nine = NOON.replace(hour=9)
    usual = [10.0] * 18 + [20.0, 40.0]
    tables = put(
        "service_minutes",
        *minutes("same", nine, 60, *usual),
        *minutes("same", ten, 60, *usual),
        *minutes("slower", nine, 60, *usual),
        *minutes("slower", ten, 60, *(2 * each for each in usual)),
        *minutes("tail", nine, 60, *usual),
        *minutes("tail", ten, 60, *([10.0] * 16), 10.0, 200.0, 200.0, 400.0),
        *minutes("failing", nine, 60, *usual),
        *minutes("failing", ten, 60, *usual, failed=2),
        *minutes("rare", nine, 2, *usual),
        *minutes("new", ten, 60, *usual),
        # Hours that are not asked about.
        *minutes("same", NOON, 60, 9e3, failed=1),
        *minutes("never", NOON, 60, *usual),
    )
    return by_service(compare_times(Tables(tables), hours(9, 10), hours(10, 11), None))


def test_what_differs_comes_first_and_what_cannot_be_said_last(compared: dict[str, Comparison]) -> None:
    assert list(compared) == ["failing", "slower", "tail", "same", "new", "rare"]
    verdicts = {name: (each.fails, each.slower, each.slow_tasks) for name, each in compared.items()}
    assert verdicts == {
        "failing": (True, False, False),
        "slower": (False, True, True),
        "tail": (False, True, True),
        "same": (False, False, False),
        "new": (False, False, False),
        "rare": (False, False, False),
    }


def test_the_figures_are_those_of_the_hours(compared: dict[str, Comparison]) -> None:
    before, after = compared["failing"].before, compared["failing"].after
    assert (before.tasks, before.failed, before.failed_share) == (1200, 0, 0.0)
    assert (after.tasks, after.failed, after.failed_share) == (1200, 120, 0.1)
    assert before.p50_ns == pytest.approx(10e6, rel=0.11)
    assert before.p99_ns == pytest.approx(44e6, rel=0.11)
    # On average a task takes 12 ms and a twentieth more, and half of it is wait.
    assert before.wait_ns == pytest.approx(6.3e6, rel=0.04)
    assert before.run_ns == pytest.approx(6.3e6)
    slower = compared["slower"].time
    assert slower is not None
    assert slower.ratio == pytest.approx(2, rel=0.05)
    nobody = compared["new"].before
    assert (nobody.tasks, nobody.failed_share, nobody.p50_ns, nobody.run_ns) == (0, None, None, None)


def test_it_is_said_in_plain_words(compared: dict[str, Comparison]) -> None:
    said = {name: list(words.sentences(each)) for name, each in compared.items()}
    assert said["failing"] == ["fails more: 10 % of tasks instead of 0 % (p < 0.001)"]
    assert said["same"] == ["no difference that chance does not explain"]
    assert said["rare"] == said["new"]
    assert said["rare"][0].startswith("too few tasks to say: on each side it takes 30, in 5 different ")
    assert said["slower"][0] == "slower: 1.99 times the time of a typical task (p < 0.001)"
    assert said["tail"][1].startswith("more slow tasks: 10 % take longer than 196 ms, instead of 0 %")
    assert words.summary(list(compared.values())).startswith("3 of 4 services differ by more than chance explains")
    assert words.summary([compared["rare"]]) == "nothing can be said: there are too few tasks"


def test_before_and_after_the_other_way_round_say_the_opposite(put: Put) -> None:
    usual = [10.0] * 20
    tables = put(
        "service_minutes",
        *minutes("echo", NOON, 30, *(4 * each for each in usual[2:]), 500.0, 500.0, failed=4),
        *minutes("echo", NOON + timedelta(minutes=30), 30, *usual),
    )
    (echo,) = compare_times(Tables(tables), *around(NOON + timedelta(minutes=30), timedelta(minutes=30)), None)
    fails, faster, slow = words.sentences(echo)
    assert fails.startswith("fails less: 0 % of tasks instead of 20 %")
    assert faster.startswith("faster: 0.19 times the time of a typical task")
    assert slow.startswith("fewer slow tasks: ")
    rows = list(words.rows(echo))
    assert rows[0][:4] == ("echo", "before", "600", "20 %")
    assert rows[2][:5] == ("", "change", "+0 %", "-20.0", "-78 %")


def test_fewer_services_are_fewer_tests(put: Put, compared: dict[str, Comparison]) -> None:
    del compared
    tables = Tables(put("service_days").parent / "tables")
    (one,) = compare_times(tables, hours(9, 10), hours(10, 11), ["failing"])
    assert one.failed is not None
    assert one.failed.p_of_all <= 3 * one.failed.p
    with pytest.raises(QueryError, match=r"no service 'never' among these tasks; there are failing, new, rare, "):
        compare_times(tables, hours(9, 10), hours(10, 11), ["never"])


def test_a_range_without_tasks_says_which_there_are(put: Put) -> None:
    tables = Tables(put("service_minutes", *minutes("echo", NOON, 60, 10.0)))
    told = "no tasks ended from 2026-03-02 09:00 to 10:00 UTC; the tables have those from 2026-03-02 12:00 to 13:00 UTC"
    with pytest.raises(QueryError, match=told):
        compare_times(tables, hours(9, 10), hours(12, 13), None)


def test_no_table_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PlaceError, match="there is no table service_minutes there"):
        compare_times(Tables(tmp_path), hours(9, 10), hours(10, 11), None)


# -- ranges --------------------------------------------------------------------------------------------------------


def test_a_range_has_the_minutes_that_begin_in_it() -> None:
    span = TimeRange(START + timedelta(seconds=1), START + timedelta(minutes=3, seconds=1))
    at = [START + timedelta(minutes=number) for number in range(5)]
    bins = span.side().bin_of(0, _instants(at))
    assert bins.tolist() == [-1, 0, 1, 2, -1]
    assert span.side().bins == 3


def test_a_long_range_has_longer_bins_and_not_more() -> None:
    side = TimeRange(START, START + timedelta(days=30)).side()
    assert side.bins == 720
    last = START + timedelta(days=30) - timedelta(minutes=1)
    assert side.bin_of(0, _instants([START, last])).tolist() == [0, 719]


def test_a_range_knows_its_hours() -> None:
    span = TimeRange(START.replace(hour=23), START.replace(hour=23) + timedelta(hours=2, minutes=1))
    assert span.hours_of_day == {23, 0, 1}
    assert str(span) == "2026-03-02 23:00 to 2026-03-03 01:01 UTC"
    assert not around(START, timedelta(hours=1))[0].overlaps(around(START, timedelta(hours=1))[1])


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(QueryError, match="a range ends a minute after its begin, or later: not so 2026-03-02 08:00 to"):
        TimeRange(START, START - timedelta(hours=1))


def _instants(at: list[datetime]) -> pa.Array:
    return pa.array(at, pa.timestamp("us", tz="UTC"))


# -- workers -------------------------------------------------------------------------------------------------------


def shifts(worker: str, time_ms: float, failed: int = 0) -> Iterator[Row]:
    for hour in range(6, 18):
        times = [time_ms * (1 + (hour + each) % 3 / 10) for each in range(20)]
        yield {"worker": worker, "hour": hour, "service": "echo", "tasks": 20, "ok": 20 - failed,
               "busy_ns": int(sum(times) * 1e6), "service_hist": histogram(*times)}  # fmt: skip


def test_each_hour_of_each_worker_is_a_bin_of_its_own() -> None:
    side = workers_side("w*", ["w2", "x", "w1"], [7, 8, 9])
    assert side.bins == 6
    names = pa.array(["w1", "x", "w2", "w1"])
    assert [side.bin_of(hour, names).tolist() for hour in (6, 7, 9)] == [[-1] * 4, [0, -1, 3, 0], [2, -1, 5, 2]]


def test_one_set_of_workers_with_another(put: Put) -> None:
    tables = Tables(
        put(
            "worker_hours",
            *shifts("old-1", 10.0),
            *shifts("old-2", 10.0),
            *shifts("new-1", 30.0, failed=3),
            *shifts("x", 99.0),
        )
    )
    (echo,) = compare_workers(tables, "old-*", "new-?", None, None)
    assert (echo.before.tasks, echo.after.tasks) == (480, 240)
    assert (echo.fails, echo.slower) == (True, True)
    assert echo.after.run_ns == pytest.approx(33e6, rel=0.05)
    assert echo.before.wait_ns is None
    (morning,) = compare_workers(tables, "old-*", "new-*", hours(6, 9), None)
    assert (morning.before.tasks, morning.after.tasks) == (120, 60)


@pytest.mark.parametrize(
    ("before", "after", "during", "said"),
    [
        ("none-*", "new-*", None, "no worker has a name like 'none-.'; there are new-1, old-1"),
        ("*", "new-*", None, "new-1 would be on both sides"),
        ("old-*", "new-*", hours(19, 20), "no worker had tasks from 2026-03-02 19:00 to 20:00 UTC; the tables have"),
    ],
)
def test_sets_of_workers_that_make_no_sense(
    put: Put, before: str, after: str, during: TimeRange | None, said: str
) -> None:
    tables = Tables(put("worker_hours", *shifts("old-1", 10.0), *shifts("new-1", 10.0)))
    with pytest.raises(QueryError, match=said):
        compare_workers(tables, before, after, during, None)


def test_many_names_are_cut_short() -> None:
    assert named({f"w{number:02}" for number in range(15)}).endswith("w11 and 3 more")
