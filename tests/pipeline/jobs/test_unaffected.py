"""An hour that new rows have nothing to do with is not made again; every other one is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.longer import longer
from tests.pipeline.jobs.conftest import EIGHT, HOUR_US, Journal, Tables, damaged_inside

from famulus.journal import schema
from famulus.journal.schema import Kind
from famulus.pipeline.io import source
from famulus.pipeline.io.source import Sound
from famulus.pipeline.run import jobs, unaffected
from famulus.pipeline.run.unaffected import is_unaffected, unaffected_hours
from famulus.pipeline.tables import TABLES

BY_TASK = (TABLES["task_facts"], TABLES["audit"])
HALF = HOUR_US // 2
#: Rows of a table of the journal, which are a file of their own.
Piece = tuple[str, list[dict[str, Any]]]
#: What is known at first, and what comes later.
Story = tuple[list[Piece], list[Piece]]
#: Of each table those of one day.
Rows = dict[str, list[dict[str, Any]]]
Told = Callable[[Callable[[Journal], Story]], tuple[Rows, Rows]]


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


def pieces(journal: Journal, chance: random.Random) -> list[Piece]:
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


def in_batches(spark: SparkSession, journal: Journal, tables: Tables, batches: Iterable[list[Piece]]) -> Tables:
    """Runs after each batch; and what one run over everything gives."""
    number = 0
    for batch in batches:
        for table, rows in batch:
            journal.write(rows, number := number + 1, table=table)
        jobs.run(spark, journal.place, tables.place, registry=BY_TASK)
    at_once = Tables(tables.folder.with_name("at_once"))
    jobs.run(spark, journal.place, at_once.place, registry=BY_TASK)
    return at_once


def a_late_answer(journal: Journal) -> Story:
    late = journal.task(3, EIGHT + HOUR_US + HALF, outcome="LATE")
    return [("tasks", journal.tasks(0, 0)), ("tasks", journal.tasks(1, 100))], [("tasks", [late])]


def a_death(journal: Journal) -> Story:
    left = journal.row("open_tasks", broker="b1", message_id="left", at=EIGHT + HALF)
    died = journal.row("brokers", broker="b1", event="process_died", process="dispatcher", at=EIGHT + HOUR_US + 1)
    first = [("tasks", journal.tasks(0, 0)), ("tasks", journal.tasks(1, 100)), ("open_tasks", [left])]
    return first, [("brokers", [died])]


def a_crash(journal: Journal) -> tuple[list[Piece], Piece]:
    """It swallowed a task of the hour before it, which is not overdue: so says a long one, an hour earlier."""
    long_one = journal.task(1, EIGHT + HALF, service="x", total_ns=200 * 10**9)
    left = journal.row("open_tasks", broker="b1", message_id="left", at=EIGHT + 2 * HOUR_US - 300_000_000)
    crash = EIGHT + 2 * HOUR_US + 30_000_000
    died = journal.row("brokers", broker="b1", event="process_died", process="dispatcher", at=crash)
    return [("open_tasks", [left]), ("brokers", [died]), ("tasks", journal.tasks(2, 200))], ("tasks", [long_one])


def a_crash_with_news_of_the_hour_before_it(journal: Journal) -> Story:
    first, long_one = a_crash(journal)
    return first, [long_one]


def a_crash_with_news_two_hours_after_it(journal: Journal) -> Story:
    first, long_one = a_crash(journal)
    late = journal.task(200, EIGHT + 3 * HOUR_US + HALF, outcome="LATE")
    return [*first, long_one], [("tasks", [late])]


STORIES = (
    a_late_answer,
    a_death,
    a_crash_with_news_of_the_hour_before_it,
    a_crash_with_news_two_hours_after_it,
)


def moved(piece: Piece, days: int) -> Piece:
    table, rows = piece
    instants = [column.name for column in schema.TABLES[table] if column.kind is Kind.INSTANT]
    later = days * 24 * HOUR_US
    return table, [row | {name: row[name] + later for name in instants if row[name] is not None} for row in rows]


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the tables say to each story: in two batches, and at once. To plan an audit takes seconds, so they share it:
    each has a day of its own, which no rule looks beyond."""
    folder = tmp_path_factory.mktemp("stories")
    journal, tables = Journal(folder / "journal"), Tables(folder / "tables")
    stories = [story(journal) for story in STORIES]
    batches = [[moved(piece, day) for day, story in enumerate(stories) for piece in story[at]] for at in (0, 1)]
    at_once = in_batches(spark, journal, tables, batches)
    first = datetime.fromtimestamp(EIGHT // 10**6, UTC).date()
    days = {str(first + timedelta(day)): story for day, story in enumerate(STORIES)}
    both = [
        [(days[str(row["date"])], name, row) for name, rows in each.all().items() for row in rows]
        for each in (tables, at_once)
    ]

    def of(story: Callable[[Journal], Story]) -> tuple[Rows, Rows]:
        in_pieces, whole = (
            {
                table.name: [row for whose, name, row in each if (whose, name) == (story, table.name)]
                for table in BY_TASK
            }
            for each in both
        )
        return in_pieces, whole

    return of


def test_what_the_next_hour_tells_of_an_hour_is_seen_as_of_a_late_answer(told: Told) -> None:
    in_pieces, at_once = told(a_late_answer)
    assert in_pieces == at_once
    assert len([row for row in in_pieces["task_facts"] if row["late"] == 1]) == 1


def test_what_the_next_hour_tells_of_an_hour_is_seen_as_of_a_death(told: Told) -> None:
    in_pieces, at_once = told(a_death)
    assert in_pieces == at_once
    assert len([row for row in in_pieces["task_facts"] if row["message_id"] == "left"]) == 1


@pytest.mark.parametrize("story", [a_crash_with_news_of_the_hour_before_it, a_crash_with_news_two_hours_after_it])
def test_a_crash_is_told_of_by_the_tasks_of_the_hour_before_it(told: Told, story: Callable[[Journal], Story]) -> None:
    in_pieces, at_once = told(story)
    assert in_pieces == at_once
    assert [row["rows"] for row in in_pieces["audit"] if row["kind"] == "crash_window"] == [1]


@longer
@pytest.mark.parametrize("seed", range(10))
def test_pieces_in_whatever_order_give_what_one_run_would_have_given(
    spark: SparkSession, journal: Journal, tables: Tables, seed: int
) -> None:
    chance = random.Random(seed)
    left = pieces(journal, chance)

    def batches() -> Iterator[list[Piece]]:
        while left:
            # Mostly in order.
            count = min(len(left), chance.randrange(4, 20))
            yield [left.pop(0 if chance.random() < 0.9 else -1) for _ in range(count)]

    at_once = in_batches(spark, journal, tables, batches())
    assert tables.all() == at_once.all(), f"seed {seed}"
