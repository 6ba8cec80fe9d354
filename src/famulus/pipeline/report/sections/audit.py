"""The audit: every task that has not exactly one outcome, and whatever else must be explained."""

from __future__ import annotations

import heapq
from typing import Any, Final

from famulus.pipeline.report.html import ROWS_MAX, Head, Safe, badge, code, nothing, section, table
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.sections.verdict import entries
from famulus.pipeline.report.words import count, instant

_COLUMNS: Final = [
    "at",
    "kind",
    "severity",
    "explained",
    "broker",
    "service",
    "worker",
    "message_id",
    "rows",
    "explanation",
]
_NAMES: Final = {
    "no_outcome": "no outcome",
    "retry_without_end": "never tried again",
    "two_outcomes": "two outcomes",
    "rejected_but_ran": "rejected, but ran",
    "half_missing": "half missing",
    "missing_rows": "rows missing",
    "duplicate_row": "row twice",
    "ticket_twice": "ticket twice",
    "no_such_outcome": "no such outcome",
    "ended_before_arrived": "ended before it arrived",
    "negative_duration": "negative duration",
    "at_most_once": "at-most-once broken",
    "late_answer": "late answer",
    "gap": "gap in the journal",
    "crash_window": "crash",
}
_SEVERITIES: Final = {"error": 0, "warning": 1, "info": 2}
_KINDS: Final = {"error": "bad", "warning": "warn", "info": "calm"}
_HEADS: Final = [
    Head("What"), Head("Explained"), Head("At (UTC)"), Head("Broker"), Head("Service"), Head("Worker"), Head("Task"),
    Head("Rows", True), Head("In words"),
]  # fmt: skip


def audit(tables: Tables) -> Safe:
    lead = "Every accepted task must have exactly one outcome. What is listed here is an exception, or may hide one."
    unexplained, explained = entries(tables)
    total = sum(unexplained.values()) + sum(explained.values())
    if not total:
        words = "The audit is empty: each accepted task has exactly one outcome, and no row of the journal is missing."
        return section("audit", "Audit", lead, nothing(words))
    rows = heapq.nsmallest(ROWS_MAX, tables.rows("audit", _COLUMNS), key=_urgency)
    kinds = sorted({*unexplained, *explained})
    sums = [[_NAMES.get(kind, kind), count(unexplained[kind]), count(explained[kind])] for kind in kinds]
    heads = [Head("What"), Head("Without explanation", True), Head("Explained", True)]
    listed = table("Entries, those without explanation first", _HEADS, [_cells(row) for row in rows], total - len(rows))
    return section("audit", "Audit", lead, table("Entries by kind", heads, sums), listed)


def _urgency(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["explained"], _SEVERITIES.get(row["severity"], 3), row["kind"], row["at"], row["message_id"] or ""


def _cells(row: dict[str, Any]) -> list[object]:
    return [
        badge(_NAMES.get(row["kind"], row["kind"]), _KINDS.get(row["severity"], "calm")),
        "yes" if row["explained"] else badge("no", "bad"),
        instant(row["at"]),
        row["broker"],
        row["service"] or "–",
        row["worker"] or "–",
        code(row["message_id"]) if row["message_id"] else "–",
        count(row["rows"]),
        row["explanation"],
    ]
