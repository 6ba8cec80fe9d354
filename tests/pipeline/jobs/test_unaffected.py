"""An hour that new rows have nothing to do with is not made again; every other one is."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.longer import longer
from tests.pipeline.jobs.conftest import EIGHT, HOUR_US, Journal, Tables, damaged_inside

from famulus.journal import schema
from famulus.pipeline.io import source
from famulus.pipeline.io.source import Sound
from famulus.pipeline.run import jobs, unaffected
from famulus.pipeline.run.unaffected import is_unaffected, unaffected_hours
from famulus.pipeline.tables import TABLES

BY_TASK = (TABLES["task_facts"], TABLES["audit"])
HALF = HOUR_US // 2


# -- the decision -----------------------------------------------------------------------------------------------------


def rows(*rows: tuple[str, str, str | None]) -> pa.Table:
    columns = ("message_id", "outcome", "delegated_from")
    fields = pa.schema(
        [*((name, pa.string()) for name in (*columns, "delegated_to", "broker", "boot")), ("row", pa.int64())]
    )
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], fields)


ONE = ("a", "OK", None)


@pytest.mark.parametrize(
    ("tasks", "opened", "after", "new", "unaffected"),
    [
        ([], [], [], [], True),
        ([ONE], [], [("b", "OK", None)], ["b"], True),
        ([ONE], [ONE], [("b", "OK", None)], ["b"], True),
        # A new row of one of its tasks.
        ([ONE], [], [("a", "LATE", None)], ["a"], False),
        ([], [ONE], [("a", "OK", None)], ["a"], False),
        # One that was left open: it ended in the hour after it, as was known before, or did not.
        ([], [ONE], [("a", "OK", None), ("b", "OK", None)], ["b"], True),
        ([], [ONE], [("b", "OK", None)], ["b"], False),
        ([("a", "RETRY", None)], [ONE], [], [], False),
        # One that was to be tried again, though no checkpoint saw it open.
        ([("a", "RETRY", None)], [], [], [], False),
        ([("a", "RETRY", None)], [], [("a", "OK", None)], [], True),
        # One half of a task that was handed over: the other may yet come.
        ([("a", "OK", "other")], [], [], [], False),
        ([("a", "OK", "other"), ("a", "OK", "other")], [], [], [], True),
        # Of a task that another broker accounts for, that one tells.
        ([], [("a", "", "other")], [], [], True),
        ([("a", "OK", "other")], [ONE], [], [], False),
    ],
)
def test_an_hour_is_unaffected_unless_its_own_tasks_are_told_of(
    tasks: list[Any], opened: list[Any], after: list[Any], new: list[str], unaffected: bool
) -> None:
    ids = pa.table({"message_id": pa.array(new, pa.string())})
    assert is_unaffected(tasks=rows(*tasks), opened=rows(*opened), tasks_after=rows(*after), new=ids) is unaffected


def test_an_hour_that_lacks_numbers_is_not_unaffected() -> None:
    """The next one may have the rows, or the gap that owns up to them."""
    none = rows().select(["message_id"])
    for numbers, is_so in (([1, 2, 3], True), ([1, 3], False), ([7], True), ([None], True)):
        own = rows(*[(str(place), "OK", None) for place, _ in enumerate(numbers)])
        named = own.set_column(4, "broker", pa.array(["b"] * len(numbers))).set_column(
            5, "boot", pa.array(["1"] * len(numbers))
        )
        tasks = named.set_column(6, "row", pa.array(numbers, pa.int64()))
        assert is_unaffected(tasks=tasks, opened=rows(), tasks_after=rows(), new=none) is is_so


# -- whole runs -------------------------------------------------------------------------------------------------------


def unaffected_after(journal: Journal, new: list[Path]) -> set[int]:
    """Of the hours around eight o'clock those that are unaffected, were these files the new ones."""
    sound = [each for each in source.check_all(journal.place, list(journal.place.files())) if isinstance(each, Sound)]
    fresh = {str(path.relative_to(journal.folder)) for path in new}
    eight = EIGHT // HOUR_US
    found = unaffected_hours(journal.place, sound, [each for each in sound if each.path in fresh], [eight, eight + 1])
    return {hour - eight for hour in found}


