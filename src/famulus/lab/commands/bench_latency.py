"""`famulus bench latency`: how long tasks take at fixed rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

QUICK_SECONDS = 1.0


def latency(
    rate: Annotated[
        list[float] | None,
        typer.Option(min=1.0, help="Tasks per second; may be given several times. [default: parts of the saturation]"),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.2, help="How long each rate is kept up in a round.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds through all rates; what they see is added up.")] = 2,
    size: Annotated[int, typer.Option(min=8, help="Bytes of a body.")] = 100,
    window: Annotated[int, typer.Option(min=1, help="Tasks open at once where the saturation is measured.")] = 100,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds after which a task has failed.")] = 5.0,
    quick: Annotated[bool, typer.Option("--quick", help="One round of a second per rate.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with every bucket.")] = False,
) -> None:
    """How long tasks take at fixed rates: percentiles up to p99.99 of an open loop, and what became of the tasks.

    Every task is due at an instant that is fixed beforehand, and its latency counts from that instant, whenever it
    could be sent: so a stall counts for all the tasks that it held up, and not just for one ("coordinated omission").
    Percentiles are of the tasks with the outcome OK; the others are counted beside them. A percentile that needs more
    tasks than there were is left out.

    Without --rate a closed loop first finds how much this machine can carry, and 10, 25, 50, 75 and 90 percent of
    that are offered.

    Example: famulus bench latency --rate 1000 --rate 5000 --html latency.html
    """
    from famulus.lab.bench import machine
    from famulus.lab.bench.latency import Plan, measure

    if html is not None:
        _check_writable(html)  # before a minute of work, not after it
    if quick:
        seconds, rounds = min(seconds, QUICK_SECONDS), 1
    plan = Plan(
        rates=tuple(rate or ()),
        seconds=seconds,
        rounds=rounds,
        size=size,
        window=window,
        saturation_s=min(2.0, seconds),
        timeout_ms=round(timeout * 1000),
    )
    result = {"command": "latency", **machine.facts(), **measure(plan, _tell)}
    if html is not None:
        from famulus.lab.bench.latency_page import page

        html.write_text(page(result), encoding="utf-8")
        _tell(f"written to {html}")
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        _show(result)


def _check_writable(path: Path) -> None:
    try:
        path.open("a").close()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--html") from None


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    names = list(result["rates"][0]["latency_ns"])
    table = Table(title="latency in ms, from the instant at which a task was due", title_justify="left")
    for name in ("tasks/s", *names, "not OK"):
        table.add_column(name, justify="right")
    for each in result["rates"]:
        failed = sum(each["outcomes"].values()) - each["outcomes"].get("OK", 0)
        latencies = (_milliseconds(each["latency_ns"][name]) for name in names)
        table.add_row(f"{each['rate']:,.0f}", *latencies, f"{failed:,}")
    console = Console()
    if result["saturation_per_s"]:
        console.print(f"saturated at {result['saturation_per_s']:,.0f} tasks/s")
    console.print(table)


def _milliseconds(nanoseconds: int | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds / 1e6:.2f}"
