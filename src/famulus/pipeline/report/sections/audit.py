"""The audit: every task that does not have exactly one outcome, and whatever else must be explained."""

from __future__ import annotations

import heapq
from typing import Any, Final

from famulus.pipeline.report.html import ROWS_MAX, Head, Safe, badge, code, listed, nothing, section, table
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.sections.verdict import KINDS, entries
from famulus.pipeline.report.words import count, instant

_SEVERITIES: Final = {"error": 0, "warning": 1, "info": 2}
_COLOURS: Final = {"error": "bad", "warning": "warn", "info": "calm"}
_HEADS: Final = (
    Head("What", of=lambda row: badge(_name(row["kind"]), _COLOURS.get(row["severity"], "calm"))),
    Head("Explained", of="explained", said=lambda explained: "yes" if explained else badge("no", "bad")),
    Head("At (UTC)", of="at", said=instant),
    Head("Broker", of="broker"),
    Head("Service", of="service", said=lambda service: service or "–"),
    Head("Worker", of="worker", said=lambda worker: worker or "–"),
    Head("Task", of="message_id", said=lambda name: code(name) if name else "–"),
    Head("Rows", True, "rows", count),
    Head("In words", of="explanation"),
)


def _name(kind: str) -> str:
    return KINDS[kind][0] if kind in KINDS else kind


def audit(tables: Tables) -> Safe:
    lead = "Every accepted task must have exactly one outcome. What is listed here is an exception, or may hide one."
    unexplained, explained = entries(tables)
    total = sum(unexplained.values()) + sum(explained.values())
    if not total:
        words = "The audit is empty: each accepted task has exactly one outcome, and no row of the journal is missing."
        return section("audit", "Audit", lead, nothing(words))
    rows = heapq.nsmallest(ROWS_MAX, tables.rows("audit"), key=_urgency)
    kinds = sorted({*unexplained, *explained})
    sums = [[_name(kind), count(unexplained[kind]), count(explained[kind])] for kind in kinds]
    heads = [Head("What"), Head("Without explanation", True), Head("Explained", True)]
    each = listed("Entries, those without explanation first", _HEADS, rows, total)
    return section("audit", "Audit", lead, table("Entries by kind", heads, sums), each)


def _urgency(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["explained"], _SEVERITIES.get(row["severity"], 3), row["kind"], row["at"], row["message_id"] or ""
