"""`famulus bench scale`: what a task costs the broker as the crowd around it grows."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from famulus.lab.commands.bench_result import Print, Result, give, table, tell


def scale(
    workers: Annotated[int, typer.Option(min=1, help="The largest crowd; it has a service for ten workers.")] = 10_000,
    connections: Annotated[int, typer.Option(min=1, help="The most connections of clients.")] = 1000,
    size: Annotated[int, typer.Option(min=100, help="The longest body, in bytes.")] = 16 * 1024 * 1024,
    window: Annotated[int, typer.Option(min=1, help="Tasks open at once; fewer where bodies are long.")] = 100,
    seconds: Annotated[float, typer.Option(min=0.2, help="Length of a measurement, after a short warm-up.")] = 1.0,
    idle: Annotated[float, typer.Option(min=0.2, help="Seconds in which nobody asks anything.")] = 12.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds through all steps; the medians are shown.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="One short round, at most 1,000 workers and 1 MiB.")] = False,
    nats: Annotated[bool, typer.Option(help="A nats-server goes through the same steps, where there is one.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with everything.")] = False,
) -> None:
    """What a task costs the broker as the crowd grows: CPU time per task, throughput, and the cost of idle workers.

    Five things grow, each by itself: the workers and services that are asked in turn (from 10 workers with 1 service,
    tenfold each time); the workers that are merely connected while ten others work; the connections of clients that
    ask in turn; those that are merely there while one asks; and the bodies, from 100 bytes to 16 MiB. Every crowd has
    its own broker, and the steps are measured in turn, round by round, so that whatever else this machine does hits
    all of them alike.

    `growth_connected` is the CPU time per task with the most workers over that with the fewest, where ten are asked;
    the aim is at most 1.3. `growth` is the same where all are asked in turn, and is larger: ten busy workers get
    several tasks in one write, and of thousands each gets its own. `growth_connections` and `growth_connections_idle`
    are the same for connections of clients. A nats-server beside it, where there is one, shows what of this is the
    price of so many connections.

    Example: famulus bench scale --quick
    """
    from famulus.lab.bench.scale import OURS, Plan, measure
    from famulus.lab.bench.steps import Limits

    if quick:
        # Enough to see that everything works.
        workers, connections, size = min(workers, 1000), min(connections, 100), min(size, 1024 * 1024)
        seconds, idle, rounds = min(seconds, 0.5), min(idle, 2.0), 1
    plan = Plan(Limits(workers, connections, size, window), seconds=seconds, idle_s=idle, rounds=rounds)
    if not nats:
        plan = replace(plan, servers=(OURS,))
    give("scale", measure(plan, tell), as_json, _show)


def _show(say: Print, result: Result) -> None:
    steps = [*result["steps"], *(step for beside in result["beside"].values() for step in beside["steps"])]
    for title, axis in (
        ("workers, all services asked in turn", "workers"),
        ("connected workers, ten of them asked", "connected"),
        ("connections of clients, all asking in turn", "connections"),
        ("connections of clients, one of them asking", "connections_idle"),
        ("bytes of a body", "bytes"),
    ):
        say(table(title, map(_cells, (step for step in steps if step["axis"] == axis)), title_justify="left"))
    title = "servers with their crowds, idle; a service for ten workers"
    say(table(title, map(_crowd_cells, result["crowds"]), title_justify="left"))
    for server, growths in ({"famulus": result} | result["beside"]).items():
        say(
            f"growth of {server}: workers {growths['growth']:.2f}, merely connected {growths['growth_connected']:.2f}; "
            f"connections {growths['growth_connections']:.2f}, merely there {growths['growth_connections_idle']:.2f}"
        )
    say(f"the aim is at most {result['growth_max']} for workers that are merely connected")


def _cells(step: Result) -> dict[str, str]:
    return {
        "server": step["server"],
        "amount": f"{step['amount']:,}",
        "tasks/s": f"{step['rate']:,.0f}",
        "CPU us": f"{step['broker_cpu_us']:.1f}",
        "ratio": f"{step['ratio']:.2f}",
        "p50 ms": f"{step['p50_us'] / 1000:.1f}",
        "p99 ms": f"{step['p99_us'] / 1000:.1f}",
        "not OK": f"{sum(step['outcomes'].values()) - step['outcomes'].get('OK', 0):,}",
    }


def _crowd_cells(crowd: Result) -> dict[str, str]:
    return {
        "server": crowd["server"],
        "workers": f"{crowd['workers']:,}",
        "connected": f"{crowd['connected']:,}",
        "at the end": f"{crowd['connected_at_the_end']:,}",
        "came back": f"{crowd['relinks_at_the_end']:,}",
        "CPU %": f"{crowd['cpu_percent']:.1f}",
        "peak %": f"{crowd['cpu_percent_peak']:.0f}",
        "MiB": f"{crowd['rss_kib'] / 1024:,.0f}",
    }
