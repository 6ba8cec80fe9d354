"""The rows of `task_facts` of plain tasks: those with one row, and those that were handed over once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from famulus.pipeline.columnar import hashes
from famulus.pipeline.columnar.hashes import is_among
from famulus.pipeline.columnar.hours import HourlyRows
from famulus.pipeline.columnar.rows import Array, Rows

_AS_IT_IS: Final = (
    "message_id", "service", "family", "broker", "outcome", "reason", "at_most_once", "priority", "arrived", "ended",
    "queue_ns", "service_ns", "total_ns", "request_bytes", "response_bytes",
)  # fmt: skip
COLUMNS: Final = (*_AS_IT_IS, "worker", "assigned", "delegated_from", "delegated_to")


@dataclass(frozen=True, slots=True)
class PlainFacts:
    """The rows of plain tasks, hour by hour. Can be sent to Spark's tasks."""

    tasks: HourlyRows
    #: By hour, the hashes of the tasks that are not plain.
    remarkable: dict[int, Array]

    @property
    def rows_of(self) -> dict[int, int]:
        return self.tasks.rows_of

    def of(self, hour: int, minutes: range) -> pa.Table:
        none = np.empty(0, np.uint64)
        return facts_of(self.tasks.read(hour, COLUMNS, minutes), self.remarkable.get(hour, none))


def facts_of(table: pa.Table, remarkable: Array) -> pa.Table:
    """`remarkable`: the hashes of the tasks that are not plain."""
    rows = Rows(table)
    of_task = hashes.of_texts(table["message_id"])
    is_plain = ~is_among(of_task, np.unique(remarkable))
    is_taken = rows.has("delegated_from")
    taken = _in_order(of_task, is_plain & is_taken)
    given = _in_order(of_task, is_plain & ~is_taken & rows.has("delegated_to"))
    assert len(given) == len(taken), "a plain task that was handed over has two rows"
    # Where to find the worker that had it, if one did.
    run = np.arange(len(rows))
    run[given] = taken
    own = np.flatnonzero(is_plain & ~is_taken)
    own = own[np.argsort(rows.numbers("ended")[own], kind="stable")]
    ran = rows.is_run[run[own]]
    facts = {name: table[name].take(pa.array(own)) for name in _AS_IT_IS}
    facts["worker"] = table["worker"].take(pa.array(run[own], mask=~ran))
    facts["brokers"] = _brokers(rows, own, run[own])
    facts["attempts"] = pa.array(ran.astype(np.int32))
    facts["late"] = pa.array(np.zeros(len(own), np.int32))
    facts["outcomes"] = pa.array(np.ones(len(own), np.int32))
    return pa.table(facts)


def _in_order(of_task: Array, where: Array) -> Array:
    rows = np.flatnonzero(where)
    ordered: Array = rows[np.argsort(of_task[rows])]
    return ordered


def _brokers(rows: Rows, own: Array, run: Array) -> pa.Array:
    """Those that each task passed, by name."""
    codes, values = rows.codes("broker")
    names = values.to_pylist()
    order = np.argsort(names)
    rank = np.empty(len(names), np.int32)
    rank[order] = np.arange(len(names))
    one, other = rank[codes[own]], rank[codes[run]]
    both = np.stack([np.minimum(one, other), np.maximum(one, other)], axis=1)
    is_there = np.stack([np.ones(len(own), bool), one != other], axis=1)
    offsets = np.append(0, np.cumsum(is_there.sum(axis=1))).astype(np.int32)
    texts = values.take(pa.array(order)).take(pa.array(both[is_there]))
    return pa.ListArray.from_arrays(pa.array(offsets), texts.cast(pa.string()))
