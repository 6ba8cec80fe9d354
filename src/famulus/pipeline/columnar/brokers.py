"""What brokers told of themselves, an hour at a time. Nearly all of it is their load, which they write every second."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal import arrow
from famulus.journal.arrow import TYPES
from famulus.journal.schema import Kind
from famulus.pipeline.columnar.groups import Groups
from famulus.pipeline.columnar.rows import US_PER_HOUR, US_PER_MINUTE, US_PER_S, Array, Rows, hour_of, instants

EVENTS: Final = pa.schema([field.with_nullable(True) for field in arrow.schema_of("brokers")])
LOADS: Final = pa.schema(
    [
        ("minute", TYPES[Kind.INSTANT]),
        ("broker", pa.string()),
        ("family", pa.string()),
        *((name, pa.int64()) for name in ("load_samples", "slots_sum", "busy_sum", "backlog_sum", "backlog_max")),
        ("saturated_s", pa.int64()),
    ]
)
SIGNS: Final = pa.schema(
    [("broker", pa.string()), ("boot", pa.string()), ("at", TYPES[Kind.INSTANT]), ("ended", pa.bool_())]
)
#: The columns that each of them reads.
LOAD_COLUMNS: Final = ("at", "event", "broker", "family", "slots_free", "slots_busy", "backlog")
SERVICE_COLUMNS: Final = (*LOAD_COLUMNS, "service", "detail")
SIGN_COLUMNS: Final = ("at", "event", "process", "broker", "boot")


def events(table: pa.Table) -> pa.Table:
    """All rows but those of the load."""
    return table.filter(pc.not_equal(table["event"], "load"))


def of_services(table: pa.Table) -> pa.Table:
    """How many slots each service had at each broker, how busy they were, and its objective."""
    rows = _only(table.filter(table["service"].is_valid()), "load", "objective")
    load, told = rows.is_any("event", "load"), rows.is_any("event", "objective")
    names = ("service", "family", "broker")
    groups = Groups([rows.numbers("at") // US_PER_HOUR, *(rows.codes(name)[0] for name in names)])
    # Rows of objectives have no slots and no backlog, so they add nothing to the sums.
    everything = np.ones(len(rows), bool)
    free, busy, backlog = (rows.numbers(name) for name in ("slots_free", "slots_busy", "backlog"))
    objective, objective_told = _told_last(rows, groups, told)
    return pa.table(
        {
            **hour_of(rows.numbers("at")[groups.sample]),
            **{name: rows.texts(name, groups.sample) for name in names},
            "samples": groups.counts(load),
            "slots_sum": groups.sums(free + busy, everything),
            "busy_sum": groups.sums(busy, everything),
            "backlog_sum": groups.sums(backlog, everything),
            "slots_max": groups.most(free + busy, everything),
            "backlog_max": groups.most(backlog, everything),
            "saturated_s": groups.counts((free == 0) & (backlog > 0)),
            "objective": objective,
            "objective_told": objective_told,
        }
    )


def of_loads(table: pa.Table) -> pa.Table:
    """The load of each broker, minute by minute; its seconds are summed over all services first."""
    rows = _only(table, "load")
    second, names = rows.numbers("at") // US_PER_S, ("broker", "family")
    seconds = Groups([second, *(rows.codes(name)[0] for name in names)])
    free, busy, backlog = (rows.numbers(name) for name in ("slots_free", "slots_busy", "backlog"))
    everything = np.ones(len(rows), bool)
    slots, busy, waiting = (seconds.sums(each, everything) for each in (free + busy, busy, backlog))
    is_saturated = seconds.counts((free == 0) & (backlog > 0)) > 0

    minute = second[seconds.sample] // (US_PER_MINUTE // US_PER_S)
    minutes = Groups([minute, *(rows.codes(name)[0][seconds.sample] for name in names)])
    everything, sample = np.ones(seconds.count, bool), seconds.sample[minutes.sample]
    return pa.table(
        {
            "minute": instants(minute[minutes.sample] * US_PER_MINUTE),
            **{name: rows.texts(name, sample) for name in names},
            "load_samples": minutes.counts(everything),
            "slots_sum": minutes.sums(slots, everything),
            "busy_sum": minutes.sums(busy, everything),
            "backlog_sum": minutes.sums(waiting, everything),
            "backlog_max": minutes.most(waiting, everything),
            "saturated_s": minutes.counts(is_saturated),
        }
    )


def of_signs(table: pa.Table) -> pa.Table:
    """The last row that each life of a broker wrote, and whether it reported its end."""
    rows, names = Rows(table), ("broker", "boot")
    groups = Groups([rows.numbers("at") // US_PER_HOUR, *(rows.codes(name)[0] for name in names)])
    died = rows.is_any("event", "process_died") & rows.is_any("process", "dispatcher")
    return pa.table(
        {
            **{name: rows.texts(name, groups.sample) for name in names},
            "at": instants(groups.most(rows.numbers("at"), np.ones(len(rows), bool))),
            "ended": groups.counts(died | rows.is_any("event", "stop")) > 0,
        }
    )


def _only(table: pa.Table, *events: str) -> Rows:
    rows = Rows(table)
    return Rows(table.filter(pa.array(rows.is_any("event", *events))))


def _told_last(rows: Rows, groups: Groups, told: Array) -> tuple[pa.Array, pa.Array]:
    """For each group, what the last of these rows says, and its instant. There are few of them."""
    last: dict[int, tuple[int, str]] = {}
    (numbers,) = np.nonzero(told)
    details = rows.texts("detail", numbers).to_pylist()
    for group, at, detail in zip(groups.of_row[told].tolist(), rows.numbers("at")[told].tolist(), details, strict=True):
        last[group] = max(last.get(group, (at, "")), (at, detail or ""))
    found = [last.get(group, (None, None)) for group in range(groups.count)]
    return pa.array([detail for _, detail in found], pa.string()), instants([at for at, _ in found])
