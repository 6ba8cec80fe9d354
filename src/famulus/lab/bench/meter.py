"""A client process of a measurement: what it is told, and what it notes.

It keeps a window of tasks open for some seconds. Each body begins with the instant at which it was sent, and echo
returns it: so every latency is measured without keeping a table beside the client. The CPU time of all processes is
taken over the same stretch of time; the warm-up before it and the last answers after it do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import repeat
from secrets import token_hex
from time import monotonic_ns, process_time

import msgspec

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.errors import BenchFailed
from famulus.lab.bench.figures import Figures, latencies_us
from famulus.lab.bench.fleet import GRACE_S, Crew
from famulus.lab.processes import cpu_s

STAMP_BYTES = 8
WARM_UP_S = 0.5


class Meter:
    def __init__(self, from_ns: int, until_ns: int, size: int, pids: dict[str, list[int]]) -> None:
        """`pids` are the processes to weigh besides this one, by their part."""
        self._size = size
        self._pids = pids
        self._later_ns = [until_ns, NEVER_NS]
        self._turn_ns = from_ns
        # Of the warm-up, of the measured stretch, and of what comes after it.
        self._latencies_ns: list[list[int]] = [[]]
        self._turns: list[tuple[int, dict[str, float]]] = []

    def note(self, answer: bytes | memoryview) -> None:
        now_ns = monotonic_ns()
        if now_ns >= self._turn_ns:
            # Not each time: the check would be measured as well.
            if len(answer) != self._size:
                raise BenchFailed(f"{self._size} bytes went out, {len(answer)} came back: this is no echo")
            self._turn(now_ns)
        self._latencies_ns[-1].append(now_ns - int.from_bytes(answer[:STAMP_BYTES], "big"))

    def count(self, sent_ns: int, now_ns: int) -> None:
        """An answer whose body does not say when it was sent."""
        if now_ns >= self._turn_ns:
            self._turn(now_ns)
        self._latencies_ns[-1].append(now_ns - sent_ns)

    def _turn(self, now_ns: int) -> None:
        self._turns.append((now_ns, self._weigh()))
        self._latencies_ns.append([])
        self._turn_ns = self._later_ns.pop(0)

    def _weigh(self) -> dict[str, float]:
        others = {part: sum(map(cpu_s, pids)) for part, pids in self._pids.items()}
        return {**others, "client": process_time()}

    def report(self) -> Figures:
        """Rate, latencies and CPU time per task: of each part, and of all together."""
        if len(self._turns) == 1:
            # The last answer came a moment before the end, and no further one was requested: so the end is now.
            self._turns.append((monotonic_ns(), self._weigh()))
        if len(self._turns) != 2:
            raise BenchFailed("nothing came back for so long that no stretch of time could be measured")
        (from_ns, before), (until_ns, after) = self._turns
        latencies_ns = self._latencies_ns[1]
        tasks, seconds = len(latencies_ns), (until_ns - from_ns) / NS_PER_S
        cpu_us = {f"cpu_us_{part}": (after[part] - before[part]) * 1e6 / max(1, tasks) for part in after}
        report = {"tasks": tasks, "seconds": seconds, "rate": tasks / seconds, **latencies_us(latencies_ns)}
        return {**report, **cpu_us, "cpu_us_all": sum(cpu_us.values())}


class Order(msgspec.Struct, frozen=True):
    """What a client process is told, as one argument in JSON."""

    address: str
    window: int
    size: int
    seconds: float
    #: One of those that the peer offers: `request`, `map`, ...
    style: str
    #: The processes to weigh, by their part: server, worker.
    pids: dict[str, list[int]]
    #: Whether each task has a message_id of the client's own.
    ids: bool = False

    def begin(self) -> tuple[Meter, Iterator[bytes]]:
        """A meter that starts now, and bodies until the time is over."""
        from_ns = monotonic_ns() + int(WARM_UP_S * NS_PER_S)
        until_ns = from_ns + int(self.seconds * NS_PER_S)
        return Meter(from_ns, until_ns, self.size, self.pids), bodies(self.size, until_ns)

    def carry_out(self, crew: Crew, peer: str) -> Figures:
        """Run a client of this peer from its start to its end."""
        client = crew.part("client", "peers.process", peer, "client", msgspec.json.encode(self).decode(), stderr=True)
        output = client.output(self.seconds + GRACE_S)
        crew.remove(client)
        # The figures are its last line: libraries may have printed something before.
        figures: Figures = json.loads(output.splitlines()[-1])
        return figures


def names(tasks: Iterable[object] = repeat(None)) -> Iterator[str]:
    """An id for each task, different from all others, also from those of other processes."""
    run = token_hex(8)
    return (f"{run}-{number}" for number, _ in enumerate(tasks))


def bodies(size: int, until_ns: int) -> Iterator[bytes]:
    padding = bytes(max(0, size - STAMP_BYTES))
    while (now_ns := monotonic_ns()) < until_ns:
        yield now_ns.to_bytes(STAMP_BYTES, "big") + padding
