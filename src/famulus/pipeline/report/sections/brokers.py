"""How loaded each broker was, and what befell it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from famulus.pipeline.report.html import Head, Safe, nothing, section, table
from famulus.pipeline.report.plot import Plot, figure, line, time_axis, when
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import count, duration_s, share

SUMS: Final = ("load_samples", "saturated_s", "delegated", "process_deaths", "dispatcher_deaths", "gap_rows")
LINES_MAX: Final = 8


def brokers(tables: Tables, timeline: Timeline | None) -> Safe:
    lead = "Which share of its slots was busy, and how many tasks waited for one."
    if timeline is None:
        return section("brokers", "Brokers", lead, nothing("No broker told its load in this span."))
    found = _read(tables, timeline)
    if not found:
        return section("brokers", "Brokers", lead, nothing("No broker told its load in this span."))
    listed = table("Brokers", _HEADS, [_cells(name, each) for name, each in sorted(found.items())])
    x = [when(at) for at in timeline.axis.starts()]
    busiest = sorted(found, key=lambda name: (-float(np.nansum(found[name]["busy"])), name))[:LINES_MAX]
    traces = [
        line(name, number, x, _ratio(found[name]["busy"], found[name]["slots"]), "%{y:.1%} of slots busy")
        for number, name in enumerate(sorted(busiest))
    ]
    layout = {"xaxis": time_axis(), "yaxis": {"range": [0, 1.02], "tickformat": ".0%"}}
    says = "Busy slots over all slots. At 100 % every further task has to wait or to go elsewhere."
    return section("brokers", "Brokers", lead, figure(Plot("Load", says, traces, layout, 280), listed))


_HEADS: Final = [
    Head("Broker"), Head("Slots", True), Head("Busy", True), Head("Longest backlog", True), Head("Saturated", True),
    Head("Handed over", True), Head("Dispatcher died", True), Head("Journal rows missing", True),
]  # fmt: skip


def _read(tables: Tables, timeline: Timeline) -> dict[str, dict[str, Any]]:
    """By broker: sums over the span, and of busy and all slots over each bin."""
    found: dict[str, dict[str, Any]] = {}
    columns = ["minute", "broker", "slots", "slots_busy", "backlog_max", *SUMS]
    for batch in tables.batches("broker_minutes", columns):
        at = timeline.axis.bin_of(batch.column("minute").cast(pa.int64()).to_numpy(zero_copy_only=False))
        inside = (at >= 0) & (at < timeline.axis.bins)
        names = np.array(batch.column("broker").to_pylist(), dtype=object)
        for name in sorted(set(names.tolist())):
            its = found.setdefault(name, _nothing(timeline.axis.bins))
            which = names == name
            for column in SUMS:
                its[column] += int(np.nansum(_floats(batch, column)[which]))
            longest = _floats(batch, "backlog_max")[which]
            its["backlog_max"] = max(its["backlog_max"], int(np.nanmax(longest, initial=0)))
            which &= inside
            for column, into in (("slots", "slots"), ("slots_busy", "busy")):
                np.add.at(its[into], at[which], np.nan_to_num(_floats(batch, column)[which]))
            np.add.at(its["minutes"], at[which], _floats(batch, "slots")[which] > 0)
    return found


def _nothing(bins: int) -> dict[str, Any]:
    arrays = {name: np.zeros(bins) for name in ("slots", "busy", "minutes")}
    return {**dict.fromkeys((*SUMS, "backlog_max"), 0), **arrays}


def _floats(batch: pa.RecordBatch, column: str) -> np.ndarray:
    values: np.ndarray = batch.column(column).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _ratio(part: np.ndarray, whole: np.ndarray) -> list[float | None]:
    return [float(a / b) if b > 0 else None for a, b in zip(part, whole, strict=True)]


def _cells(name: str, found: dict[str, Any]) -> list[object]:
    slots, busy, minutes = (float(found[each].sum()) for each in ("slots", "busy", "minutes"))
    return [
        name,
        f"{slots / minutes:,.0f}" if minutes else "–",
        share(busy / slots if slots else None),
        count(found["backlog_max"]),
        duration_s(float(found["saturated_s"])),
        count(found["delegated"]),
        count(found["dispatcher_deaths"]),
        count(found["gap_rows"]),
    ]
