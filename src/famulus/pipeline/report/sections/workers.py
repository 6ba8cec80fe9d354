"""The health of each worker, the worst first."""

from __future__ import annotations

import heapq
from typing import Any, Final

from famulus.pipeline.report.html import ROWS_MAX, Head, Safe, nothing, section, table, text
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import count, duration_ns, plural, share

_COLUMNS: Final = ["worker", "service", "tasks", "share", "error_share", "losses", "lost_tasks", "p50_ns", "p99_ns",
                   "slowness", "score", "why"]  # fmt: skip
_HEADS: Final = [
    Head("Worker"), Head("Service"), Head("Score"), Head("Tasks", True), Head("Share", True), Head("Errors", True),
    Head("Median", True), Head("Against others", True), Head("p99", True), Head("Lost", True), Head("Why"),
]  # fmt: skip


def workers(tables: Tables) -> Safe:
    lead = "The last day of data: each worker against the others of its service. 100 means: nothing to say against it."
    seen, fine = 0, 0

    def rows() -> Any:
        nonlocal seen, fine
        for row in tables.rows("worker_health", _COLUMNS):
            seen += 1
            fine += row["score"] >= 100
            yield row

    worst = heapq.nsmallest(ROWS_MAX, rows(), key=lambda row: (row["score"], row["worker"], row["service"]))
    if not worst:
        return section("workers", "Workers", lead, nothing("No worker had a task in this span."))
    said = "all of them in good health" if fine == seen else f"{plural(seen - fine, 'has', 'have')} points off"
    caption = f"{plural(seen, 'worker')}, {said}"
    return section(
        "workers", "Workers", lead, table(caption, _HEADS, [_cells(row) for row in worst], seen - len(worst))
    )


def _cells(row: dict[str, Any]) -> list[object]:
    slowness = row["slowness"]
    return [
        row["worker"],
        row["service"],
        _score(row["score"]),
        count(row["tasks"]),
        share(row["share"]),
        share(row["error_share"], 2),
        duration_ns(row["p50_ns"]),
        "–" if slowness is None else f"× {slowness:.2f}",
        duration_ns(row["p99_ns"]),
        f"{row['losses']:,} ({plural(row['lost_tasks'], 'task')})" if row["losses"] else "0",
        row["why"] or "–",
    ]


def _score(score: int) -> Safe:
    """A bar and the figure itself."""
    kind = "good" if score >= 90 else "warn" if score >= 60 else "bad"
    width = max(0, min(100, score))
    return Safe(f'<span class="score {kind}"><span class="bar" style="--w:{width}%"></span>{text(score)}</span>')
