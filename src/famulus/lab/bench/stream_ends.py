"""The worker and the client of the measurement of streams.

python -m famulus.lab.bench stream_ends worker ADDRESS SLOTS
python -m famulus.lab.bench stream_ends client ADDRESS READING

READING is a `Reading` in JSON, and the client prints a `Seen`. The worker ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import repeat
from time import perf_counter
from typing import TypeVar

import msgspec

from famulus import AsyncClient, Client, Worker
from famulus.lab.processes import cpu_s, rss_kib

#: Of all parts or tasks, so many come before anything is measured.
WARM_UP = 10
TIMEOUT_S = 600.0
STREAM, ECHO = "stream", "echo"

_Number = TypeVar("_Number", int, float)


class Reading(msgspec.Struct, frozen=True):
    is_stream: bool
    #: Parts, or tasks.
    count: int
    #: Bytes of each.
    size: int
    #: The credit, or the window.
    at_once: int
    asynchronous: bool
    #: Of the other processes: those whose memory is looked at, by name.
    pids: dict[str, list[int]]

    @property
    def body(self) -> str:
        """What the worker is asked for."""
        return f"{self.count} {self.size}"


class Seen(msgspec.Struct, frozen=True):
    count: int
    seconds: float
    #: Per part or task.
    cpu_us: dict[str, float]
    #: At the beginning and at the end.
    rss_kib: dict[str, tuple[int, int]]


class Meter:
    """Counts, and from the moment when it is warm notes what that takes."""

    def __init__(self, reading: Reading) -> None:
        self._pids = {**reading.pids, "client": [os.getpid()]}
        self._warm_at = reading.count // WARM_UP
        self._count = 0
        self._began = perf_counter()
        self._cpu_s = self._sum(cpu_s)
        self._rss_kib = self._sum(rss_kib)

    def count(self) -> None:
        self._count += 1
        if self._count == self._warm_at:
            self._rss_kib, self._cpu_s, self._began = self._sum(rss_kib), self._sum(cpu_s), perf_counter()

    def seen(self) -> Seen:
        seconds, rss, cpu = perf_counter() - self._began, self._sum(rss_kib), self._sum(cpu_s)
        count = self._count - self._warm_at
        return Seen(
            count,
            seconds,
            {name: (cpu[name] - was) * 1e6 / count for name, was in self._cpu_s.items()},
            {name: (was, rss[name]) for name, was in self._rss_kib.items()},
        )

    def _sum(self, look: Callable[[int], _Number]) -> dict[str, _Number]:
        return {name: sum(map(look, pids)) for name, pids in self._pids.items()}


def serve(address: str, slots: int) -> None:
    logging.basicConfig(level="INFO")  # it says when it is ready
    worker = Worker(address, slots=slots)

    @worker.service(STREAM)
    def stream(body: bytes) -> Iterator[bytes]:
        count, size = map(int, body.split())
        yield from repeat(bytes(size), count)

    @worker.service(ECHO)
    def echo(body: bytes) -> bytes:
        return body

    worker.run()


def read(address: str, reading: Reading) -> Seen:
    meter = Meter(reading)
    with Client(address, timeout=TIMEOUT_S) as client:
        if reading.is_stream:
            answers: Iterator[bytes] = client.stream(STREAM, reading.body, credit=reading.at_once)
        else:
            answers = client.map(ECHO, repeat(bytes(reading.size), reading.count), window=reading.at_once)
        for _ in answers:
            meter.count()
        return meter.seen()


async def read_with_asyncio(address: str, reading: Reading) -> Seen:
    meter = Meter(reading)
    async with AsyncClient(address, timeout=TIMEOUT_S) as client:
        if reading.is_stream:
            answers: AsyncIterator[bytes] = client.stream(STREAM, reading.body, credit=reading.at_once)
        else:
            answers = client.map(ECHO, repeat(bytes(reading.size), reading.count), window=reading.at_once)
        async for _ in answers:
            meter.count()
        return meter.seen()


def main(end: str, address: str, what: str) -> None:
    if end == "worker":
        serve(address, int(what))
        return
    reading = msgspec.json.decode(what, type=Reading)
    seen = asyncio.run(read_with_asyncio(address, reading)) if reading.asynchronous else read(address, reading)
    sys.stdout.write(msgspec.json.encode(seen).decode())
