"""`famulus bench journal`: what the journal costs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer


def journal(
    window: Annotated[int, typer.Option(min=1, help="Tasks open at once.")] = 1000,
    size: Annotated[int, typer.Option(min=8, help="Bytes of a body.")] = 100,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of a round, after a short warm-up.")] = 2.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with and without; the medians are shown.")] = 9,
    soak: Annotated[
        float, typer.Option(min=0.0, help="Then so many seconds at full rate: rows, gaps, the scribe's memory.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratio and rounds.")] = False,
) -> None:
    """What the journal costs: the same echo with and without it, in turn, and the CPU time of a task in each process.

    Example: famulus bench journal --rounds 5 --soak 60
    """
    from famulus.lab.bench.journal import Load, compare
    from famulus.lab.bench.journal import soak as run_soak
    from famulus.lab.bench.machine import facts

    tell = _quiet if as_json else _tell
    result = {"command": "journal", **facts(), **compare(Load(window, size, seconds), rounds, tell)}
    if soak:
        result["soak"] = run_soak(Load(window, size, soak), tell)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        _show(result)


def _quiet(*_: object) -> None:
    pass


def _tell(side: str, figures: dict[str, float]) -> None:
    typer.echo(f"{side:5} {figures['rate']:9,.0f} tasks/s", err=True)


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console

    from famulus.lab.commands.bench_sides import beside

    console = Console()
    console.print(beside("echo with and without a journal: medians of the rounds", result["medians"]))
    console.print(f"with the journal: {result['ratio']:.3f} of the throughput without")
    for name, value in result.get("soak", {}).items():
        console.print(f"soak: {name} {value:,.1f}")
