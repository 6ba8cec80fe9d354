"""`famulus bench viewers`: what the dashboard's viewers cost."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer


def viewers(
    count: Annotated[int, typer.Option("--viewers", min=1, max=1000, help="Who look at the dashboard.")] = 100,
    window: Annotated[int, typer.Option(min=1, help="Tasks open at once.")] = 1000,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of a round, after a short warm-up.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with and without; the medians are shown.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratios and rounds.")] = False,
) -> None:
    """What viewers of the dashboard cost: the same echo with and without them, in turn.

    Each viewer holds the stream of events that a page follows. `dispatcher_ratio` is the CPU time of the dispatcher per
    task with them over that without; `ratio` is that of the throughput, where all processes share the machine's cores.

    Example: famulus bench viewers --viewers 100
    """
    from famulus.lab.bench.machine import facts
    from famulus.lab.bench.viewers import Load, compare

    tell = _quiet if as_json else _tell
    load = Load(viewers=count, window=window, seconds=seconds)
    result = {"command": "viewers", "viewers": count, **facts(), **compare(load, rounds, tell)}
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        _show(result)


def _quiet(*_: object) -> None:
    pass


def _tell(side: str, figures: dict[str, float]) -> None:
    cost = figures["cpu_us_dispatcher"]
    typer.echo(f"{side:8} {figures['rate']:9,.0f} tasks/s  dispatcher {cost:5.2f} us per task", err=True)


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console

    from famulus.lab.commands.bench_sides import beside

    console = Console()
    title = f"echo with {result['viewers']} viewers and with nobody: medians"
    console.print(beside(title, result["medians"]))
    console.print(f"with viewers a task costs the dispatcher {result['dispatcher_ratio']:.3f} of what it costs without")
    console.print(f"and the throughput is {result['ratio']:.3f} of that without")
