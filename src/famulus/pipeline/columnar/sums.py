"""Counts, sums and histograms over the rows of tasks of an hour."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from famulus.journal.arrow import TYPES
from famulus.journal.schema import Kind
from famulus.pipeline.columnar.groups import Groups
from famulus.pipeline.columnar.rows import US_PER_HOUR, US_PER_MINUTE, Array, Rows

MEASURES: Final = ("queue", "service", "total")
#: The columns that each of them reads.
MINUTE_COLUMNS: Final = (
    "ended", "service", "family", "broker", "outcome", "reason", "worker", "assigned", "delegated_from", "delegated_to",
    "queue_ns", "service_ns", "total_ns", "request_bytes", "response_bytes",
)  # fmt: skip
WORKER_COLUMNS: Final = ("ended", "service", "family", "broker", "outcome", "worker", "assigned", "service_ns")
LIVES: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("boot", pa.string()),
        ("service", pa.string()),
        ("hour_number", pa.int64()),
        ("at", TYPES[Kind.INSTANT]),
        ("longest_ns", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("count", pa.int64()),
        ("first", TYPES[Kind.INSTANT]),
    ]
)
LIFE_COLUMNS: Final = ("ended", "service", "broker", "boot", "outcome", "total_ns", "row")


def of_minutes(table: pa.Table) -> pa.Table:
    """How each service did at each broker, minute by minute."""
    rows = Rows(table)
    minute, names = rows.numbers("ended") // US_PER_MINUTE, ("service", "family", "broker")
    groups = Groups([minute, *(rows.codes(name)[0] for name in names)])
    settled, failed = rows.is_settled, rows.is_settled & ~rows.is_any("outcome", "OK")
    values = {measure: rows.numbers(f"{measure}_ns") for measure in MEASURES}
    return pa.table(
        {
            "minute": _instants(minute[groups.sample] * US_PER_MINUTE),
            **{name: _texts(rows, name, groups) for name in names},
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


def of_workers(table: pa.Table) -> pa.Table:
    """What each worker did for each service, at each broker."""
    rows = Rows(table)
    names = ("worker", "service", "family", "broker")
    if not rows.has("worker").all():
        rows = Rows(table.filter(pa.array(rows.has("worker"))))
    groups = Groups([rows.numbers("ended") // US_PER_HOUR, *(rows.codes(name)[0] for name in names)])
    run, service_ns = rows.is_run, rows.numbers("service_ns")
    outcomes = {"ok": "OK", "errors": "ERROR", "unknown": "UNKNOWN", "retries": "RETRY"}
    # Only what it answered: a time-out says nothing about how long it would have taken.
    answered = run & rows.is_any("outcome", "OK", "ERROR") & rows.has("service_ns")
    return pa.table(
        {
            "at": _instants(rows.numbers("ended")[groups.sample] // US_PER_HOUR * US_PER_HOUR),
            **{name: _texts(rows, name, groups) for name in names},
            "tasks": groups.counts(run),
            **{name: groups.counts(run & rows.is_any("outcome", outcome)) for name, outcome in outcomes.items()},
            "late": groups.counts(rows.is_any("outcome", "LATE")),
            "busy_ns": groups.sums(service_ns, run),
            "service_hist": groups.histogram(service_ns, answered),
        }
    )


def of_lives(table: pa.Table) -> pa.Table:
    """What is known of each life of a broker by its rows, service by service; see `pipeline.tables.lives`."""
    rows = Rows(table)
    names = ("broker", "boot", "service")
    ended, number = rows.numbers("ended"), rows.numbers("row")
    groups = Groups([ended // US_PER_HOUR, *(rows.codes(name)[0] for name in names)])
    numbered = rows.has("row")
    return pa.table(
        {
            **{name: _texts(rows, name, groups) for name in names},
            "hour_number": ended[groups.sample] // US_PER_HOUR,
            "at": _instants(groups.most(ended, np.ones(len(rows), bool))),
            "longest_ns": groups.most(rows.numbers("total_ns"), rows.is_final),
            "low": groups.least(number, numbered),
            "high": groups.most(number, numbered),
            "count": groups.counts(numbered),
            "first": _instants(groups.least(ended, numbered)),
        }
    )


def _texts(rows: Rows, name: str, groups: Groups) -> pa.Array:
    codes, values = rows.codes(name)
    chosen = codes[groups.sample]
    return values.take(pa.array(chosen, mask=chosen < 0)).cast(pa.string())


def _instants(numbers: Array | pa.Array) -> pa.Array:
    return pa.array(numbers).cast(TYPES[Kind.INSTANT])
