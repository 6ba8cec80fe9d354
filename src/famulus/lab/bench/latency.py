"""`famulus bench latency`: how long tasks take at fixed rates, counted from the instant at which each was due.

One broker and one worker that echoes; first a closed loop finds how much they can carry on this machine, then an open
loop offers fractions of that, in turn and round by round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from famulus.lab.bench.buckets import LatencyBuckets
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.load import OfferedLoad, Seen, start
from famulus.lab.bench.meter import Order

FRACTIONS = (0.1, 0.25, 0.5, 0.75, 0.9)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    #: Tasks per second; if empty, FRACTIONS of the saturation.
    rates: tuple[float, ...] = ()
    seconds: float = 5.0
    rounds: int = 2
    size: int = 100
    #: Of the closed loop that finds the saturation, which lasts `saturation_s`.
    window: int = 100
    saturation_s: float = 2.0
    warm_up_s: float = 0.5
    timeout_ms: int = 5000


def figures_of(per_s: float, rounds: list[Seen], saturation_per_s: float | None) -> dict[str, Any]:
    """Everything seen at one rate, over the rounds."""
    latencies = LatencyBuckets()
    for seen in rounds:
        latencies.merge(seen.latency("OK"))
    return {
        "rate": per_s,
        "fraction": per_s / saturation_per_s if saturation_per_s else None,
        "offered": sum(seen.offered for seen in rounds),
        "outcomes": sum((Counter(seen.outcomes) for seen in rounds), Counter()),
        "latency_ns": {**latencies.percentiles(), "max": latencies.highest},
        "sent_late_ns_max": max(seen.latest_ns for seen in rounds),
        "buckets": latencies.written(),
    }


def rates_of(saturation_per_s: float) -> list[float]:
    """Round numbers: the saturation itself is not known any better than that."""
    return [max(1.0, float(f"{saturation_per_s * fraction:.2g}")) for fraction in FRACTIONS]


def measure(plan: Plan, tell: Tell) -> dict[str, Any]:
    with Crew() as crew:
        frontend = crew.echo_broker(plan.window).frontend
        saturation = None if plan.rates else _saturation(crew, frontend, plan, tell)
        rates = rates_of(saturation) if saturation else plan.rates
        rounds: list[list[Seen]] = [[] for _ in rates]
        for number in range(plan.rounds):
            for per_s, seen in zip(rates, rounds, strict=True):
                tell(f"round {number + 1}: {per_s:,.0f} tasks/s for {plan.seconds:g} s")
                offer = OfferedLoad(per_s, plan.seconds, plan.warm_up_s, plan.size, plan.timeout_ms)
                seen.append(start(crew, frontend, offer)())
    figures = [figures_of(per_s, seen, saturation) for per_s, seen in zip(rates, rounds, strict=True)]
    return {"saturation_per_s": saturation, "plan": asdict(plan), "rates": figures}


def _saturation(crew: Crew, frontend: str, plan: Plan, tell: Tell) -> float:
    tell(f"measuring the saturation with a closed loop of {plan.window} tasks")
    order = Order(frontend, plan.window, max(8, plan.size), plan.saturation_s, "asyncio", {})
    rate = order.carry_out(crew, "famulus")["rate"]
    tell(f"saturated at {rate:,.0f} tasks/s")
    return rate
