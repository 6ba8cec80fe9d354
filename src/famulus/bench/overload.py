"""`famulus bench overload`: beyond saturation, goodput must stay, the rest is rejected quickly, memory stays flat.

The worker has a fixed number of slots and sleeps for a fixed time per task, so its capacity is known and far below
what the broker can carry: what is measured is how the broker behaves when the workers are the bottleneck.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from famulus.bench import fleet

SETTINGS = """
[services.slow]
timeout_ms = 5000
backlog_tasks_max = 200
"""


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float
    work_ms: float
    slots: int
    factor: float


def measure(plan: Plan, tell: Callable[[str], None]) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, fleet.crew() as members:
        config = Path(folder, "broker.toml")
        config.write_text(SETTINGS)
        frontend, backend = fleet.broker(members, "--config", str(config))
        command = fleet.python("famulus.bench.slow_worker", backend, str(plan.slots), str(plan.work_ms))
        members.append(fleet.Member("worker", command, "is ready"))
        dispatcher = fleet.parts_of(members[0])["dispatcher"]
        tell("measuring the saturation with a closed loop")
        peak = _run(members, "closed", frontend, plan.slots * 4, plan.seconds)
        offered = peak["goodput"] * plan.factor
        tell(f"saturated at {peak['goodput']:,.0f} tasks/s; offering {offered:,.0f} tasks/s")
        with _Memory(dispatcher) as memory:
            over = _run(members, "open", frontend, offered, plan.seconds)
    return {
        "saturation_per_s": peak["goodput"],
        "offered_per_s": over["offered"],
        "goodput_per_s": over["goodput"],
        "goodput_ratio": over["goodput"] / peak["goodput"],
        "rejected_overload_per_s": over["rejected"],
        "rejected_p50_ms": over["rejected_p50_ms"],
        "rejected_p99_ms": over["rejected_p99_ms"],
        "ok_p99_ms": over["ok_p99_ms"],
        "other_outcomes": over["others"],
        "dispatcher_rss_kib_start": memory.seen[0],
        "dispatcher_rss_kib_middle": memory.seen[len(memory.seen) // 2],
        "dispatcher_rss_kib_end": memory.seen[-1],
    }


def _run(members: list[fleet.Member], kind: str, frontend: str, amount: float, seconds: float) -> dict[str, float]:
    client = fleet.Member(
        "client", fleet.python("famulus.bench.slow_load", kind, frontend, str(amount), str(seconds)), None
    )
    members.append(client)
    figures: dict[str, float] = json.loads(client.output(seconds + 60))
    return figures


class _Memory:
    """The resident memory of a process, looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.seen: list[int] = []
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while True:
            self.seen.append(fleet.rss_kib(self._pid))
            if self._over.wait(0.1):
                return

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
