"""Which tasks are plain, and which were left open: compared with a version that looks at every row by itself."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from famulus.journal import arrow
from famulus.pipeline.columnar import hashes
from famulus.pipeline.columnar.facts import COLUMNS, facts_of
from famulus.pipeline.columnar.remarkable import Keep, Remarkable, remarkable

FINAL = ("OK", "ERROR", "REJECTED", "UNKNOWN")
HOUR_US = 3_600_000_000
FIRST_HOUR = 500_000
Row = dict[str, Any]


class Journal:
    """A few tasks in three hours, of which many are odd in one way or another."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.tasks: list[Row] = []
        self.opened: list[Row] = []
        for number in range(80):
            self._task(f"task-{number}" if number % 3 else f"a longer name of a task {number}")

    def _task(self, name: str) -> None:
        dice = self.dice
        hour = dice.randrange(3)
        for _ in range(dice.choice([1, 1, 1, 1, 2, 3])):
            self._rows(name, min(2, hour + dice.choice([0, 0, 0, 1])), dice.randrange(60))
        if dice.random() < 0.4:
            at = self._at(min(2, max(0, hour + dice.choice([-1, 0, 0]))), dice.randrange(60))
            self.opened.append(
                {**self._same(name), "at": at, "state": "running", "delegated_from": dice.choice([None, None, "b2"])}
            )

    def _rows(self, name: str, hour: int, minute: int) -> None:
        dice = self.dice
        ended = self._at(hour, minute)
        outcome = dice.choice(["OK", "OK", "OK", "OK", "ERROR", "REJECTED", "RETRY", "LATE"])
        row = {**self._same(name), "outcome": outcome, "ended": ended, "worker": dice.choice(["w", "w", None])}
        row |= {"assigned": ended - 5} if row["worker"] else {}
        row |= {"total_ns": dice.choice([5, 5, 5, 5, 5, 5, 5, -5]), "arrived": ended - dice.choice([9, 9, 9, 9, 9, -9])}
        if dice.random() < 0.3:
            # Handed over, in most cases as it should be.
            there = {
                **row,
                **self._same(name),
                "broker": dice.choice(["b2", "b2", "b2", "b3"]),
                "delegated_from": dice.choice(["b1", "b1", "b1", "b3"]),
            }
            there |= {"ended": ended - dice.choice([1, 1, 1, 60_000_000])}
            row |= {"delegated_to": "b2", "worker": None}
            self.tasks += dice.choice([[row, there], [there, row], [row]])
        else:
            self.tasks.append(row)

    def _same(self, name: str) -> Row:
        ticket = self.dice.randrange(10**9) if self.dice.random() < 0.95 else self.dice.randrange(5)
        return {"broker": "b1", "boot": "boot", "message_id": name, "ticket": ticket, "arrived": FIRST_HOUR * HOUR_US}

    def _at(self, hour: int, minute: int) -> int:
        return (FIRST_HOUR + hour) * HOUR_US + minute * 60_000_000 + self.dice.randrange(1, 60) * 1_000_000

    def of(self, table: str, hour: int) -> list[Row]:
        rows, at = (self.tasks, "ended") if table == "tasks" else (self.opened, "at")
        return [row for row in rows if row[at] // HOUR_US == hour]

    def read(self, table: str, hour: int, columns: Sequence[str], keep: Keep) -> pa.Table:
        return keep(arrow_rows(table, self.of(table, hour)).select(columns))

    def remarkable(self, shares: int = 1) -> list[Remarkable]:
        """Hour by hour."""
        hours = range(FIRST_HOUR, FIRST_HOUR + 3)
        read_tasks, read_open = partial(self.read, "tasks"), partial(self.read, "open_tasks")
        found = list(remarkable(hours, read_tasks, read_open, shares=shares))
        return [_together([each for each in found if each.hour == hour]) for hour in hours]


def _together(found: Sequence[Remarkable]) -> Remarkable:
    tasks, opened = pa.concat_tables([each.tasks for each in found]), pa.concat_tables([each.opened for each in found])
    return Remarkable(found[0].hour, tasks, np.concatenate([each.hashes for each in found]), opened)


def arrow_rows(table: str, rows: Sequence[Row]) -> pa.Table:
    kinds = {pa.string(): "", pa.bool_(): False}
    fields = arrow.schema_of(table).remove_metadata()
    columns = [
        pa.array([row.get(each.name, None if each.nullable else kinds.get(each.type, 0)) for row in rows], each.type)
        for each in fields
    ]
    return pa.Table.from_arrays(columns, schema=fields)


def is_plain(row: Row, near: Sequence[Row], own_hour: int, tickets: dict[tuple[str, int], int]) -> bool:
    """`near`: all rows of its task in its hour and those next to it."""
    rows = [each for each in near if each["ended"] // HOUR_US == own_hour]
    if len(rows) < len(near) or not all(is_good(each, tickets) for each in near):
        return False
    if len(rows) == 1:
        return row.get("delegated_to") is None and row.get("delegated_from") is None
    if len(rows) > 2:
        return False
    given, taken = sorted(rows, key=lambda each: each.get("delegated_from") is not None)
    return (
        (given.get("delegated_to"), given.get("delegated_from")) == (taken["broker"], None)
        and (taken.get("delegated_to"), taken.get("delegated_from")) == (None, given["broker"])
        and given["broker"] != taken["broker"]
        and given["worker"] is None
        and given["ended"] // 60_000_000 == taken["ended"] // 60_000_000
        and not (given["outcome"] == "REJECTED" and taken["worker"] is not None and taken.get("assigned") is not None)
    )


def is_good(row: Row, tickets: dict[tuple[str, int], int]) -> bool:
    instants = [row["arrived"], *([row["assigned"]] if row.get("assigned") else []), row["ended"]]
    once = tickets[row["broker"], row["ticket"]] == 1
    return row["outcome"] in FINAL and once and instants == sorted(instants) and row["total_ns"] >= 0


def left_open(journal: Journal, hour: int) -> set[str]:
    def seen(at: int) -> set[str]:
        again = [row for row in journal.of("tasks", at) if row["outcome"] == "RETRY"]
        rows = [*journal.of("open_tasks", at), *again]
        return {row["message_id"] for row in rows if row.get("delegated_from") is None}

    ended = {
        row["message_id"]
        for at in range(hour - 1, hour + 2)
        for row in journal.of("tasks", at)
        if row["outcome"] in FINAL and row.get("delegated_from") is None
    }
    return seen(hour) - seen(hour + 1) - ended


@pytest.mark.parametrize("seed", range(30))
def test_each_row_is_plain_or_not_as_its_task_is(seed: int) -> None:
    journal = Journal(seed)
    # Whether all tasks of an hour are in memory at once, or a third of them.
    found = {each.hour: each for each in journal.remarkable(shares=1 if seed % 2 else 3)}
    plain = 0
    for hour in range(FIRST_HOUR, FIRST_HOUR + 3):
        around = [row for at in range(hour - 1, hour + 2) for row in journal.of("tasks", at)]
        tickets: dict[tuple[str, int], int] = defaultdict(int)
        for row in around:
            tickets[row["broker"], row["ticket"]] += row["outcome"] != "LATE"
        by_task = defaultdict(list)
        for row in around:
            by_task[row["message_id"]].append(row)
        own = journal.of("tasks", hour)
        odd = [row for row in own if not is_plain(row, by_task[row["message_id"]], hour, tickets)]
        plain += len(own) - len(odd)
        told = found[hour].tasks
        assert sorted(zip(told["message_id"].to_pylist(), told["ticket"].to_pylist(), strict=True)) == sorted(
            (row["message_id"], row["ticket"]) for row in odd
        )
        facts = facts_of(arrow_rows("tasks", own).select(COLUMNS), found[hour].hashes)
        settled = [row for row in own if row not in odd and row.get("delegated_from") is None]
        assert sorted(facts["message_id"].to_pylist()) == sorted(row["message_id"] for row in settled)
        assert set(found[hour].opened["message_id"].to_pylist()) == left_open(journal, hour)
        assert found[hour].opened.num_rows == len(left_open(journal, hour))
    assert plain > 10


@pytest.mark.parametrize("seed", range(5))
def test_tasks_that_have_the_same_hash_are_not_taken_for_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them are looked at then; what is said of open tasks stays exact."""
    journal = Journal(seed)
    of_texts = hashes.of_texts
    monkeypatch.setattr(hashes, "of_texts", lambda column: of_texts(column) % np.uint64(9))
    for each in journal.remarkable():
        assert set(each.opened["message_id"].to_pylist()) == left_open(journal, each.hour)
        own = arrow_rows("tasks", journal.of("tasks", each.hour))
        facts = facts_of(own.select(COLUMNS), each.hashes)
        assert not set(facts["message_id"].to_pylist()) & set(each.tasks["message_id"].to_pylist())


def test_the_same_text_has_the_same_hash_however_it_is_kept() -> None:
    texts = [f"{number:x}" * (number % 5) for number in range(2000)]
    plain = hashes.of_texts(pa.chunked_array([texts[:700], [], texts[700:]], pa.string()))
    coded = hashes.of_texts(pa.chunked_array([pa.array(texts).dictionary_encode()]))
    alike = hashes.of_texts(pa.chunked_array([[text] for text in texts[:50]], pa.string()))
    assert (plain == coded).all()
    assert (plain[:50] == alike).all()
    assert len(np.unique(plain)) == len(set(texts))
