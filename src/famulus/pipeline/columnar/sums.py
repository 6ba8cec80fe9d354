"""What workers and brokers did, over the rows of tasks of an hour."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from famulus.journal.arrow import TYPES
from famulus.journal.schema import Kind
from famulus.pipeline.columnar.groups import Groups
from famulus.pipeline.columnar.rows import US_PER_HOUR, Rows, hour_of, instants

#: The columns that each of these reads.
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
            **hour_of(rows.numbers("ended")[groups.sample]),
            **{name: rows.texts(name, groups.sample) for name in names},
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
            **{name: rows.texts(name, groups.sample) for name in names},
            "hour_number": ended[groups.sample] // US_PER_HOUR,
            "at": instants(groups.most(ended, np.ones(len(rows), bool))),
            "longest_ns": groups.most(rows.numbers("total_ns"), rows.is_final),
            "low": groups.least(number, numbered),
            "high": groups.most(number, numbered),
            "count": groups.counts(numbered),
            "first": instants(groups.least(ended, numbered)),
        }
    )
