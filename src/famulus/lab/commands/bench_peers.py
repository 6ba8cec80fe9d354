"""`famulus bench peers`: Famulus beside other brokers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from famulus.lab.commands.bench_result import Print, Result, check_writable, give, table, tell


def peers(
    seconds: Annotated[float, typer.Option(min=0.2, help="Length of a round, after a short warm-up.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the medians are shown.")] = 5,
    # NATS carries no more, unless it is configured to.
    size: Annotated[int, typer.Option(min=8, max=1 << 20, help="Bytes of a body, save in those named 1mib.")] = 100,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this side (nats_request_64) or peer (nats). May be given repeatedly."),
    ] = None,
    network: Annotated[
        bool, typer.Option("--network", help="Our broker is one of three of a network, with stewards and peers.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with bar charts to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with ratios, medians and rounds.")] = False,
) -> None:
    """The same echo through Famulus and through other brokers, side by side in one run.

    Each side has its own server, worker and client processes, on free ports of this machine, and they take turns round
    by round. A ratio is our median throughput over theirs: above 1 Famulus is faster.

    The other brokers are no part of Famulus, and who is not there is named as absent. To have them all, install the
    Debian packages nats-server, rabbitmq-server, redis-server and gearman-job-server, and into the virtual environment:
    pip install nats-py uvloop pika celery redis pygearman

    Example: famulus bench peers --only famulus --only nats
    """
    from famulus.lab.bench.peers.contest import Plan, contest
    from famulus.lab.bench.peers.page import page
    from famulus.lab.bench.peers.side import UnknownSide, chosen, in_network

    try:
        sides = chosen(only or ())
    except UnknownSide as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None
    check_writable(html)
    plan = {"seconds": seconds, "rounds": rounds, "size": size, "only": only or [], "network": network}
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as scratch:
        if network:
            sides = in_network(sides, Path(scratch))
        result = {"plan": plan, **contest(Plan(seconds, rounds, size), sides, tell)}
    give("peers", result, as_json, _show, html, page)


def _show(say: Print, result: Result) -> None:
    columns = {"p50": "p50 us", "p99": "p99 us", "p99.9": "p99.9 us", "cpu_us_all": "CPU us", "cpu_us_server": "server"}
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
        say(f"{name:20} {ratio:6.2f} times theirs ({extremes['min']:.2f} to {extremes['max']:.2f})")
    for name, reason in result["absent"].items():
        say(f"{name} is absent: {reason}", markup=False)
