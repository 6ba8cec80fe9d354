"""The client process of a measurement: keeps a window of tasks open for some seconds and prints what it saw, in JSON.

Each body begins with the instant at which it was sent, and echo brings it back: so every latency is measured, without
keeping a table beside the client.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from time import monotonic_ns, process_time

from famulus import AsyncClient, Client
from famulus.core.clock import NS_PER_S
from famulus.lab.bench.figures import latencies_us

STAMP_BYTES = 8
WARM_UP_S = 0.5


def bodies(size: int, until_ns: int) -> Iterator[bytes]:
    padding = bytes(max(0, size - STAMP_BYTES))
    while (now_ns := monotonic_ns()) < until_ns:
        yield now_ns.to_bytes(STAMP_BYTES, "big") + padding


class Tally:
    """What came after the warm-up."""

    def __init__(self, from_ns: int) -> None:
        self.from_ns = from_ns
        self.cpu_from_s = 0.0
        self.nanoseconds: list[int] = []
        self.last_ns = 0

    def note(self, answer: bytes) -> None:
        now_ns = monotonic_ns()
        if now_ns < self.from_ns:
            self.cpu_from_s = process_time()
            return
        self.nanoseconds.append(now_ns - int.from_bytes(answer[:STAMP_BYTES], "big"))
        self.last_ns = now_ns

    def report(self) -> dict[str, float]:
        seconds = max(1, self.last_ns - self.from_ns) / NS_PER_S
        count = len(self.nanoseconds)
        cpu_us = (process_time() - self.cpu_from_s) / max(1, count) * 1e6
        latencies = latencies_us(self.nanoseconds)
        return {"tasks": count, "seconds": seconds, "rate": count / seconds, **latencies, "cpu_us_client": cpu_us}


def with_threads(address: str, window: int, size: int, seconds: float) -> dict[str, float]:
    start_ns = monotonic_ns()
    tally = Tally(start_ns + int(WARM_UP_S * NS_PER_S))
    with Client(address) as client:
        stream = bodies(size, start_ns + int((WARM_UP_S + seconds) * NS_PER_S))
        if window == 1:
            for body in stream:
                tally.note(client.request("echo", body))
        else:
            for answer in client.map("echo", stream, window=window, ordered=False):
                tally.note(answer)
    return tally.report()


async def with_asyncio(address: str, window: int, size: int, seconds: float) -> dict[str, float]:
    start_ns = monotonic_ns()
    tally = Tally(start_ns + int(WARM_UP_S * NS_PER_S))
    async with AsyncClient(address) as client:
        stream = bodies(size, start_ns + int((WARM_UP_S + seconds) * NS_PER_S))
        if window == 1:
            for body in stream:
                tally.note(await client.request("echo", body))
        else:
            async for answer in client.map("echo", stream, window=window, ordered=False):
                tally.note(answer)
    return tally.report()


def main(kind: str, address: str, window: str, size: str, seconds: str) -> None:
    if kind == "threads":
        report = with_threads(address, int(window), int(size), float(seconds))
    else:
        report = asyncio.run(with_asyncio(address, int(window), int(size), float(seconds)))
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
