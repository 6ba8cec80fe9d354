"""The health of each worker, the worst first."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Final

from famulus.pipeline.report.html import NOTHING, ROWS_MAX, Head, Safe, listed, nothing, section, text
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import count, duration_ns, plural, share


def workers(tables: Tables) -> Safe:
    lead = "The last day of data: each worker against the others of its service. 100 means: nothing to say against it."
    found = Counter(row["score"] >= 100 for row in tables.rows("worker_health", ["score"]))
    if not found:
        return section("workers", "Workers", lead, nothing("No worker had a task in this span."))
    # Separately: those with complaints must not be crowded out, and those without need not all be shown.
    shown, folded = nothing("All workers are in good health."), NOTHING
    if sick := found[False]:
        shown = _worst(tables, f"{plural(sick, 'worker')} with points off, the worst first", sick, well=False)
    if well := found[True]:
        many = plural(well, "healthy worker")
        folded = Safe(f"<details><summary>{many}</summary>{_worst(tables, many, well, well=True)}</details>")
    return section("workers", "Workers", lead, shown, folded)


def _worst(tables: Tables, caption: str, total: int, *, well: bool) -> Safe:
    """Those with the lowest scores, of however many."""
    its = (row for row in tables.rows("worker_health") if (row["score"] >= 100) is well)
    rows = heapq.nsmallest(ROWS_MAX, its, key=lambda row: (row["score"], row["worker"], row["service"]))
    return listed(caption, _HEADS, rows, total)


def _score(score: int) -> Safe:
    """A bar and the figure itself."""
    kind = "good" if score >= 90 else "warn" if score >= 60 else "bad"
    width = max(0, min(100, score))
    return Safe(f'<span class="score {kind}"><span class="bar" style="--w:{width}%"></span>{text(score)}</span>')


_HEADS: Final = (
    Head("Worker", of="worker"),
    Head("Service", of="service"),
    Head("Score", of="score", said=_score),
    Head("Tasks", True, "tasks", count),
    Head("Share", True, "share", share),
    Head("Errors", True, "error_share", lambda value: share(value, 2)),
    Head("Median", True, "p50_ns", duration_ns),
    Head("Against others", True, "slowness", lambda times: "–" if times is None else f"× {times:.2f}"),
    Head("p99", True, "p99_ns", duration_ns),
    Head(
        "Lost", True, lambda row: f"{row['losses']:,} ({plural(row['lost_tasks'], 'task')})" if row["losses"] else "0"
    ),
    Head("Why", of="why", said=lambda why: why or "–"),
)
