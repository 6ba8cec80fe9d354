"""`famulus bench echo`, `journal`, `viewers` and `peers`: the same echo with and without something, in turn."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from famulus.lab.commands.bench_result import Print, Result, beside, check_page, give, table, tell, tell_rounds

Window = Annotated[int, typer.Option(min=1, help="Tasks open at once.")]
Size = Annotated[int, typer.Option(min=8, help="Bytes of a body.")]
Seconds = Annotated[float, typer.Option(min=0.5, help="Length of a round, after a short warm-up.")]


def echo(
    window: Window = 1000,
    size: Size = 100,
    seconds: Seconds = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the medians are shown.")] = 3,
    client: Annotated[Literal["asyncio", "threads"], typer.Option(help="Which client is measured.")] = "asyncio",
    flows: Annotated[bool, typer.Option(help="Remember headers; without, a router reads every message.")] = True,
    against: Annotated[
        Literal["proxy", "ids"] | None, typer.Option(help="Measure this one too, round by round in turn.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratios and rounds.")] = False,
) -> None:
    """How fast an echo is: throughput, latency, and the CPU time of a task in each process.

    With --against proxy the same echo goes through `zmq.proxy` with plain pyzmq on both sides; with --against ids each
    task has a message_id of the client's own.

    Example: famulus bench echo --window 1000 --size 100 --against proxy
    """
    from famulus.lab.bench.echo import Load, compare

    sides = ["famulus", against] if against else ["famulus"]
    load = Load(window, size, seconds, client, flows)
    tell = tell_rounds("{side:8} {rate:9,.0f} tasks/s  p99 {p99:9,.0f} us", as_json)
    give("echo", {"load": asdict(load), **compare(load, sides, rounds, tell)}, as_json, _show_echo)


def _show_echo(say: Print, result: Result) -> None:
    say(beside("echo: medians of the rounds", result["medians"], decimals=1))
    for side, ratio in result["ratios"].items():
        if side == "ids":
            say(f"with ids of the client's own it has {1 / ratio:.2f} times the throughput")
        else:
            say(f"famulus has {ratio:.2f} times the throughput of {side}")


def journal(
    window: Window = 1000,
    size: Size = 100,
    seconds: Seconds = 2.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with and without; the medians are shown.")] = 9,
    soak: Annotated[
        float, typer.Option(min=0.0, help="Then this many seconds at full rate: rows, gaps, the scribe's memory.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratio and rounds.")] = False,
) -> None:
    """What the journal costs: the same echo with and without it, in turn, and the CPU time of a task in each process.

    Example: famulus bench journal --rounds 5 --soak 60
    """
    from famulus.lab.bench.echo import Load
    from famulus.lab.bench.journal import compare
    from famulus.lab.bench.journal import soak as run_soak

    tell = tell_rounds("{side:5} {rate:9,.0f} tasks/s", as_json)
    result = compare(Load(window, size, seconds), rounds, tell)
    if soak:
        result["soak"] = run_soak(Load(window, size, soak), tell)
    give("journal", result, as_json, _show_journal)


def _show_journal(say: Print, result: Result) -> None:
    say(beside("echo with and without a journal: medians of the rounds", result["medians"]))
    say(f"with the journal: {result['ratio']:.3f} of the throughput without")
    for name, value in result.get("soak", {}).items():
        say(f"soak: {name} {value:,.1f}")


def viewers(
    count: Annotated[int, typer.Option("--viewers", min=1, max=1000, help="Who look at the dashboard.")] = 100,
    window: Window = 1000,
    seconds: Seconds = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with and without; the medians are shown.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratios and rounds.")] = False,
) -> None:
    """What viewers of the dashboard cost: the same echo with and without them, in turn.

    Each viewer holds the stream of events that a page follows. `dispatcher_ratio` is the CPU time of the dispatcher per
    task with them over that without; `ratio` is that of the throughput, where all processes share the machine's cores.

    Example: famulus bench viewers --viewers 100
    """
    from famulus.lab.bench.echo import Load
    from famulus.lab.bench.viewers import compare

    tell = tell_rounds("{side:8} {rate:9,.0f} tasks/s  dispatcher {cpu_us_dispatcher:5.2f} us per task", as_json)
    compared = compare(Load(window=window, seconds=seconds), count, rounds, tell)
    give("viewers", {"viewers": count, **compared}, as_json, _show_viewers)


def _show_viewers(say: Print, result: Result) -> None:
    title = f"echo with {result['viewers']} viewers and with nobody: medians"
    say(beside(title, result["medians"]))
    say(f"with viewers a task costs the dispatcher {result['dispatcher_ratio']:.3f} of what it costs without")
    say(f"and the throughput is {result['ratio']:.3f} of that without")


def peers(
    seconds: Annotated[float, typer.Option(min=0.2, help="Length of a round, after a short warm-up.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the medians are shown.")] = 5,
    # NATS carries no larger ones, unless it is configured to.
    size: Annotated[int, typer.Option(min=8, max=1 << 20, help="Bytes of a body, save in those named 1mib.")] = 100,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this side (nats_request_64) or peer (nats). May be given repeatedly."),
    ] = None,
    network: Annotated[
        bool, typer.Option("--network", help="Our broker is one of three of a network, with stewards and peers.")
    ] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="Ours with keys and without, and nats-server with TLS; nobody else.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with bar charts to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with ratios, medians and rounds.")] = False,
) -> None:
    """The same echo through Famulus and through other brokers, side by side in one run.

    Each side has its own server, worker and client processes, on free ports of this machine, and they take turns round
    by round. A ratio is our median throughput over theirs: above 1 Famulus is faster.

    The other brokers are no part of Famulus, and those that are not there are named as absent. To have them all,
    install the Debian packages nats-server, rabbitmq-server, redis-server and gearman-job-server, and into the virtual
    environment:
    pip install nats-py uvloop pika celery redis pygearman

    Example: famulus bench peers --only famulus --only nats
    """
    from famulus.lab.bench.peers.contest import Plan, contest
    from famulus.lab.bench.peers.page import page
    from famulus.lab.bench.peers.side import SECURE_SIDES, SIDES, UnknownSide, chosen, in_network

    if network and secure:
        raise typer.BadParameter("not with --network: it is about one broker", param_hint="--secure")
    try:
        sides = chosen(only or (), SECURE_SIDES if secure else SIDES)
    except UnknownSide as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None
    check_page(html)
    plan = {
        "seconds": seconds,
        "rounds": rounds,
        "size": size,
        "only": only or [],
        "network": network,
        "secure": secure,
    }
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as scratch:
        if network:
            sides = in_network(sides, Path(scratch))
        result = {"plan": plan, **contest(Plan(seconds, rounds, size), sides, tell)}
    give("peers", result, as_json, _show_peers, html, page)


def _show_peers(say: Print, result: Result) -> None:
    columns = {"p50": "p50 us", "p99": "p99 us", "p99.9": "p99.9 us", "cpu_us_all": "CPU us", "cpu_us_server": "server"}
    if result["plan"]["secure"]:
        del columns["p99.9"]  # the names of these sides are longer
    rows = []
    for side, figures in result["medians"].items():
        rate, rates = figures["rate"], result["spread"][side]["rate"]
        off = max(rates["max"] - rate, rate - rates["min"]) / rate
        others = {heading: f"{figures[name]:,.0f}" for name, heading in columns.items()}
        rows.append({"side": side, "tasks/s": f"{rate:,.0f}", "+-": f"{off:.0%}", **others})
    # Narrow, so that it fits into 80 columns.
    title = "echo: medians; CPU per task, of all and of the server"
    say(table(title, rows, left=1, no_wrap=True, box=None, pad_edge=False))
    say()
    for name, ratio in result["ratios"].items():
        extremes = result["ratio_spread"][name]
        say(f"{name:24} {ratio:6.2f} times theirs ({extremes['min']:.2f} to {extremes['max']:.2f})")
    for name, reason in result["absent"].items():
        say(f"{name} is absent: {reason}", markup=False)
