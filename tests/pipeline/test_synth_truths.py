"""The tables find each truth that is planted in a synthetic journal, and nothing else; the report tells of it.

Two small journals are made, one with all truths and one without any, and all tables of both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.longer import longer

from famulus.journal import schema
from famulus.lab import synth
from famulus.lab.judge.expected import Named, findings_of
from famulus.lab.synth import TRUTHS, Plan, Truths
from famulus.pipeline import report
from famulus.pipeline.tables import ALL

# All tables of two journals: a loaded machine needs its time.
pytestmark = [longer, pytest.mark.timeout(1200)]

#: One hour with some forty tasks a minute of the quietest service: so many that a single error is no news.
PLAN = Plan(tasks=12_000, hours=1, services=3, workers=12, load_every_s=10)
#: These tell nothing about truths that others do not.
LEFT_OUT = {"task_facts", "service_days"}


@dataclass(frozen=True)
class Told:
    """A journal, and what the tables say of it."""

    truths: Truths
    tables: dict[str, list[dict[str, Any]]]
    page: str

    def __getitem__(self, table: str) -> list[dict[str, Any]]:
        return self.tables[table]

    def audit(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self["audit"] if row["kind"] == kind]


def _told(spark: SparkSession, folder: Path, plan: Plan) -> Told:
    truths = synth.make(spark, folder / "journal", plan)
    # Once from many small files into memory: each table reads it several times.
    frames = {
        name: spark.read.parquet(str(folder / "journal" / name)).drop("date", "hour").coalesce(1).cache()
        for name in schema.TABLES
    }
    tables: dict[str, list[dict[str, Any]]] = {}
    for table in ALL:
        if table.name in LEFT_OUT:
            continue
        made: pa.Table = table.make(*[frames[name] for name in table.inputs]).toArrow()
        path = folder / "tables" / table.name / "part-00.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(made, path)
        frames[table.name] = spark.read.parquet(str(path))
        tables[table.name] = made.to_pylist()
    for name in schema.TABLES:
        frames[name].unpersist()
    page = report.write(folder / "tables", folder / "report.html").read_text(encoding="utf-8")
    return Told(truths, tables, re.sub(r"<[^>]+>", " ", page[page.index("<main>") : page.index("</main>")]))


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    plan = Plan(PLAN.tasks, PLAN.hours, seed=3, services=3, workers=12, load_every_s=10, truths=frozenset())
    return _told(spark, tmp_path_factory.mktemp("clean"), plan)


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return _told(spark, tmp_path_factory.mktemp("all"), PLAN)


def test_a_clean_journal_gives_nobody_anything_to_do(clean: Told) -> None:
    for table in ("audit", "anomalies", "findings", "failovers", "losses", "lost_attempts", "refusals"):
        assert clean[table] == [], table
    assert {row["score"] for row in clean["worker_health"]} == {100}
    assert {row["slots_missing"] for row in clean["capacity"]} == {0}
    assert all(row["span_ms"] < 1000 and not row["missing"] for row in clean["config_convergence"])
    assert sum(row["tasks"] for row in clean["service_minutes"]) == clean.truths.tasks
    assert sum(row["delegated_out"] for row in clean["service_minutes"]) > 10
    assert sum(row["tasks"] for row in clean["principal_hours"]) == clean.truths.tasks
    assert sum(row["busy_ns"] for row in clean["principal_hours"]) == sum(
        row["busy_ns"] for row in clean["service_minutes"]
    )


def test_the_report_of_a_clean_journal_says_so(clean: Told) -> None:
    for words in ("Every task is accounted for", "The audit found nothing to explain", "No findings", "No anomalies",
                  "No failovers in this span", f"{clean.truths.tasks:,}"):  # fmt: skip
        assert words in clean.page, words


def _slow_worker(told: Told, planted: dict[str, Any]) -> None:
    slowness = {row["worker"]: row["slowness"] for row in told["worker_health"]}
    assert slowness.pop(planted["worker"]) == pytest.approx(planted["factor"], rel=0.25)
    assert max(slowness.values()) < 1.5


def _flapping_worker(told: Told, planted: dict[str, Any]) -> None:
    losses = {row["worker"]: (row["losses"], row["lost_tasks"]) for row in told["worker_health"] if row["losses"]}
    assert losses == {planted["worker"]: (planted["losses"], len(planted["message_ids"]))}
    lost = [row for row in told["failovers"] if row["kind"] == "worker_lost"]
    assert sorted(row["seen"].isoformat() for row in lost) == planted["lost"]
    assert sum(row["retries"] for row in lost) == planted["retries"]


def _crashed_dispatcher(told: Told, planted: dict[str, Any]) -> None:
    (window,) = told.audit("crash_window")
    swallowed = {row["message_id"] for row in told.audit("no_outcome") if row["explained"]}
    assert (window["broker"], window["at"].isoformat()) == (planted["broker"], planted["at"])
    assert swallowed == set(planted["message_ids"])
    assert window["rows"] == len(swallowed)
    (death,) = [row for row in told["failovers"] if row["kind"] == "dispatcher_died"]
    assert (death["lost"], death["tasks_hit"]) == (planted["broker"], len(swallowed))


def _lost_task(told: Told, planted: dict[str, Any]) -> None:
    (row,) = [row for row in told.audit("no_outcome") if not row["explained"]]
    assert {name: row[name] for name in ("message_id", "service", "broker", "worker")} == {
        name: planted[name] for name in ("message_id", "service", "broker", "worker")
    }
    assert row["at"].isoformat() == planted["at"]


def _duplicate_outcome(told: Told, planted: dict[str, Any]) -> None:
    (row,) = told.audit("two_outcomes")
    assert (row["message_id"], row["explained"]) == (planted["message_id"], False)


def _at_most_once_breach(told: Told, planted: dict[str, Any]) -> None:
    (row,) = told.audit("at_most_once")
    assert (row["message_id"], row["explained"]) == (planted["message_id"], False)
    assert planted["worker"] in row["explanation"]


def _late_answer(told: Told, planted: dict[str, Any]) -> None:
    (row,) = told.audit("late_answer")
    assert (row["message_id"], row["explained"], row["at"].isoformat()) == (planted["message_id"], True, planted["at"])


def _slow_convergence(told: Told, planted: dict[str, Any]) -> None:
    slow = {row["edit"]: row["span_ms"] for row in told["config_convergence"] if row["span_ms"] >= 1000}
    assert slow == {planted["edit"]: planted["span_ms"]}


def _conflicts(told: Told) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in told["config_convergence"] if row["conflict_seen"] is not None}


def _resolved_conflict(told: Told, planted: dict[str, Any]) -> None:
    row = _conflicts(told)[planted["key"]]
    assert row["edit"] in planted["edits"]
    assert (row["resolved_by"], row["conflict_resolved"].isoformat()) == (planted["resolved_by"], planted["resolved"])


def _open_conflict(told: Told, planted: dict[str, Any]) -> None:
    row = _conflicts(told)[planted["key"]]
    assert row["edit"] in planted["edits"]
    assert row["conflict_resolved"] is None
    assert len(_conflicts(told)) == 2


def _hot_service(told: Told, planted: dict[str, Any]) -> None:
    assert {row["service"] for row in told["capacity"] if row["slots_missing"]} == {planted["service"]}


def _error_burst(told: Told, planted: dict[str, Any]) -> None:
    kinds = {(row["service"], row["measure"], row["direction"]) for row in told["anomalies"]}
    assert kinds == {(planted["service"], "error_share", "high")}
    minutes = sorted(row["minute"].isoformat() for row in told["anomalies"])
    assert len(minutes) == planted["minutes"]
    assert planted["start"] == minutes[0] < minutes[-1] < planted["end"]
    (hour,) = told["objectives"]
    assert (hour["service"], hour["share"]) == (planted["service"], planted["share"])
    assert 0 < hour["fast_minutes"] < 30


def _journal_gap(told: Told, planted: dict[str, Any]) -> None:
    (row,) = told.audit("gap")
    assert (row["broker"], row["at"].isoformat(), row["rows"]) == (planted["broker"], planted["at"], planted["rows"])


def _refused_principal(told: Told, planted: dict[str, Any]) -> None:
    rows = [row for row in told["refusals"] if row["principal"]]
    assert {(row["principal"], row["service"], row["broker"]) for row in rows} == {
        (planted["principal"], planted["service"], planted["broker"])
    }
    assert sum(row["times"] for row in rows) == planted["times"]
    refused = {row["principal"]: row["refused"] for row in told["principal_hours"] if row["refused"]}
    assert refused == {planted["principal"]: planted["times"]}


def _unknown_key(told: Told, planted: dict[str, Any]) -> None:
    (row,) = [row for row in told["refusals"] if row["key"]]
    assert (row["key"], row["broker"], row["times"]) == (planted["key"], planted["broker"], planted["times"])


SEEN: dict[str, Callable[[Told, dict[str, Any]], None]] = {
    "slow_worker": _slow_worker,
    "flapping_worker": _flapping_worker,
    "crashed_dispatcher": _crashed_dispatcher,
    "lost_task": _lost_task,
    "duplicate_outcome": _duplicate_outcome,
    "at_most_once_breach": _at_most_once_breach,
    "late_answer": _late_answer,
    "slow_convergence": _slow_convergence,
    "resolved_conflict": _resolved_conflict,
    "open_conflict": _open_conflict,
    "hot_service": _hot_service,
    "error_burst": _error_burst,
    "journal_gap": _journal_gap,
    "refused_principal": _refused_principal,
    "unknown_key": _unknown_key,
}


@pytest.mark.parametrize("truth", [truth for truth in TRUTHS if truth != "expiring_key"])
def test_what_is_planted_is_found(told: Told, truth: str) -> None:
    SEEN[truth](told, told.truths[truth])


def test_the_findings_are_those_that_the_planted_must_lead_to(told: Told) -> None:
    assert {Named(row["kind"], row["subject"]) for row in told["findings"]} == set(findings_of(told.truths.planted))


def test_nothing_else_is_found(told: Told) -> None:
    """The checks above say that each kind has its own truths only; and there are no other kinds."""
    kinds = {"no_outcome", "two_outcomes", "at_most_once", "late_answer", "gap", "crash_window"}
    assert {row["kind"] for row in told["audit"]} == kinds
    assert {row["kind"] for row in told["failovers"]} == {"worker_lost", "dispatcher_died"}
    # One task is lost and some are swallowed; one has two outcomes.
    without = 1 + len(told.truths["crashed_dispatcher"]["message_ids"])
    assert sum(row["tasks"] for row in told["service_minutes"]) == told.truths.tasks - without + 1


def test_the_report_names_what_is_not_accounted_for(told: Told) -> None:
    for words in ("Not every task is accounted for", "1 task has no outcome", "1 task has two outcomes",
                  "1 at-most-once task ran twice", told.truths["lost_task"]["message_id"],
                  told.truths["flapping_worker"]["worker"], "dispatcher died", "share of errors high",
                  told.truths["slow_convergence"]["key"], "open conflict", "more needed"):  # fmt: skip
        assert words in told.page, words
