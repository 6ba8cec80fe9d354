"""`famulus bench recovery`: how long it takes to notice who is there but does nothing."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer


def recovery(
    rounds: Annotated[int, typer.Option(min=1, help="How often each fault is made.")] = 5,
    seconds: Annotated[float, typer.Option(min=0, help="Length of the run without faults; 0: none.")] = 60.0,
    busy: Annotated[int, typer.Option(min=0, help="Processes that keep the processors busy in that run.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with all rounds.")] = False,
) -> None:
    """How long a client is without answers when a part is there but does nothing, at the default settings.

    The client's broker is frozen, its dispatcher hangs, or the client is cut off from it. Then the same without a
    fault, at the full rate beside busy processes: whoever is given up there is given up in vain.

    Example: famulus bench recovery --rounds 5
    """
    from famulus.lab.bench.machine import facts
    from famulus.lab.bench.recovery import Plan, measure

    result = measure(Plan(rounds, seconds, busy), _quiet if as_json else _tell)
    if as_json:
        typer.echo(json.dumps({"command": "recovery", **facts(), **result}, indent=2))
    else:
        _show(result)


def _quiet(*_: object) -> None:
    pass


def _tell(fault: str, seconds: float) -> None:
    typer.echo(f"{fault:8} {seconds:5.2f} s", err=True)


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="from the fault to the next success")
    for column in ("fault", "median", "worst"):
        table.add_column(column, justify="left" if column == "fault" else "right")
    for fault, found in result["recovery_s"].items():
        table.add_row(fault, f"{found['median']:.2f} s", f"{found['worst']:.2f} s")
    console = Console()
    console.print(table)
    for name, value in result["under_load"].items():
        console.print(f"{name}: {value:,}")
