"""`famulus bench batch`: a function that does many tasks almost as fast as one, with batches and without.

Both sides have a broker of their own and a worker with as many threads, and take turns. A closed loop keeps so many
tasks open that the next batch can always be filled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from famulus.core.batch_queue import slots_for
from famulus.lab.bench.batch_worker import SERVICE, BatchWork
from famulus.lab.bench.buckets import PERCENTILES
from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.load import OfferedLoad, start

SINGLE, BATCHES = "single", "batches"
BODY_BYTES = 100
TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Plan:
    batch: int = 64
    wait_ms: float = 5.0
    threads: int = 1
    call_ms: float = 5.0
    task_ms: float = 0.1
    seconds: float = 5.0
    warm_up_s: float = 1.0
    rounds: int = 3

    @property
    def window(self) -> int:
        """Tasks open at once, on both sides: twice what the slots hold."""
        return 2 * slots_for(self.batch, self.threads)

    @property
    def best_ratio(self) -> float:
        """If nothing but the function took any time."""
        work = self.work(BATCHES)
        return self.batch * work.lasts_s(1) / work.lasts_s(self.batch)

    def work(self, side: str) -> BatchWork:
        batch = self.batch if side == BATCHES else 0
        return BatchWork(batch, self.wait_ms, self.threads, self.call_ms, self.task_ms)


def measure(plan: Plan, progress: Progress) -> dict[str, Any]:
    seen = in_turn((SINGLE, BATCHES), plan.rounds, partial(one_round, plan), progress)
    per_s = {side: medians["per_s"] for side, medians in seen["medians"].items()}
    return {"ratio": per_s[BATCHES] / per_s[SINGLE], "best_ratio": plan.best_ratio, **seen}


def one_round(plan: Plan, side: str) -> Figures:
    offer = OfferedLoad(
        0.0, plan.seconds, plan.warm_up_s, BODY_BYTES, TIMEOUT_MS, SERVICE, window=plan.window, by_end=True
    )
    with Crew() as crew:
        broker = crew.broker()
        work = msgspec.json.encode(plan.work(side)).decode()
        crew.part("worker", "batch_worker", broker.backend, work, stderr=True).wait_until(" is ready")
        seen = start(crew, broker.frontend, offer)()
    ok = seen.latency("OK")
    figures = {f"{name}_ms": ok.percentile(PERCENTILES[name]) / 1e6 for name in ("p50", "p99")}
    return {"per_s": len(ok) / plan.seconds, **figures, "not_ok": sum(seen.outcomes.values()) - len(ok)}
