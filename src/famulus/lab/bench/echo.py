"""`famulus bench echo`: one broker, one worker, one client, and what a task costs each of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from famulus.lab.bench import fleet
from famulus.lab.bench.figures import median_of
from famulus.lab.bench.weighed import weighed

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Load:
    window: int = 1000
    size: int = 100
    seconds: float = 3.0
    client: str = "asyncio"
    flows: bool = True


def famulus_round(load: Load) -> Figures:
    with fleet.crew() as members, tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write("" if load.flows else "[bounds]\nflows_max = 0\n")
        config.flush()
        frontend, backend = fleet.broker(members, "--config", config.name)
        command = fleet.python("famulus.lab.bench.echo_worker", backend, str(max(64, 2 * load.window)))
        members.append(fleet.Member("worker", command, "is ready"))
        command = fleet.python("famulus.lab.bench.load", load.client, frontend, *_arguments(load))
        return weighed(members, command, load.seconds)


def proxy_round(load: Load) -> Figures:
    with fleet.crew() as members:
        proxy = fleet.Member(
            "proxy", fleet.python("famulus.lab.bench.plain", "proxy"), r"clients (\S+), workers (\S+) "
        )
        members.append(proxy)
        assert proxy.ready is not None
        frontend, backend = proxy.ready[1], proxy.ready[2]
        members.append(fleet.Member("worker", fleet.python("famulus.lab.bench.plain", "worker", backend), "is ready"))
        command = fleet.python("famulus.lab.bench.plain", "client", frontend, *_arguments(load))
        return weighed(members, command, load.seconds)


SIDES: dict[str, Callable[[Load], Figures]] = {"famulus": famulus_round, "proxy": proxy_round}


def compare(load: Load, sides: list[str], rounds: int, progress: Callable[[str, Figures], None]) -> dict[str, object]:
    """All sides in turn, round by round, so that whatever else this machine does hits them alike."""
    seen: dict[str, list[Figures]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            figures = SIDES[side](load)
            seen[side].append(figures)
            progress(side, figures)
    medians = {side: median_of(each) for side, each in seen.items()}
    ratios = {side: medians["famulus"]["rate"] / medians[side]["rate"] for side in sides if side != "famulus"}
    return {"medians": medians, "ratios": ratios, "rounds": seen}


def _arguments(load: Load) -> list[str]:
    return [str(load.window), str(load.size), str(load.seconds)]
