"""How loaded each broker was, and what happened to it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from famulus.pipeline.report.html import Head, Safe, listed, nothing, section
from famulus.pipeline.report.plot import figure, line, time_axis
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.timeline import TimeAxis, Timeline, micros
from famulus.pipeline.report.words import count, duration_s, instant, share

SUMS: Final = ("saturated_s", "delegated", "dispatcher_deaths", "gap_rows")
#: Over each bin; `told` are minutes in which there were slots.
BY_BIN: Final = ("slots", "slots_busy", "told")
LINES_MAX: Final = 8


def brokers(tables: Tables, timeline: Timeline | None) -> Safe:
    lead = "Which share of its slots was busy, and how many tasks waited for one."
    found = [] if timeline is None else _read(tables, timeline.axis)
    if timeline is None or not found:
        return section("brokers", "Brokers", lead, nothing("No broker told its load in this span."))
    x = [instant(at) for at in timeline.axis.starts()]
    busiest = sorted(found, key=lambda each: (-each["slots_busy"].sum(), each["broker"]))[:LINES_MAX]
    traces = [
        line(each["broker"], number, x, _ratios(each["slots_busy"], each["slots"]), "%{y:.1%} of slots busy")
        for number, each in enumerate(sorted(busiest, key=lambda each: each["broker"]))
    ]
    layout = {"xaxis": time_axis(), "yaxis": {"range": [0, 1.02], "tickformat": ".0%"}}
    says = "Busy slots over all slots. At 100 % every further task has to wait or to go elsewhere."
    instead = listed("Brokers", _HEADS, found)
    return section("brokers", "Brokers", lead, figure("Load", says, traces, layout, height=280, instead=instead))


def _ratios(part: np.ndarray, whole: np.ndarray) -> list[float | None]:
    return [float(a / b) if b > 0 else None for a, b in zip(part, whole, strict=True)]


def _overall(part: str, whole: str, row: dict[str, Any]) -> float | None:
    return _ratios(row[part].sum(keepdims=True), row[whole].sum(keepdims=True))[0]


_HEADS: Final = (
    Head("Broker", of="broker"),
    Head("Slots", True, lambda row: count(_overall("slots", "told", row))),
    Head("Busy", True, lambda row: share(_overall("slots_busy", "slots", row))),
    Head("Longest backlog", True, "backlog_max", count),
    Head("Saturated", True, "saturated_s", duration_s),
    Head("Handed over", True, "delegated", count),
    Head("Dispatcher died", True, "dispatcher_deaths", count),
    Head("Journal rows missing", True, "gap_rows", count),
)


def _read(tables: Tables, axis: TimeAxis) -> list[dict[str, Any]]:
    """For each broker: sums over the span, and those of busy and all slots over each bin."""
    found: dict[str, dict[str, Any]] = {}
    sums = [(name, "sum") for name in (*SUMS, *BY_BIN)]
    for batch in tables.batches("broker_minutes", ["minute", "broker", "slots", "slots_busy", "backlog_max", *SUMS]):
        rows = pa.Table.from_batches([batch])
        rows = rows.append_column("told", pc.greater(rows["slots"], 0).cast(pa.int64()))
        rows = rows.append_column("bin", pa.array(axis.bin_of(micros(batch.column("minute")))))
        for row in rows.group_by(["broker", "bin"]).aggregate([*sums, ("backlog_max", "max")]).to_pylist():
            its = found.setdefault(row["broker"], _nothing(row["broker"], axis.bins))
            for name in SUMS:
                its[name] += row[f"{name}_sum"] or 0
            its["backlog_max"] = max(its["backlog_max"], row["backlog_max_max"] or 0)
            if 0 <= row["bin"] < axis.bins:
                for name in BY_BIN:
                    its[name][row["bin"]] += row[f"{name}_sum"] or 0
    return [found[name] for name in sorted(found)]


def _nothing(broker: str, bins: int) -> dict[str, Any]:
    arrays = {name: np.zeros(bins) for name in BY_BIN}
    return {"broker": broker, **dict.fromkeys((*SUMS, "backlog_max"), 0), **arrays}
