"""`famulus bench`: measurements with processes of their own, on this machine."""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any

import typer

from famulus.lab.commands.bench_journal import journal
from famulus.lab.commands.bench_latency import latency
from famulus.lab.commands.bench_peers import peers
from famulus.lab.commands.bench_pipeline import pipeline
from famulus.lab.commands.bench_recovery import recovery
from famulus.lab.commands.bench_scale import scale
from famulus.lab.commands.bench_viewers import viewers

app = typer.Typer(
    help="Measure this machine: each command starts its own broker, workers and clients.", no_args_is_help=True
)


@app.callback()
def _bench() -> None:
    """Measure this machine: each command starts its own broker, workers and clients."""
    signal.signal(signal.SIGTERM, _end)
    # A signal may come between the start of a process and the moment from which somebody looks after it.
    atexit.register(_leave_nobody_behind)


def _end(number: int, _: object) -> None:
    """As with Ctrl-C, whatever was started is stopped first; nobody interrupts that."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _leave_nobody_behind() -> None:
    from famulus.lab.bench.peers.recruit import family

    for pid in family(os.getpid())[1:]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class ClientKind(StrEnum):
    asyncio = "asyncio"
    threads = "threads"


class Peer(StrEnum):
    proxy = "proxy"


@app.command()
def echo(
    window: Annotated[int, typer.Option(min=1, help="Tasks open at once.")] = 1000,
    size: Annotated[int, typer.Option(min=8, help="Bytes of a body.")] = 100,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of a round, after a short warm-up.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the medians are shown.")] = 3,
    client: Annotated[ClientKind, typer.Option(help="Which client is measured.")] = ClientKind.asyncio,
    flows: Annotated[bool, typer.Option(help="Remember headers; without, a router reads every message.")] = True,
    against: Annotated[Peer | None, typer.Option(help="Measure this one too, round by round in turn.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratios and rounds.")] = False,
) -> None:
    """How fast an echo is: throughput, latency, and the CPU time of a task in each process.

    With --against proxy the same echo goes through `zmq.proxy` with plain pyzmq on both sides.

    Example: famulus bench echo --window 1000 --size 100 --against proxy
    """
    from famulus.lab.bench.echo import Load, compare
    from famulus.lab.bench.machine import facts

    sides = ["famulus", *([against.value] if against is not None else [])]
    load = Load(window, size, seconds, client.value, flows)
    result = compare(load, sides, rounds, _quiet if as_json else _tell_round)
    if as_json:
        typer.echo(json.dumps({"command": "echo", **facts(), "load": _facts(load), **result}, indent=2))
    else:
        _show_table(result)


@app.command()
def overload(
    seconds: Annotated[float, typer.Option(min=1.0, help="Length of each measurement, after its warm-up.")] = 5.0,
    work_ms: Annotated[float, typer.Option(min=0.1, help="How long the worker takes for a task.")] = 8.0,
    slots: Annotated[int, typer.Option(min=1, help="Slots of the worker.")] = 8,
    factor: Annotated[float, typer.Option(min=1.0, help="Offered load, in multiples of what the slots can do.")] = 2.0,
    timeout: Annotated[
        list[float] | None,
        typer.Option(min=0.01, help="Time-out of the tasks, in s; repeatable. 0.2, 1, 5, 60 if none."),
    ] = None,
    slow: Annotated[bool, typer.Option(help="Also a service of 1 s a task, with 4 slots.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """What happens beyond saturation: goodput must stay, the rest is rejected quickly, memory stays flat.

    So many times as much as its slots can do is offered to a worker, whether it is served or not: once for each
    time-out. In the same seconds a second worker is kept busy and no more, which shows how much can be done.

    Example: famulus bench overload --factor 2
    """
    from famulus.lab.bench.machine import facts
    from famulus.lab.bench.overload import Plan, Service, measure

    services = [Service("fast", work_ms, slots, tuple(timeout or (0.2, 1.0, 5.0, 60.0)))]
    if slow:
        services.append(Service("slow", 1000.0, 4, (1.5, 5.0, 60.0)))
    result = measure(Plan(seconds, factor, tuple(services)), _quiet if as_json else _tell_phase)
    if as_json:
        typer.echo(json.dumps({"command": "overload", **facts(), **result}, indent=2))
    else:
        _show_overload(result)


app.command()(latency)
app.command()(scale)
app.command()(peers)
app.command()(pipeline)
app.command()(journal)
app.command()(viewers)
app.command()(recovery)


def _quiet(*_: object) -> None:
    pass


def _tell_round(side: str, figures: dict[str, float]) -> None:
    typer.echo(f"{side:8} {figures['rate']:9,.0f} tasks/s  p99 {figures['p99']:9,.0f} us", err=True)


def _tell_phase(phase: str) -> None:
    typer.echo(phase, err=True)


def _facts(load: object) -> dict[str, object]:
    import dataclasses

    return dataclasses.asdict(load)  # type: ignore[call-overload, no-any-return]


def _show_table(result: dict[str, Any]) -> None:
    from rich.console import Console

    from famulus.lab.commands.bench_sides import beside

    console = Console()
    console.print(beside("echo: medians of the rounds", result["medians"], decimals=1))
    for side, ratio in result["ratios"].items():
        console.print(f"famulus has {ratio:.2f} times the throughput of {side}")


def _show_overload(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from famulus.cli.status.words import milliseconds

    table = Table(title="overload: tasks per second, and how long 99 % took", box=None, pad_edge=False)
    for name in ("work", "time-out", "offered", "OK", "ratio", "UNKNOWN", "rejected", "OK took", "no took"):
        table.add_column(name, justify="right")
    for load in result.pop("loads"):
        table.add_row(
            milliseconds(load["work_ms"]),
            milliseconds(load["timeout_s"] * 1000),
            f"{load['offered_per_s']:,.0f}",
            f"{load['goodput_per_s']:,.1f}",
            f"{load['goodput_ratio']:.2f}",
            f"{load['unknown_share']:.1%}",
            f"{load['rejected_overload_per_s'] + load['rejected_expired_per_s']:,.1f}",
            milliseconds(load["ok_p99_ms"]),
            milliseconds(load["rejected_p99_ms"]),
        )
    console = Console()
    console.print(table)
    for name, value in result.items():
        console.print(f"{name}: {value:,.2f}" if isinstance(value, float) else f"{name}: {value}")
