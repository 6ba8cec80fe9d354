"""The headline: is every task accounted for? And the figures that one looks for first."""

from __future__ import annotations

from collections import Counter
from typing import Final

from famulus.journal.unknowns import what_is_not_known
from famulus.pipeline.histogram import quantile_of
from famulus.pipeline.report.html import NOTHING, Safe, joined, tag, text
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import count, duration_ns, plural, rate, share

#: For each kind of row in the audit: its name, and what an unexplained one means: for one of them, for several.
KINDS: Final = {
    "no_outcome": ("no outcome", "task has no outcome", "tasks have no outcome"),
    "retry_without_end": ("never tried again", "task was never tried again", "tasks were never tried again"),
    "two_outcomes": ("two outcomes", "task has two outcomes", "tasks have two outcomes"),
    "rejected_but_ran": ("rejected, but ran", "task was rejected, and ran", "tasks were rejected, and ran"),
    "half_missing": (
        "half missing",
        "task is known to one of its two brokers only",
        "tasks are known to one of their two brokers only",
    ),
    "missing_rows": ("rows missing", "loss of rows that nobody owns up to", "losses of rows that nobody owns up to"),
    "duplicate_row": ("row twice", "row is there twice", "rows are there twice"),
    "ticket_twice": ("ticket twice", "ticket was used twice", "tickets were used twice"),
    "no_such_outcome": ("no such outcome", "outcome does not exist", "outcomes do not exist"),
    "ended_before_arrived": (
        "ended before it arrived",
        "task ended before it arrived",
        "tasks ended before they arrived",
    ),
    "negative_duration": ("negative duration", "duration is less than nothing", "durations are less than nothing"),
    "at_most_once": ("at-most-once broken", "at-most-once task ran twice", "at-most-once tasks ran twice"),
    "late_answer": ("late answer", "answer came late", "answers came late"),
    "gap": ("gap in the journal", "gap in the journal", "gaps in the journal"),
    "crash_window": ("crash", "crash took tasks along", "crashes took tasks along"),
}


def entries(tables: Tables) -> tuple[Counter[str], Counter[str]]:
    """Rows of the audit by kind: those that nothing explains, and those that something does."""
    unexplained: Counter[str] = Counter()
    explained: Counter[str] = Counter()
    for row in tables.rows("audit", ["kind", "explained"]):
        (explained if row["explained"] else unexplained)[row["kind"]] += 1
    return unexplained, explained


def said(kind: str, number: int) -> str:
    _, one, many = KINDS.get(kind, (kind, kind, kind))
    return f"{number:,} {one if number == 1 else many}"


def verdict(tables: Tables, timeline: Timeline | None) -> Safe:
    unexplained, explained = entries(tables)
    if unexplained:
        parts = ", ".join(said(kind, number) for kind, number in sorted(unexplained.items()))
        return _banner("bad", "✕", "Not every task is accounted for", f"{parts}. The audit below names each of them.")
    if timeline is None:
        return _banner(
            "none", "–", "No tasks yet", "The tables hold no minute of any service, so there is nothing to judge."
        )
    if unknown := not_known(tables):
        return _banner("warn", "!", "Every task that the journal knows of is accounted for",
                       f"What it cannot know: {unknown}. The audit below has the figures.")  # fmt: skip
    if explained:
        rows = plural(sum(explained.values()), "entry", "entries")
        return _banner("good", "✓", "Every task is accounted for",
                       f"The audit has {rows}, and each has its explanation.")  # fmt: skip
    return _banner("good", "✓", "Every task is accounted for", "The audit found nothing to explain.")


def not_known(tables: Tables) -> str:
    """What nobody can say from the journal alone, in words; empty if there is nothing."""
    rows = [row for row in tables.rows("audit", ["kind", "explained", "rows", "untold"]) if row["explained"]]
    return what_is_not_known(rows)


def _banner(kind: str, sign: str, headline: str, more: str) -> Safe:
    mark = f'<span class="sign" aria-hidden="true">{sign}</span>'
    return Safe(f'<div class="verdict {kind}">{mark}<div>{tag("h2", headline)}{tag("p", more)}</div></div>')


def tiles(tables: Tables, timeline: Timeline | None) -> Safe:
    if timeline is None:
        return NOTHING
    tasks, ok = timeline.total("tasks"), timeline.total("ok")
    whole = timeline.histograms["total_hist"].sum(axis=(0, 1))
    busiest = float(timeline.counts["tasks"].sum(axis=0).max()) / timeline.axis.seconds
    shown = [
        ("Tasks", count(tasks), f"{rate(busiest)} at the busiest"),
        ("Outcome OK", share(ok / tasks if tasks else None, 2), f"{count(tasks - ok)} were not"),
        ("Median time", duration_ns(quantile_of(whole, 500_000)), "from arrival to the end"),
        ("99th percentile", duration_ns(quantile_of(whole, 990_000)), "one task in a hundred takes longer"),
        ("Losses", count(_rows(tables, "failovers")), "of workers, dispatchers and peers"),
        ("Findings", count(_rows(tables, "findings")), "that call for an admin"),
    ]
    cells = [
        Safe(f'<div class="tile"><dt>{text(name)}</dt><dd>{text(value)}</dd><dd class="note">{text(note)}</dd></div>')
        for name, value, note in shown
    ]
    return Safe(f'<dl class="tiles">{joined(cells)}</dl>')


def _rows(tables: Tables, table: str) -> int:
    return sum(batch.num_rows for batch in tables.batches(table, ["kind"]))
