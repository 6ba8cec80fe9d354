"""`famulus bench echo`: one broker, one worker, one client, and what a task costs each of them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

from famulus.lab.bench.figures import Figures, Progress, in_turn, median_of
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
    seen = in_turn(sides, rounds, lambda side: one_round(load, side), progress)
    medians = {side: median_of(each) for side, each in seen.items()}
    ratios = {side: medians["famulus"]["rate"] / medians[side]["rate"] for side in sides if side != "famulus"}
    return {"medians": medians, "ratios": ratios, "rounds": seen}


def one_round(load: Load, side: str) -> Figures:
    with Crew() as crew, tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        if side == "proxy":
            return weighed(crew, load, proxy.start(crew, load.window, name="proxy"), side)
        config.write("" if load.flows else "[bounds]\nflows_max = 0\n")
        config.flush()
        return weighed(crew, load, with_worker(crew, load, "--config", config.name))


def with_worker(crew: Crew, load: Load, *flags: str) -> str:
    """A broker and a worker that echoes; where clients find them."""
    broker = crew.broker(*flags)
    crew.echo_worker(broker.backend, load.window)
    return broker.frontend


def weighed(crew: Crew, load: Load, address: str, peer: str = "famulus") -> Figures:
    """What a client of this load sees, with the CPU time per task of each process that is there already."""
    order = Order(address, load.window, load.size, load.seconds, load.client, crew.parts())
    figures = order.carry_out(crew, peer)
    # A sum over more or fewer processes could not be compared.
    del figures["cpu_us_all"]
    return figures
