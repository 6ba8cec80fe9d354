"""`famulus bench serve`: tasks whose function is a Spark job, by `famulus.spark.serve`.

One Spark and one worker serve all rounds: it takes seconds until Java has compiled what it runs all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from famulus.lab.bench.buckets import PERCENTILES
from famulus.lab.bench.figures import Figures, Progress, median_of
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.load import OfferedLoad, start
from famulus.lab.bench.spark_worker import SERVICE, SparkWork

BODY_BYTES = 100
TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Plan:
    work: SparkWork
    #: Tasks that are open at once; or so many come in a second, whatever becomes of the others.
    window: int
    per_s: float
    seconds: float
    warm_up_s: float
    rounds: int


def measure(plan: Plan, progress: Progress) -> dict[str, Any]:
    offer = OfferedLoad(plan.per_s, plan.seconds, 1.0, BODY_BYTES, TIMEOUT_MS, SERVICE, window=plan.window, by_end=True)
    with Crew() as crew:
        broker = crew.broker()
        work = msgspec.json.encode(plan.work).decode()
        crew.part("worker", "spark_worker", broker.backend, work, stderr=True).wait_until(" is ready")
        start(crew, broker.frontend, msgspec.structs.replace(offer, seconds=plan.warm_up_s))()
        rounds = []
        for _ in range(plan.rounds):
            rounds.append(_round(crew, broker.frontend, offer))
            progress("serve", rounds[-1])
    return {"medians": median_of(rounds), "rounds": rounds}


def _round(crew: Crew, address: str, offer: OfferedLoad) -> Figures:
    seen = start(crew, address, offer)()
    ok = seen.latency("OK")
    figures = {f"{name}_ms": ok.percentile(PERCENTILES[name]) / 1e6 for name in ("p50", "p99")}
    return {"per_s": len(ok) / offer.seconds, **figures, "not_ok": sum(seen.outcomes.values()) - len(ok)}
