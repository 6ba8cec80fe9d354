"""The parts of a synthetic journal, without Spark and without files."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from famulus.errors import SettingsError
from famulus.journal.arrow import schema_of
from famulus.journal.schema import TIME_COLUMN
from famulus.lab.synth import Plan, cycle
from famulus.lab.synth.cells import tables_of
from famulus.lab.synth.edits import versions
from famulus.lab.synth.plan import US_PER_HOUR
from famulus.lab.synth.world import SLOW_FACTOR, TASKS_PER_CELL, World

CLEAN: frozenset[str] = frozenset()


def tables(plan: Plan) -> dict[str, pa.Table]:
    """All cells of a plan, table by table."""
    world = World(plan)
    parts: dict[str, list[pa.Table]] = {}
    for cell in world.cells:
        for table, _, rows in tables_of(world, cell):
            parts.setdefault(table, []).append(rows)
    return {table: pa.concat_tables(each) for table, each in parts.items()}


def test_a_plan_has_all_its_tasks_and_ends_them() -> None:
    made = tables(Plan(tasks=3000, hours=2, truths=CLEAN, load_every_s=60))
    asked = made["tasks"].filter(pc.is_null(made["tasks"]["delegated_from"]))
    # Some would have arrived before the journal begins.
    assert 2950 <= asked.num_rows <= 3000
    assert pc.count_distinct(asked["message_id"]).as_py() == asked.num_rows
    assert set(asked["outcome"].to_pylist()) == {"OK", "ERROR"}
    known = set(asked["message_id"].to_pylist())
    assert set(made["open_tasks"]["message_id"].to_pylist()) <= known
    given = asked.filter(pc.is_valid(asked["delegated_to"]))
    taken = made["tasks"].filter(pc.is_valid(made["tasks"]["delegated_from"]))
    assert given.num_rows > 10
    assert sorted(given["message_id"].to_pylist()) == sorted(taken["message_id"].to_pylist())


def test_times_fit_together_to_the_microsecond() -> None:
    made = tables(Plan(tasks=3000, hours=2, load_every_s=60))["tasks"]
    arrived, assigned, ended = (made[name].cast(pa.int64()).to_numpy() for name in ("arrived", "assigned", "ended"))
    queue, service, total = (made[name].to_numpy() for name in ("queue_ns", "service_ns", "total_ns"))
    assert (total == queue + service).all()
    assert (arrived <= assigned).all()
    assert (assigned <= ended).all()
    assert (np.abs((assigned - arrived) * 1000 - queue) < 2000).all()
    assert (np.abs((ended - arrived) * 1000 - total) < 2000).all()


def test_rows_are_as_the_journal_wants_them_and_of_their_own_hour() -> None:
    world = World(Plan(tasks=1000, hours=2, load_every_s=60))
    for cell in world.cells:
        for table, _, rows in tables_of(world, cell):
            assert rows.schema.equals(schema_of(table), check_metadata=True)
            for field in rows.schema:
                assert field.nullable or rows[field.name].null_count == 0, (table, field.name)
            at = rows[TIME_COLUMN[table]].cast(pa.int64()).to_numpy()
            if table in ("brokers",):
                assert ((at >= cell.start_us) & (at < cell.end_us)).all()


def test_tickets_are_unique_within_a_boot() -> None:
    rows = tables(Plan(tasks=2000, hours=2, load_every_s=60))["tasks"]
    named = set(zip(rows["boot"].to_pylist(), rows["ticket"].to_pylist(), strict=True))
    assert len(named) == rows.num_rows


def test_the_afternoon_is_busier_than_the_night() -> None:
    made = tables(Plan(tasks=20_000, hours=24, truths=CLEAN, load_every_s=60))["tasks"]
    hours = pc.hour(made["ended"]).to_numpy()
    assert (hours == 15).sum() > 3 * (hours == 3).sum()
    start = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * 1_000_000
    assert cycle.done(start + 24 * US_PER_HOUR, start) == pytest.approx(24)


def test_a_slow_worker_is_slow_and_the_others_are_not() -> None:
    plan = Plan(tasks=20_000, hours=1, truths=frozenset({"slow_worker"}), load_every_s=60)
    slow = World(plan).slow
    assert slow is not None
    rows = tables(plan)["tasks"]
    of_service = rows.filter(pc.equal(rows["service"], "thumbnail"))
    its = pc.equal(of_service["worker"], slow.identity)
    median = [float(np.median(of_service.filter(which)["service_ns"])) for which in (its, pc.invert(its))]
    assert median[0] / median[1] == pytest.approx(SLOW_FACTOR, rel=0.15)


def test_nothing_runs_where_nobody_is() -> None:
    plan = Plan(tasks=30_000, hours=2, load_every_s=60)
    world = World(plan)
    rows = tables(plan)["tasks"]
    its = rows.filter(pc.equal(rows["worker"], world.flapping.identity))
    assigned, ended = (its[name].cast(pa.int64()).to_numpy() for name in ("assigned", "ended"))
    assert len(its) > 100
    for lost_us, back_us in world.absences:
        assert not ((assigned < back_us) & (ended >= lost_us)).any()
    assert world.crash is not None
    broker, died_us = world.crash
    here = rows.filter(pc.equal(rows["broker"], world.brokers[broker]))
    arrived, ended = (here[name].cast(pa.int64()).to_numpy() for name in ("arrived", "ended"))
    assert not ((arrived < died_us) & (ended > died_us)).any()


def test_a_busy_hour_is_cut_into_cells_of_bounded_size() -> None:
    world = World(Plan(tasks=50_000_000, hours=24))
    for cell in world.cells:
        until = [[world.tasks_until(cell.boot.broker, number, at) for number in range(len(world.services))]
                 for at in (cell.start_us, cell.end_us)]  # fmt: skip
        # The busier end of an hour may have some more.
        assert sum(until[1]) - sum(until[0]) < 1.1 * TASKS_PER_CELL
    assert len(world.cells) < 2 * 50_000_000 / TASKS_PER_CELL
    assert [cell.number for cell in world.cells] == list(range(len(world.cells)))


def test_versions_of_the_config_follow_its_edits() -> None:
    world = World(Plan(hours=2))
    start, end = world.plan.start_us, world.plan.end_us
    for broker in range(2):
        assert versions(world, broker, np.array([start, end])).tolist() == [3, 3 + 2 + 2 + 1 + 3 + 2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tasks": 0}, "tasks: 0 is not between"),
        ({"brokers": 1}, "brokers: 1 is not between"),
        ({"truths": frozenset({"a_unicorn"})}, "no such thing as a_unicorn"),
        ({"start": datetime(2026, 1, 1)}, "start: an instant needs a time zone"),  # noqa: DTZ001
        ({"start": datetime(2026, 1, 1, 0, 30, tzinfo=UTC)}, "full hour"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_one_sentence(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Plan(**wrong)  # type: ignore[arg-type]
