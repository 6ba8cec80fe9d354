"""What holds for every table: its columns, nothing made of nothing, and no word about the order of its input."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from pyspark.sql import DataFrame
from tests.longer import longer
from tests.pipeline.tables.conftest import MS, Makes, Rows, at, found

from famulus.journal import schema
from famulus.pipeline.tables import ALL, Grain, Table, schemas
from famulus.pipeline.tables.column_types import struct_of

Row = dict[str, Any]


def test_the_order_is_one_in_which_they_can_be_made() -> None:
    known = set(schema.TABLES)
    for table in ALL:
        assert set(table.inputs) <= known, table.name
        known.add(table.name)
    assert [table.name for table in ALL] == list(schemas.TABLES)
    assert len(known) == len(schema.TABLES) + len(ALL)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_an_hourly_table_has_its_hour_and_is_made_of_hours(table: Table) -> None:
    first = [column.name for column in table.columns[:2]]
    assert (first == ["date", "hour"]) == (table.grain is Grain.HOURLY)
    if table.grain is Grain.HOURLY:
        hourly = {each.name for each in ALL if each.grain is Grain.HOURLY}
        assert set(table.inputs) <= set(schema.TABLES) | hourly
    else:
        # They are read as a whole every time, and these grow with every task or every second.
        assert not set(table.inputs) & {"tasks", "open_tasks", "brokers", "peers", "task_facts"}
        assert not table.neighbours


def types_of(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


@pytest.fixture(scope="module")
def of_nothing(make: Makes) -> Callable[[str], DataFrame]:
    """Each table of empty inputs. To put one together takes seconds."""
    return cache(make.frame)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_of_nothing_comes_nothing_in_the_right_columns(of_nothing: Callable[[str], DataFrame], table: Table) -> None:
    made = of_nothing(table.name)
    assert types_of(made) == [(field.name, field.dataType.simpleString()) for field in struct_of(table.columns).fields]
    assert found(made) == []


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_a_table_is_planned_in_the_same_words_every_time(
    of_nothing: Callable[[str], DataFrame], make: Makes, table: Table
) -> None:
    """Spark knows by its text what code it has compiled. With names that are new in each run, such as PySpark gives to
    what a `lambda` takes, it would compile it again in each run."""
    assert _in_words(of_nothing(table.name)) == _in_words(make.frame(table.name))


def _in_words(frame: DataFrame) -> str:
    """The plan, whole, without the numbers that Spark gives to columns: they are not in the code."""
    name = "spark.sql.maxPlanStringLength"
    before = frame.sparkSession.conf.get(name) or ""
    frame.sparkSession.conf.set(name, "100000000")
    try:
        return re.sub(r"#\d+L?", "#", frame._jdf.queryExecution().analyzed().toString())
    finally:
        frame.sparkSession.conf.set(name, before)


def world() -> dict[str, list[Row]]:
    """Two hours of two brokers: tasks of all outcomes, retries, a hand-over, a crash, an edit; and nulls and zeros."""
    tasks: list[Row] = [
        {"message_id": f"t{n}", "ticket": n, "ended": at(n * 31), "arrived": at(n * 31 - 1), "worker": f"w{n % 3}",
         "service": ("echo", "sum")[n % 2], "broker": ("b1", "b2")[n % 5 == 0], "service_ns": n * MS,
         "total_ns": n * MS, "outcome": ("OK", "OK", "ERROR", "UNKNOWN", "LATE")[n % 5 if n % 4 == 0 else 0]}
        for n in range(120)
    ]  # fmt: skip
    tasks += [
        {"message_id": "again", "ticket": 900, "outcome": "RETRY", "reason": "worker_lost", "ended": at(70)},
        {"message_id": "again", "ticket": 901, "worker": "w2", "ended": at(71)},
        {"message_id": "over", "ticket": 902, "worker": None, "delegated_to": "b2", "ended": at(80)},
        {"message_id": "over", "ticket": 903, "broker": "b2", "delegated_from": "b1", "ended": at(79)},
        {"message_id": "full", "ticket": 904, "worker": None, "assigned": None, "service_ns": None, "attempt": 0,
         "outcome": "REJECTED", "reason": "overload", "total_ns": 0},
        *[{"message_id": f"burst{n}", "ticket": 1000 + n, "ended": at(3000)} for n in range(40)],
        {"message_id": "twice", "ticket": 905, "ended": at(90)},
        {"message_id": "twice", "ticket": 906, "ended": at(90)},
    ]  # fmt: skip
    load = {"event": "load", "service": "echo", "slots_free": 0, "slots_busy": 2, "backlog": 1}
    return {
        "tasks": tasks,
        "open_tasks": [{"message_id": f"o{n}", "ticket": n, "at": at(n)} for n in range(5)],
        "workers": [
            {"event": "connect"},
            {"event": "lost", "at": at(70), "tasks": 1},
            {"event": "lost", "at": at(70), "worker": "w2", "tasks": None, "services": ""},
        ],
        "brokers": [
            *[{**load, "at": at(n), "broker": broker} for n in range(0, 300, 40) for broker in ("b1", "b2")],
            {"event": "objective", "service": "echo", "detail": '{"share":0.9,"within_ms":50,"days":1}'},
            {"event": "process_died", "process": "dispatcher", "at": at(100)},
            {"event": "start", "boot": "boot2", "at": at(101)},
            {"event": "gap", "at": at(102), "table": "tasks", "rows": 3},
            {"event": "overload_on", "service": "echo", "at": at(110)},
        ],
        "peers": [
            {"event": "lost", "peer": "b1", "broker": "b2", "at": at(100)},
            {"event": "delegated", "peer": "b2", "tasks": 1, "at": at(80)},
        ],
        "config": [
            {"event": "accepted", "edit": "e1"},
            {"event": "applied", "edit": "e1", "broker": "b2", "at": at(1)},
            {"event": "conflict", "edit": "e1", "at": at(2)},
            {"event": "accepted", "edit": "e2", "key": "principal/shop", "expires": at(86_400)},
        ],
        "access": [
            {"times": 3, "request_bytes": 7, "response_bytes": 5, "busy_ns": 9},
            {"why": "not_allowed", "times": 70},
            {"why": "not_allowed", "times": 70, "broker": "b2", "at": at(60)},
            {"why": "no_key", "times": 200, "principal": None, "service": None, "address": "192.0.2.1", "at": at(90)},
        ],
    }


def all_tables(rows: Rows, make: Makes, *, backwards: bool) -> dict[str, list[Row]]:
    """Each from the rows of those before it, not from their plans: those would grow into one another."""
    made: dict[str, list[Row]] = {name: list(reversed(each)) if backwards else each for name, each in world().items()}
    for table in ALL:
        inputs = {name: rows.of(name, *made[name]) for name in table.inputs}
        if backwards:
            inputs = {name: frame.repartition(3) for name, frame in inputs.items()}
        made[table.name] = make(table.name, **inputs)
        if backwards:
            made[table.name].reverse()
    return made


@longer
def test_the_order_of_rows_and_partitions_makes_no_difference(rows: Rows, make: Makes) -> None:
    forwards = all_tables(rows, make, backwards=False)
    backwards = all_tables(rows, make, backwards=True)
    for table in ALL:
        assert forwards[table.name], f"{table.name} is empty, which proves nothing"
        assert sorted(map(repr, forwards[table.name])) == sorted(map(repr, backwards[table.name])), table.name
