"""The part of a journal that does not grow with its tasks: who came and went, the config, and what is planted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from famulus.journal.arrow import schema_of
from famulus.journal.schema import TIME_COLUMN
from famulus.lab.synth import edits
from famulus.lab.synth.planted import PLANTERS, Planted, event_of
from famulus.lab.synth.world import Boot, World


def truths(world: World) -> dict[str, dict[str, Any]]:
    return {name: planted.facts for name, planted in _planted(world).items()}


def tasks(world: World) -> int:
    """How many tasks are planted, besides those of the cells."""
    about_tasks = [each.rows.get(part, []) for each in _planted(world).values() for part in ("tasks", "open_tasks")]
    return len({row["message_id"] for rows in about_tasks for row in rows})


def tables_of(world: World) -> Iterator[tuple[str, Boot, pa.Table]]:
    """Each table of each boot once."""
    found: dict[tuple[str, Boot], list[dict[str, Any]]] = defaultdict(list)
    for table, row in _rows(world):
        broker, at_us = row["broker"], row[TIME_COLUMN[table]]
        named = [boot for boot in world.boots if boot.name == row.get("boot")]
        boot = named[0] if named else world.boot_at(broker, at_us)
        if table == "tasks":
            row = {**row, "config_version": int(edits.versions(world, broker, np.array([at_us]))[0])}
        found[table, boot].append({**row, **world.where(boot)})
    for (table, boot), rows in found.items():
        yield table, boot, pa.Table.from_pylist(rows, schema=schema_of(table))


def _planted(world: World) -> dict[str, Planted]:
    return {name: plant(world) for name, plant in PLANTERS.items() if world.has(name)}


def _rows(world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    for boot in world.boots:
        yield from _begin(world, boot)
    for row in edits.rows(world):
        yield "config", row
    for planted in _planted(world).values():
        for table, rows in planted.rows.items():
            for row in rows:
                yield table, row


def _begin(world: World, boot: Boot) -> Iterator[tuple[str, dict[str, Any]]]:
    """A broker starts, hears its peers, and its workers come."""
    at_us = boot.start_us
    yield "brokers", {"broker": boot.broker, "at": at_us, "event": "start"}
    yield "brokers", {"broker": boot.broker, "at": at_us + 100_000, "event": "state", "state": "active"}
    for number, peer in enumerate(world.brokers):
        if number != boot.broker:
            yield "peers", {"broker": boot.broker, "at": at_us + 150_000 + number, "peer": peer, "event": "heard"}
    for worker in world.workers:
        if worker.broker == boot.broker:
            yield "workers", event_of(world, worker, at_us + 200_000 + worker.number, "connect")
            yield "workers", event_of(world, worker, at_us + 240_000 + worker.number, "ready")
