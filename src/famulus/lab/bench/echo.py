"""`famulus bench echo`: one broker, one worker, one client, and what a task costs each of them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial

from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.meter import Order
from famulus.lab.bench.peers import proxy


@dataclass(frozen=True, slots=True)
class Load:
    window: int = 1000
    size: int = 100
    seconds: float = 3.0
    client: str = "asyncio"
    flows: bool = True


def compare(load: Load, sides: list[str], rounds: int, progress: Progress) -> dict[str, object]:
    seen = in_turn(sides, rounds, partial(one_round, load), progress)
    rates = {side: medians["rate"] for side, medians in seen["medians"].items()}
    return {**seen, "ratios": {side: rates["famulus"] / rates[side] for side in sides if side != "famulus"}}


def one_round(load: Load, side: str) -> Figures:
    with Crew() as crew, tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        if side == "proxy":
            return weighed(crew, load, proxy.start(crew, load.window, name="proxy"), side)
        config.write("" if load.flows else "[bounds]\nflows_max = 0\n")
        config.flush()
        frontend = crew.echo_broker(load.window, "--config", config.name).frontend
        return weighed(crew, load, frontend, ids=side == "ids")


def weighed(crew: Crew, load: Load, address: str, peer: str = "famulus", *, ids: bool = False) -> Figures:
    """What a client sees under this load, with the CPU time per task of each process that is already running."""
    order = Order(address, load.window, load.size, load.seconds, load.client, crew.parts(), ids)
    seen = order.carry_out(crew, peer)
    # Sums over different numbers of processes cannot be compared.
    del seen["cpu_us_all"]
    return seen
