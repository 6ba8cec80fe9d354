"""`famulus bench streams`: parts of a stream per second, and that no memory grows with them.

One worker, one client, one stream; and beside it as many plain tasks by `map`. Each has a broker of its own, and they
take turns. A tenth of the parts comes first, until everything is warm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from famulus.client.parts import CREDIT_DEFAULT
from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import GRACE_S, Crew
from famulus.lab.bench.stream_ends import Reading, Seen

STREAM, MAP = "stream", "map"
#: Of the client of the plain tasks.
WINDOW = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    parts: int = 200_000
    size: int = 100
    credit: int = CREDIT_DEFAULT
    client: str = "threads"
    rounds: int = 3

    def reading(self, side: str, pids: dict[str, list[int]]) -> Reading:
        at_once = self.credit if side == STREAM else WINDOW
        return Reading(side == STREAM, self.parts, self.size, at_once, self.client == "asyncio", pids)


def measure(plan: Plan, progress: Progress) -> dict[str, Any]:
    seen = in_turn((STREAM, MAP), plan.rounds, partial(one_round, plan), progress)
    per_s = {side: medians["per_s"] for side, medians in seen["medians"].items()}
    return {"ratio": per_s[STREAM] / per_s[MAP], **seen}


def one_round(plan: Plan, side: str) -> Figures:
    with Crew() as crew:
        broker = crew.broker()
        crew.part("worker", "stream_ends", "worker", broker.backend, 2 * WINDOW, stderr=True).wait_until(" is ready")
        reading = msgspec.json.encode(plan.reading(side, crew.families())).decode()
        client = crew.part("client", "stream_ends", "client", broker.frontend, reading)
        seen = msgspec.json.decode(client.output(GRACE_S + plan.parts / 500), type=Seen)
    figures = {"per_s": seen.count / seen.seconds}
    for name, us in seen.cpu_us.items():
        figures[f"cpu_us_{name}"] = us
    for name, (before, after) in seen.rss_kib.items():
        figures[f"mib_{name}"] = after / 1024
        figures[f"grown_kib_{name}"] = after - before
    return figures
