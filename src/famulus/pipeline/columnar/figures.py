"""How each service did, over the rows of tasks of an hour: minute by minute at each broker, and all of it together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from famulus.pipeline.columnar.groups import Groups
from famulus.pipeline.columnar.hours import HourlyRows, in_parts
from famulus.pipeline.columnar.rows import US_PER_HOUR, US_PER_MINUTE, Array, Rows, hour_of, instants
from famulus.pipeline.histogram import quantiles_of

#: The columns that it reads.
COLUMNS: Final = (
    "ended", "service", "family", "broker", "outcome", "reason", "worker", "assigned", "delegated_from", "delegated_to",
    "queue_ns", "service_ns", "total_ns", "request_bytes", "response_bytes",
)  # fmt: skip
MEASURES: Final = ("queue", "service", "total")
COUNTS: Final = (
    "tasks", "ok", "errors", "rejected", "unknown", "overloaded", "no_worker", "expired", "retries", "late",
    "delegated_out", "delegated_in", "runs", "request_bytes", "response_bytes", "busy_ns",
)  # fmt: skip
HISTOGRAMS: Final = (*(f"{measure}_hist" for measure in MEASURES), "not_ok_hist")


def figures(rows: HourlyRows, schema: pa.Schema, hours: Sequence[int]) -> Iterator[pa.Table]:
    """Of each of these hours the minutes, and then the hour itself: those rows have no broker."""
    for hour in hours:
        found = [of_minutes(part).select(_KEPT) for part in in_parts(rows, COLUMNS, hour)]
        minutes = pa.concat_tables(found).combine_chunks()
        for each in (minutes, of_hour(minutes)):
            whole = _with_quantiles(each)
            columns = [whole[name] if name in whole.column_names else pa.nulls(each.num_rows) for name in schema.names]
            yield pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def of_minutes(table: pa.Table) -> pa.Table:
    rows = Rows(table)
    minute, names = rows.numbers("ended") // US_PER_MINUTE, ("service", "family", "broker")
    groups = Groups([minute, *(rows.codes(name)[0] for name in names)])
    settled, failed = rows.is_settled, rows.is_settled & ~rows.is_any("outcome", "OK")
    values = {measure: rows.numbers(f"{measure}_ns") for measure in MEASURES}
    return pa.table(
        {
            "minute": instants(minute[groups.sample] * US_PER_MINUTE),
            **{name: rows.texts(name, groups.sample) for name in names},
            **{name: groups.counts(where) for name, where in _kinds(rows).items()},
            "request_bytes": groups.sums(rows.numbers("request_bytes"), settled),
            "response_bytes": groups.sums(rows.numbers("response_bytes"), settled),
            "busy_ns": groups.sums(values["service"], rows.is_run),
            **{
                f"{measure}_hist": groups.histogram(values[measure], settled & rows.has(f"{measure}_ns"))
                for measure in MEASURES
            },
            # Of few tasks: with `total_hist` it tells how many were OK, and within any time.
            "not_ok_hist": groups.histogram(values["total"], failed),
        }
    )


def of_hour(minutes: pa.Table) -> pa.Table:
    """The same over all minutes and brokers."""
    rows, names = Rows(minutes), ("service", "family")
    hour = rows.numbers("minute") // US_PER_HOUR
    groups = Groups([hour, *(rows.codes(name)[0] for name in names)])
    everything = np.ones(len(rows), bool)
    return pa.table(
        {
            "minute": instants(hour[groups.sample] * US_PER_HOUR),
            **{name: rows.texts(name, groups.sample) for name in names},
            **{name: groups.sums(rows.numbers(name), everything) for name in COUNTS},
            **{name: groups.summed(minutes[name].combine_chunks()) for name in HISTOGRAMS},
        }
    )


_KEPT: Final = ["minute", "service", "family", "broker", *COUNTS, *HISTOGRAMS]


def _with_quantiles(rows: pa.Table) -> pa.Table:
    columns = {name: rows[name] for name in rows.column_names}
    columns |= {"at": rows["minute"], **hour_of(rows["minute"])}
    for measure in MEASURES:
        found = quantiles_of(rows[f"{measure}_hist"].combine_chunks())
        columns |= {f"{measure}_{name}_ns": value for name, value in found.items()}
    return pa.table(columns)


def _kinds(rows: Rows) -> dict[str, Array]:
    settled, on_time = rows.is_settled, ~rows.is_any("outcome", "LATE")
    rejected = settled & rows.is_any("outcome", "REJECTED")
    return {
        "tasks": settled,
        "ok": settled & rows.is_any("outcome", "OK"),
        "errors": settled & rows.is_any("outcome", "ERROR"),
        "rejected": rejected,
        "unknown": settled & rows.is_any("outcome", "UNKNOWN"),
        "overloaded": rejected & rows.is_any("reason", "overload"),
        "no_worker": rejected & rows.is_any("reason", "no_worker", "no_service"),
        "expired": settled & rows.is_any("reason", "expired"),
        "retries": rows.is_any("outcome", "RETRY"),
        "late": ~on_time,
        "delegated_out": on_time & rows.has("delegated_to"),
        "delegated_in": rows.is_final & rows.has("delegated_from"),
        "runs": rows.is_run,
    }
