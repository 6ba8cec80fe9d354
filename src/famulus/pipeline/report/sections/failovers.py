"""Each loss of a worker, a dispatcher or a peer, on a timeline."""

from __future__ import annotations

import heapq
from typing import Any, Final

from famulus.pipeline.report.html import Head, Safe, listed, nothing, section
from famulus.pipeline.report.plot import lanes, marks
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import count, duration_s, instant, plural

_KINDS: Final = {"worker_lost": "worker lost", "dispatcher_died": "dispatcher died", "peer_lost": "peer lost"}
_HEADS: Final = (
    Head("Lost", of="lost"),
    Head("What", of="kind", said=lambda kind: _KINDS.get(kind, kind)),
    Head("Seen (UTC)", of="seen", said=instant),
    Head("Seen by", of="seen_by", said=", ".join),
    Head("Services", of="services", said=lambda names: ", ".join(names) or "–"),
    Head("Tasks hit", True, "tasks_hit", count),
    Head("Retried", True, "retries", count),
    Head("UNKNOWN", True, "unknown", count),
    Head("Normal after", True, lambda row: duration_s(row["recovery_s"]) if row["normal"] else "not seen"),
)
#: Marks in the plot.
MARKS_MAX: Final = 1000


def failovers(tables: Tables, timeline: Timeline | None) -> Safe:
    lead = (
        "Who was lost, what it cost, and how long until the services that were hit were normal again. Not seen: not "
        "within half an hour, or before the journal ends."
    )
    every = tables.rows("failovers")
    latest = heapq.nlargest(MARKS_MAX + 1, every, key=lambda row: (row["seen"], row["lost"]))
    if not latest:
        words = "No failovers in this span: no worker, dispatcher or peer was lost."
        return section("failovers", "Failovers", lead, nothing(words))
    losses = listed("Losses, the latest first", _HEADS, latest)
    return section("failovers", "Failovers", lead, _plot(latest[:MARKS_MAX], timeline), losses)


def _plot(rows: list[dict[str, Any]], timeline: Timeline | None) -> Safe:
    traces = []
    for number, (kind, name) in enumerate(_KINDS.items()):
        if its := [row for row in rows if row["kind"] == kind]:
            points = [(row["seen"], row["lost"], f"{plural(row['tasks_hit'], 'task')} hit") for row in its]
            traces.append(marks(name, number, points, [min(10 + 2 * row["tasks_hit"] ** 0.5, 26) for row in its]))
    whom = plural(len({row["lost"] for row in rows}), "worker or broker", "workers or brokers")
    says = f"{plural(len(rows), 'loss', 'losses')} of {whom}; a bigger mark hit more tasks."
    return lanes("Losses over time", says, traces, timeline.span if timeline else None)
