"""Which crowds, connections and bodies the scale measurement goes through. Knows no processes.

Along every axis one thing grows and the others stay the same, so its figures can be compared with its first step:

workers           all services are asked in turn: all workers work
connected         only the first service is asked: ten work, and the others are merely there
connections       the same tasks over more connections of clients, in turn
connections_idle  the same tasks over one connection, and the others are merely there
bytes             the same tasks with longer bodies
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Axis = Literal["workers", "connected", "connections", "connections_idle", "bytes"]

WORKERS_PER_SERVICE = 10
SIZES = (100, 1024, 64 * 1024, 1024 * 1024, 16 * 1024 * 1024)
#: Bytes of bodies in flight: a window of long bodies is smaller, or it would measure the memory of this machine.
WINDOW_BYTES_MAX = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest of everything."""

    workers: int = 10_000
    connections: int = 1000
    size: int = SIZES[-1]
    window: int = 100
    size_first: int = SIZES[0]


@dataclass(frozen=True, slots=True)
class Gathering:
    """Workers and services at one broker."""

    workers: int
    services: int


@dataclass(frozen=True, slots=True)
class Step:
    axis: Axis
    gathering: Gathering
    #: How many of the services are asked.
    asked: int
    connections: int
    #: Over how many of the connections tasks are sent.
    asking: int
    size: int
    window: int


def service_name(number: int) -> str:
    return f"echo-{number}"


def tens(most: int, first: int = 1) -> Iterator[int]:
    """In factors of ten from `first` up to `most`, which is always the last."""
    value = first
    while value < most:
        yield value
        value *= 10
    yield most


def gatherings(limits: Limits) -> list[Gathering]:
    counts = tens(limits.workers, min(WORKERS_PER_SERVICE, limits.workers))
    return [Gathering(count, max(1, count // WORKERS_PER_SERVICE)) for count in counts]


def plan(limits: Limits) -> list[Step]:
    crowds = gatherings(limits)
    few = Step("workers", crowds[0], 1, 1, 1, limits.size_first, limits.window)
    steps = [replace(few, gathering=crowd, asked=crowd.services) for crowd in crowds]
    steps += [replace(few, axis="connected", gathering=crowd) for crowd in crowds]
    steps += [replace(few, axis="connections", connections=each, asking=each) for each in tens(limits.connections)]
    steps += [replace(few, axis="connections_idle", connections=each) for each in tens(limits.connections)]
    sizes = [size for size in SIZES if size <= limits.size]
    steps += [replace(few, axis="bytes", size=size, window=window_for(size, limits.window)) for size in sizes]
    return steps


def window_for(size: int, window: int) -> int:
    return max(1, min(window, WINDOW_BYTES_MAX // size))
