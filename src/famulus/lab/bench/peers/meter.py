"""What a client process notes: the latency of each answer, and the CPU time of the whole side, in one and the same
stretch of time. The warm-up before it and the last answers after it count nowhere.
"""

from __future__ import annotations

from time import monotonic_ns, process_time

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.errors import BenchFailed
from famulus.lab.bench.figures import latencies_us
from famulus.lab.bench.fleet import cpu_s
from famulus.lab.bench.load import STAMP_BYTES


class Meter:
    def __init__(self, from_ns: int, until_ns: int, size: int, pids: dict[str, list[int]]) -> None:
        """`pids` are the processes to weigh besides this one, by their part."""
        self._size = size
        self._pids = pids
        self._later_ns = [until_ns, NEVER_NS]
        self._turn_ns = from_ns
        # Of the warm-up, of the stretch, and of what comes after it.
        self._latencies_ns: list[list[int]] = [[]]
        self._turns: list[tuple[int, dict[str, float]]] = []

    def note(self, answer: bytes | memoryview) -> None:
        now_ns = monotonic_ns()
        if now_ns >= self._turn_ns:
            self._turn(now_ns, answer)
        self._latencies_ns[-1].append(now_ns - int.from_bytes(answer[:STAMP_BYTES], "big"))

    def _turn(self, now_ns: int, answer: bytes | memoryview) -> None:
        # Not each time: it would be measured as well.
        if len(answer) != self._size:
            raise BenchFailed(f"{self._size} bytes went out, {len(answer)} came back: this is no echo")
        self._turns.append((now_ns, self._weigh()))
        self._latencies_ns.append([])
        self._turn_ns = self._later_ns.pop(0)

    def _weigh(self) -> dict[str, float]:
        others = {part: sum(map(cpu_s, pids)) for part, pids in self._pids.items()}
        return {**others, "client": process_time()}

    def report(self) -> dict[str, float]:
        """Rate, latencies and CPU time per task: of each part, and of all together."""
        if len(self._turns) == 1:
            # The last answer came a moment before the end, and the next one was not asked for: so the end is now.
            self._turns.append((monotonic_ns(), self._weigh()))
        if len(self._turns) != 2:
            raise BenchFailed("nothing came back for so long that no stretch of time could be measured")
        (from_ns, before), (until_ns, after) = self._turns
        latencies_ns = self._latencies_ns[1]
        tasks, seconds = len(latencies_ns), (until_ns - from_ns) / NS_PER_S
        cpu_us = {f"cpu_us_{part}": (after[part] - before[part]) * 1e6 / max(1, tasks) for part in after}
        total = {"cpu_us_all": sum(cpu_us.values())}
        return {
            "tasks": tasks,
            "seconds": seconds,
            "rate": tasks / seconds,
            **latencies_us(latencies_ns),
            **cpu_us,
            **total,
        }
