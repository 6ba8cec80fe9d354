"""The health of each worker, the worst first."""

from __future__ import annotations

from typing import Any, Final

from famulus.pipeline.report.html import ROWS_MAX, Head, Safe, listed, nothing, section, text
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import count, duration_ns, plural, share

_COLUMNS: Final = ["worker", "service", "tasks", "share", "error_share", "losses", "lost_tasks", "p50_ns", "p99_ns",
                   "slowness", "score", "why"]  # fmt: skip


def workers(tables: Tables) -> Safe:
    lead = "The last day of data: each worker against the others of its service. 100 means: nothing to say against it."
    # Apart: those with complaints must not be crowded out, and those without need not all be shown.
    sick, well = Worst(), Worst()
    for row in tables.rows("worker_health", _COLUMNS):
        (well if row["score"] >= 100 else sick).add(row)
    if not sick.seen + well.seen:
        return section("workers", "Workers", lead, nothing("No worker had a task in this span."))
    shown = nothing("All workers are in good health.")
    if sick.seen:
        shown = sick.table(f"{plural(sick.seen, 'worker')} with points off, the worst first")
    many = plural(well.seen, "healthy worker")
    folded = Safe(f"<details><summary>{many}</summary>{well.table(many)}</details>") if well.seen else Safe("")
    return section("workers", "Workers", lead, shown, folded)


class Worst:
    """Those with the lowest scores, of however many."""

    def __init__(self) -> None:
        self.seen = 0
        self._rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        self.seen += 1
        self._rows.append(row)
        if len(self._rows) > 2 * ROWS_MAX:
            self._cut()

    def _cut(self) -> None:
        self._rows = sorted(self._rows, key=lambda row: (row["score"], row["worker"], row["service"]))[:ROWS_MAX]

    def table(self, caption: str) -> Safe:
        self._cut()
        return listed(caption, _HEADS, self._rows, self.seen - len(self._rows))


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
        "Lost",
        True,
        lambda row: f"{row['losses']:,} ({plural(row['lost_tasks'], 'task')})" if row["losses"] else "0",
    ),
    Head("Why", of="why", said=lambda why: why or "–"),
)