def test_files_tell_which_hours_are_unaffected(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.write(journal.tasks(0, 0), 1)
    journal.write(journal.tasks(1, 100), 1)
    new = journal.write(journal.tasks(1, 200), 2)
    late = journal.write([journal.task(3, EIGHT + HOUR_US + HALF, outcome="LATE")], 3)
    assert unaffected_after(journal, [new]) == {0, 1}
    assert unaffected_after(journal, [new, late]) == {1}
    # To look at very many rows would take longer than to make them.
    monkeypatch.setattr(unaffected, "ROWS_MAX", 80)
    assert unaffected_after(journal, [new]) == {1}


def test_of_what_cannot_be_read_nobody_knows_whether_it_is_unaffected(journal: Journal) -> None:
    journal.write(journal.tasks(0, 0), 1)
    new = journal.write(journal.tasks(1, 100), 1)
    assert unaffected_after(journal, [new]) == {0, 1}
    damaged_inside(new)
    assert unaffected_after(journal, [new]) == set()


def test_files_of_open_tasks_tell_as_well(journal: Journal) -> None:
    left = {"message_id": "left", "delegated_from": None}
    journal.write([journal.row("open_tasks", **left, at=EIGHT + HALF)], 1, table="open_tasks")
    new = journal.write(journal.tasks(1, 100), 1)
    assert unaffected_after(journal, [new]) == {1}
    ended = journal.write([journal.task(1, EIGHT + HOUR_US + HALF, **left)], 2)
    assert unaffected_after(journal, [new]) == {0, 1}
    assert unaffected_after(journal, [ended]) == {1}
    seen = journal.write([journal.row("open_tasks", **left, at=EIGHT + HOUR_US)], 2, table="open_tasks")
    assert unaffected_after(journal, [seen]) == {1}


def test_an_unaffected_hour_is_left_as_it_is(spark: SparkSession, journal: Journal, tables: Tables) -> None:
    def hours() -> list[int]:
        summary = jobs.run(spark, journal.place, tables.place, registry=BY_TASK)
        return [each.hours for each in summary.tables]

    journal.write(journal.tasks(0, 0), 1)
    journal.write(journal.tasks(1, 100), 1)
    assert hours() == [4, 4]
    journal.write(journal.tasks(1, 200), 2)
    assert hours() == [2, 2]


def pieces(journal: Journal, chance: random.Random) -> list[tuple[str, list[dict[str, Any]]]]:
    """A few tasks over four hours that have to do with each other in all ways there are, in the order of time."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number in range(40):
        at = EIGHT + chance.randrange(4 * HOUR_US)
        where = {"broker": chance.choice(["b1", "b2"]), "boot": "life"}
        who = {"message_id": f"m{chance.randrange(25):02}", "delegated_from": chance.choice([None, None, "b9"])}
        if chance.random() < 0.5:
            found.append(("open_tasks", journal.row("open_tasks", ticket=number, at=at, **where, **who)))
        if chance.random() < 0.8:
            ended = at + chance.choice([1_000_000, 60_000_000, HALF])
            outcome = chance.choice(["OK", "OK", "ERROR", "UNKNOWN", "RETRY", "LATE"])
            took = chance.choice([1, 1, 70, 200]) * 10**9
            found.append(("tasks", journal.task(number, ended, outcome=outcome, total_ns=took, **where, **who)))
    for _ in range(4):
        at, event = EIGHT + chance.randrange(4 * HOUR_US), chance.choice(["process_died", "start", "stop", "gap"])
        broker = {"broker": chance.choice(["b1", "b2"]), "boot": chance.choice(["life", "other"])}
        found.append(("brokers", journal.row("brokers", at=at, event=event, process="dispatcher", **broker)))
    lost = {"at": EIGHT + chance.randrange(4 * HOUR_US), "broker": "b1", "peer": "b2", "event": "lost"}
    found.append(("peers", journal.row("peers", **lost)))
    found.sort(key=lambda each: each[1][schema.TIME_COLUMN[each[0]]])
    # A file each: so they may come in any order.
    return [(table, [row]) for table, row in found]


def same_as_at_once(
    spark: SparkSession, journal: Journal, tables: Tables, batches: Iterable[list[tuple[str, list[dict[str, Any]]]]]
) -> bool:
    """Whether a run after each batch gives what one run over everything gives."""
    number = 0
    for batch in batches:
        for table, rows in batch:
            journal.write(rows, number := number + 1, table=table)
        jobs.run(spark, journal.place, tables.place, registry=BY_TASK)
    at_once = Tables(tables.folder.with_name("at_once"))
    jobs.run(spark, journal.place, at_once.place, registry=BY_TASK)
    return tables.all() == at_once.all()


@pytest.mark.parametrize("story", ["a late answer", "a death"])
def test_what_the_next_hour_tells_of_an_hour_is_seen(
    spark: SparkSession, journal: Journal, tables: Tables, story: str
) -> None:
    left = journal.row("open_tasks", broker="b1", message_id="left", at=EIGHT + HALF)
    died = journal.row("brokers", broker="b1", event="process_died", process="dispatcher", at=EIGHT + HOUR_US + 1)
    late = journal.task(3, EIGHT + HOUR_US + HALF, outcome="LATE")
    first = [("tasks", journal.tasks(0, 0)), ("tasks", journal.tasks(1, 100))]
    if story == "a death":
        batches = [[*first, ("open_tasks", [left])], [("brokers", [died])]]
    else:
        batches = [first, [("tasks", [late])]]
    assert same_as_at_once(spark, journal, tables, batches)
    what = {"a late answer": lambda row: row["late"] == 1, "a death": lambda row: row["message_id"] == "left"}[story]
    assert len(list(filter(what, tables.rows("task_facts")))) == 1


@pytest.mark.parametrize("news", ["of the hour before it", "two hours after it"])
def test_a_crash_is_told_of_by_the_tasks_of_the_hour_before_it(
    spark: SparkSession, journal: Journal, tables: Tables, news: str
) -> None:
    """It swallowed a task of that hour, which is not overdue: so much is known by the hour before that one alone."""
    long_one = journal.task(1, EIGHT + HALF, service="x", total_ns=200 * 10**9)
    left = journal.row("open_tasks", broker="b1", message_id="left", at=EIGHT + 2 * HOUR_US - 300_000_000)
    crash = EIGHT + 2 * HOUR_US + 30_000_000
    died = journal.row("brokers", broker="b1", event="process_died", process="dispatcher", at=crash)
    late = journal.task(200, EIGHT + 3 * HOUR_US + HALF, outcome="LATE")
    first = [("open_tasks", [left]), ("brokers", [died]), ("tasks", journal.tasks(2, 200))]
    if news == "of the hour before it":
        batches = [first, [("tasks", [long_one])]]
    else:
        batches = [[*first, ("tasks", [long_one])], [("tasks", [late])]]
    assert same_as_at_once(spark, journal, tables, batches)
    assert [row["rows"] for row in tables.rows("audit") if row["kind"] == "crash_window"] == [1]


@longer
@pytest.mark.parametrize("seed", range(10))
def test_pieces_in_whatever_order_give_what_one_run_would_have_given(
    spark: SparkSession, journal: Journal, tables: Tables, seed: int
) -> None:
    chance = random.Random(seed)
    left = pieces(journal, chance)

    def batches() -> Iterator[list[tuple[str, list[dict[str, Any]]]]]:
        while left:
            # Mostly in order.
            count = min(len(left), chance.randrange(4, 20))
            yield [left.pop(0 if chance.random() < 0.9 else -1) for _ in range(count)]

    assert same_as_at_once(spark, journal, tables, batches()), f"seed {seed}"
