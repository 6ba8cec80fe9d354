"""Everything that one cell of the journal holds, table by table: tasks, checkpoints, loads. No file, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from famulus.journal.arrow import schema_of
from famulus.lab.synth.arrivals import CLIENTS, HOP_NS, NOBODY, OUTCOMES, Arrivals, arrivals_of
from famulus.lab.synth.edits import versions
from famulus.lab.synth.plan import US_PER_MINUTE, US_PER_S
from famulus.lab.synth.world import PRINCIPALS, Boot, Cell, World

PEER_LOAD_S: Final = 10
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)


def tables_of(world: World, cell: Cell) -> Iterator[tuple[str, Boot, pa.Table]]:
    """Table by table, with the boot whose rows they are: a task that was delegated is told by both brokers."""
    drawn = arrivals_of(world, cell)
    given = drawn.delegated_to != NOBODY
    here = _columns(world, cell.boot, drawn, (cell.number + 1) << 32) | {
        # This broker does not know which worker it is over there.
        "worker": _workers(world, np.where(given, NOBODY, drawn.worker)),
        "delegated_to": _chosen(world.brokers, drawn.delegated_to),
    }
    yield "tasks", cell.boot, _table("tasks", len(drawn.service), here)
    yield "open_tasks", cell.boot, _open_tasks(drawn, here)
    yield "access", cell.boot, _called(world, cell.boot, drawn, 1, np.where(given, 0, drawn.service_ns))
    away = drawn.take(given)
    target = (cell.boot.broker + 1) % world.plan.brokers
    for boot in world.boots:
        if boot.broker == target:
            lives = (away.arrived_us > boot.start_us) & (away.ended_us < boot.end_us)
            there = away.take(lives)
            yield "tasks", boot, _there(world, cell, boot, there)
            yield "access", boot, _called(world, boot, there, 0, _service_ns_there(there))
    yield "brokers", cell.boot, _loads(world, cell)
    yield "peers", cell.boot, pa.concat_tables([_peer_loads(world, cell), _given_away(world, cell, away)])


def _columns(world: World, boot: Boot, drawn: Arrivals, first_ticket: int) -> dict[str, Any]:
    """What a broker writes about tasks that it gave to its own workers."""
    at_most_once = np.array([service.at_most_once for service in world.services])
    return {
        **world.where(boot),
        "ticket": first_ticket + np.arange(len(drawn.service), dtype=np.int64),
        "message_id": _hexadecimal(drawn.ids),
        "attempt": 1,
        "service": _services(world, drawn.service),
        "worker": _workers(world, drawn.worker),
        "client": _chosen([world.name("client", number)[:16] for number in range(CLIENTS)], drawn.client),
        "at_most_once": at_most_once[drawn.service],
        "priority": drawn.priority,
        "arrived": drawn.arrived_us,
        "assigned": drawn.assigned_us,
        "ended": drawn.ended_us,
        "queue_ns": drawn.queue_ns,
        "service_ns": drawn.service_ns,
        "total_ns": drawn.total_ns,
        "outcome": _chosen(list(OUTCOMES), drawn.outcome),
        "request_bytes": drawn.request_bytes,
        "response_bytes": drawn.response_bytes,
        "config_version": versions(world, boot.broker, drawn.ended_us),
    }


def _services(world: World, numbers: np.ndarray) -> pa.Array:
    return _chosen([service.name for service in world.services], numbers)


def _workers(world: World, numbers: np.ndarray) -> pa.Array:
    return _chosen([worker.identity for worker in world.workers], numbers)


def _there(world: World, cell: Cell, boot: Boot, away: Arrivals) -> pa.Table:
    """The same tasks as seen by the broker that they were given to: a little later, and a little shorter."""
    queue_ns, service_ns = np.full(len(away.service), HOP_NS // 2, dtype=np.int64), _service_ns_there(away)
    seen = replace(away, queue_ns=queue_ns, service_ns=service_ns, ended_us=away.ended_us - HOP_NS // 1000)
    columns = _columns(world, boot, seen, ((cell.number + 1) << 32) + (1 << 31))
    return _table("tasks", len(away.service), columns | {"delegated_from": world.brokers[cell.boot.broker]})


def _service_ns_there(away: Arrivals) -> np.ndarray:
    shorter: np.ndarray = away.service_ns - 2 * HOP_NS - HOP_NS // 2
    return shorter


def _called(world: World, boot: Boot, drawn: Arrivals, counted: int, busy_ns: np.ndarray) -> pa.Table:
    """What each principal called of each service in each minute. `counted`: 0 where only their workers are."""
    minutes, whose = drawn.ended_us // US_PER_MINUTE, drawn.client % len(PRINCIPALS)
    key = np.stack([minutes, whose.astype(np.int64), drawn.service.astype(np.int64)], axis=1)
    if not len(key):
        return _table("access", 0, {})
    groups, group = np.unique(key, axis=0, return_inverse=True)
    last_us = np.zeros(len(groups), dtype=np.int64)
    np.maximum.at(last_us, group, drawn.ended_us)

    def summed(values: np.ndarray) -> np.ndarray:
        sums = np.zeros(len(groups), dtype=np.int64)
        np.add.at(sums, group, values)
        return sums

    columns = {
        **world.where(boot),
        "at": last_us,
        "port": "frontend",
        "wanted": "call",
        "principal": _chosen(list(PRINCIPALS), groups[:, 1]),
        "service": _services(world, groups[:, 2]),
        "times": summed(np.full(len(key), counted, dtype=np.int64)),
        "request_bytes": summed(drawn.request_bytes * counted),
        "response_bytes": summed(drawn.response_bytes * counted),
        "busy_ns": summed(busy_ns),
    }
    return _table("access", len(groups), columns)


def _open_tasks(drawn: Arrivals, here: dict[str, Any]) -> pa.Table:
    """A task is written at the first checkpoint that finds it in each of its states."""
    all_here = _table("open_tasks", len(drawn.service), {**here, "at": drawn.ended_us, "state": "running"})
    waiting, running = _checkpoint(drawn.arrived_us), _checkpoint(drawn.assigned_us)
    given = drawn.delegated_to != NOBODY
    parts = []
    for state, at, which in (
        ("queued", waiting, waiting < drawn.assigned_us),
        ("running", running, (running < drawn.ended_us) & ~given),
        ("delegated", running, (running < drawn.ended_us) & given),
    ):
        met = all_here.filter(pa.array(which))
        columns = {name: met.column(name) for name in met.column_names} | {"at": at[which], "state": state}
        if state == "queued":
            columns |= {"worker": None, "assigned": None, "delegated_to": None, "attempt": 0}
        parts.append(_table("open_tasks", met.num_rows, columns))
    return pa.concat_tables(parts).sort_by("at")


def _checkpoint(at_us: np.ndarray) -> np.ndarray:
    """The first one at or after it."""
    ceiling: np.ndarray = -(-at_us // US_PER_S) * US_PER_S
    return ceiling


def _seconds(cell: Cell, every_s: int) -> np.ndarray:
    step = every_s * US_PER_S
    return np.arange(-(-cell.start_us // step) * step, cell.end_us, step, dtype=np.int64)


def _busy(world: World, rng: np.random.Generator, broker: int, service: int, at_us: np.ndarray) -> tuple[Any, Any]:
    """Slots that are taken, and tasks that wait."""
    slots, share = world.slots(broker, service), world.busy_share(broker, service, at_us)
    busy = np.minimum(rng.poisson(share * slots), slots).astype(np.int32)
    waiting = share ** (np.sqrt(2 * (slots + 1)) + 1) / (1 - share)
    backlog = np.where(busy == slots, rng.poisson(waiting), 0).astype(np.int32)
    return busy, backlog


def _loads(world: World, cell: Cell) -> pa.Table:
    at_us, broker = _seconds(cell, world.plan.load_every_s), cell.boot.broker
    parts = []
    for number, service in enumerate(world.services):
        rng = np.random.default_rng([world.plan.seed, cell.number, number, 1])
        load = _load(world.slots(broker, number), *_busy(world, rng, broker, number, at_us))
        columns = {**world.where(cell.boot), "at": at_us, "service": service.name, **load}
        parts.append(_table("brokers", len(at_us), columns))
    return pa.concat_tables(parts)


def _load(slots: int, busy: Any, backlog: Any) -> dict[str, Any]:
    return {"event": "load", "slots_free": np.int32(slots) - busy, "slots_busy": busy, "backlog": backlog}


def _peer_loads(world: World, cell: Cell) -> pa.Table:
    at_us, services = _seconds(cell, PEER_LOAD_S), range(len(world.services))
    parts = [_table("peers", 0, {})]
    for peer, name in enumerate(world.brokers):
        if peer == cell.boot.broker:
            continue
        rng = np.random.default_rng([world.plan.seed, cell.number, peer, 2])
        told = [_busy(world, rng, peer, number, at_us) for number in services]
        busy, backlog = (np.sum([each[part] for each in told], axis=0, dtype=np.int32) for part in (0, 1))
        load = _load(sum(world.slots(peer, number) for number in services), busy, backlog)
        parts.append(_table("peers", len(at_us), {**world.where(cell.boot), "at": at_us, "peer": name, **load}))
    return pa.concat_tables(parts)


def _given_away(world: World, cell: Cell, away: Arrivals) -> pa.Table:
    """How many tasks of each service went to the peer in each second."""
    seconds = _checkpoint(away.assigned_us)
    key = np.stack([seconds, away.service.astype(np.int64)], axis=1)
    groups, counts = np.unique(key, axis=0, return_counts=True) if len(key) else (key, np.zeros(0, dtype=np.int64))
    columns = {
        **world.where(cell.boot),
        "at": groups[:, 0],
        "peer": world.brokers[(cell.boot.broker + 1) % world.plan.brokers],
        "event": "delegated",
        "tasks": counts,
        "service": _services(world, groups[:, 1]),
    }
    return _table("peers", len(counts), columns)


# -- from numpy arrays to the journal's columns in Arrow --------------------------------------------------------------


def _table(table: str, rows: int, columns: dict[str, Any]) -> pa.Table:
    """A plain value fills the whole column; a column that is not named is null."""
    schema = schema_of(table)
    arrays = [_column(columns.get(field.name), field.type, rows) for field in schema]
    return pa.table(arrays, schema=schema)


def _column(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows, kind)
    if isinstance(value, (str, int, bool)):
        return pa.repeat(pa.scalar(value, kind), rows)
    if isinstance(value, np.ndarray):
        return pa.array(value).cast(kind)
    return value if value.type == kind else value.cast(kind)


def _chosen(names: list[str], numbers: np.ndarray) -> pa.Array:
    """The name for each number; null for NOBODY."""
    return pa.array(names, pa.string()).take(pa.array(numbers, mask=numbers == NOBODY))


def _hexadecimal(codes: np.ndarray) -> pa.Array:
    """One text for each row of bytes."""
    rows, width = codes.shape
    letters = _HEX[codes].tobytes()
    offsets = np.arange(rows + 1, dtype=np.int32) * (2 * width)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
