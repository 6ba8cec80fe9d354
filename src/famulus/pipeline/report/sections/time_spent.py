"""Where the time of tasks goes: the wait for a slot, and the run at a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from famulus.pipeline.report.html import Head, Safe, listed, nothing, section, table
from famulus.pipeline.report.plot import figure, line, time_axis
from famulus.pipeline.report.time_spent import PERCENTILES, TimeSpent, time_spent
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import count, duration_ns, duration_s, instant
from famulus.pipeline.report.words import share as share_of

#: Rows of the table that replaces the plot.
ROWS: Final = 24


def time_spent_section(timeline: Timeline | None) -> Safe:
    lead = (
        "The wait ends when a task is given to a worker. The run is the rest, with the way to the worker and back. "
        "Percentiles are those of each part: the task that waits longest need not be the one that runs longest."
    )
    services = [] if timeline is None else time_spent(timeline)
    if timeline is None or not services:
        return section("time_spent", "Time spent", lead, nothing("No tasks in this span."))
    parts = listed("Services, those first whose tasks wait longest together", _HEADS, services)
    return section("time_spent", "Time spent", lead, parts, _shares(timeline, services))


def _at(of: Callable[[TimeSpent], Sequence[float]], number: int) -> Callable[[TimeSpent], str]:
    return lambda each: duration_ns(of(each)[number])


_PARTS: Final[tuple[tuple[str, Callable[[TimeSpent], Sequence[float]]], ...]] = (
    ("wait", lambda each: each.waits),
    ("run", lambda each: each.runs),
    ("total", lambda each: each.totals),
)
_HEADS: Final = (
    Head("Service", of=lambda each: each.service),
    Head("Tasks", True, lambda each: count(each.tasks)),
    Head("Time spent waiting", True, lambda each: _said(each.wait_share)),
    *(
        Head(f"{part} {name}", True, _at(of, number))
        for number, (name, _) in enumerate(PERCENTILES)
        for part, of in _PARTS
    ),
)


def _said(value: float) -> str:
    return share_of(None if np.isnan(value) else value)


def _shares(timeline: Timeline, services: Sequence[TimeSpent]) -> Safe:
    x = [instant(at) for at in timeline.axis.starts()]
    traces = [
        line(each.service, number, x, (100 * each.wait_shares()).tolist(), "%{y:.3~g} %")
        for number, each in enumerate(services)
    ]
    layout = {"xaxis": time_axis(), "yaxis": {"title": {"text": "% of the time"}, "rangemode": "tozero"}}
    says = f"The part of the time of its tasks that they wait, in steps of {duration_s(timeline.axis.seconds)}."
    heads = [Head("From (UTC)"), *(Head(each.service, True) for each in services)]
    # At most so many rows: several steps of the plot together.
    bins = -(-timeline.axis.bins // ROWS)
    shares = np.stack([each.wait_shares(bins) for each in services], axis=1)
    rows = [
        [f"{timeline.axis.at(number * bins):%Y-%m-%d %H:%M}", *(_said(float(value)) for value in values)]
        for number, values in enumerate(shares)
    ]
    return figure("Waiting", says, traces, layout, instead=table("Time spent waiting", heads, rows))
