"""`famulus bench latency`, `overload`, `recovery` and `scale`: at fixed rates, beyond saturation, after faults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from famulus.lab.commands.bench_result import (
    Print,
    Result,
    beside,
    check_page,
    give,
    table,
    tell,
    tell_rounds,
    tell_unless,
)


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
    from famulus.lab.bench.latency import Plan, measure
    from famulus.lab.bench.latency_page import page

    check_page(html)
    if quick:
        seconds, rounds = min(seconds, 1.0), 1
    plan = Plan(tuple(rate or ()), seconds, rounds, size, window, min(2.0, seconds), timeout_ms=round(timeout * 1000))
    give("latency", measure(plan, tell), as_json, _show_latency, html, page)


def _show_latency(say: Print, result: Result) -> None:
    names = list(result["rates"][0]["latency_ns"])
    rows = [
        {
            "tasks/s": f"{each['rate']:,.0f}",
            **{name: "" if (ns := each["latency_ns"][name]) is None else f"{ns / 1e6:.2f}" for name in names},
            "not OK": f"{sum(each['outcomes'].values()) - each['outcomes'].get('OK', 0):,}",
        }
        for each in result["rates"]
    ]
    if result["saturation_per_s"]:
        say(f"saturated at {result['saturation_per_s']:,.0f} tasks/s")
    title = "latency in ms, from the instant at which a task was due"
    say(table(title, rows, title_justify="left"))


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

    This many times as much as its slots can do is offered to a worker, whether it is served or not: once for each
    time-out. In the same seconds a second worker is kept busy and no more, which shows how much can be done.

    Example: famulus bench overload --factor 2
    """
    from famulus.lab.bench.overload import Plan, Service, measure

    services = [Service("fast", work_ms, slots, tuple(timeout or (0.2, 1.0, 5.0, 60.0)))]
    if slow:
        services.append(Service("slow", 1000.0, 4, (1.5, 5.0, 60.0)))
    result = measure(Plan(seconds, factor, tuple(services)), tell_unless(as_json))
    give("overload", result, as_json, _show_overload)


def _show_overload(say: Print, result: Result) -> None:
    from famulus.cli.status.words import milliseconds

    rows = [
        {
            "work": milliseconds(load["work_ms"]),
            "time-out": milliseconds(load["timeout_s"] * 1000),
            "offered": f"{load['offered_per_s']:,.0f}",
            "OK": f"{load['goodput_per_s']:,.1f}",
            "ratio": f"{load['goodput_ratio']:.2f}",
            "UNKNOWN": f"{load['unknown_share']:.1%}",
            "rejected": f"{load['rejected_overload_per_s'] + load['rejected_expired_per_s']:,.1f}",
            "OK took": milliseconds(load["ok_p99_ms"]),
            "no took": milliseconds(load["rejected_p99_ms"]),
        }
        for load in result.pop("loads")
    ]
    title = "overload: tasks per second, and how long 99 % took"
    say(table(title, rows, box=None, pad_edge=False))
    for name, value in result.items():
        say(f"{name}: {value:,.2f}" if isinstance(value, float) else f"{name}: {value}")


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
    from famulus.lab.bench.recovery import measure

    give("recovery", measure(rounds, seconds, busy, tell_unless(as_json)), as_json, _show_recovery)


def _show_recovery(say: Print, result: Result) -> None:
    rows = [
        {"fault": fault, "median": f"{found['median']:.2f} s", "worst": f"{found['worst']:.2f} s"}
        for fault, found in result["recovery_s"].items()
    ]
    say(table("from the fault to the next success", rows, left=1))
    for name, value in result["under_load"].items():
        say(f"{name}: {value:,}")


def restarts(
    bodies: Annotated[int, typer.Option(min=10, help="Tasks of each round.")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with all rounds.")] = False,
) -> None:
    """What a client is told whose only broker, or whose workers, are restarted twice while it asks.

    They are stopped with Ctrl-C or killed, and started again. Tasks that should run at least once all end OK; of those
    that run at most once, some of which nobody can say whether they ran are UNKNOWN if a part is killed.

    Example: famulus bench restarts --bodies 5000
    """
    from famulus.lab.bench.restarts import measure

    give("restarts", {"rounds": measure(bodies, tell_unless(as_json))}, as_json, _show_restarts)


def _show_restarts(say: Print, result: Result) -> None:
    rows = [
        {
            "restarted": found["what"],
            "tasks run": found["delivery"],
            "took": f"{found['seconds']:.1f} s",
            **{kind: f"{found['outcomes'].get(kind, 0):,}" for kind in _kinds(result)},
        }
        for found in result["rounds"]
    ]
    say(table("what the client was told", rows, left=2))


def _kinds(result: Result) -> list[str]:
    """OK first."""
    seen = {kind for found in result["rounds"] for kind in found["outcomes"]}
    return ["OK", *sorted(seen - {"OK"})]


def arrivals(
    connections: Annotated[int, typer.Option(min=1, help="Workers that come, each with its own connection.")] = 10_000,
    rate: Annotated[float, typer.Option(min=1.0, help="Tasks per second of the other client.")] = 500.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with keys and without; the medians are shown.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians and rounds.")] = False,
) -> None:
    """What it costs when thousands come at once, with keys and without: how fast, memory, and what others notice.

    `handshakes_per_s` is how many with keys come in a second; a broker bounds that for each address. `p99_ratio` is the
    latency of another client while they come over that before. `kib_with_keys` and `kib_plain` are the broker's memory
    for each connection.

    Example: famulus bench arrivals --connections 2000
    """
    from dataclasses import asdict

    from famulus.lab.bench.arrivals import Plan, measure

    line = (
        "{side:6} {connected:6,.0f} came, {per_s:6,.0f} per second; p99 {p99_ms_before:.2f}, {p99_ms_meanwhile:.2f} ms"
    )
    plan = Plan(connections, rate, rounds)
    give("arrivals", {"plan": asdict(plan), **measure(plan, tell_rounds(line, as_json))}, as_json, _show_arrivals)


def _show_arrivals(say: Print, result: Result) -> None:
    say(beside("arrivals: medians of the rounds", result["medians"], decimals=2))
    say(f"with keys {result['handshakes_per_s']:,.0f} come in a second")
    say(f"and the p99 of another client is {result['p99_ratio']:.2f} times that before")
    say(f"a connection takes {result['kib_with_keys']:.1f} KiB with keys, and {result['kib_plain']:.1f} KiB without")


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
    from famulus.lab.bench.scale import OURS, SERVERS, Plan, measure
    from famulus.lab.bench.steps import Limits

    if quick:
        # Enough to see that everything works.
        workers, connections, size = min(workers, 1000), min(connections, 100), min(size, 1024 * 1024)
        seconds, idle, rounds = min(seconds, 0.5), min(idle, 2.0), 1
    limits, servers = Limits(workers, connections, size, window), tuple(SERVERS) if nats else (OURS,)
    plan = Plan(limits, seconds=seconds, idle_s=idle, rounds=rounds, servers=servers)
    give("scale", measure(plan, tell), as_json, _show_scale)


def _show_scale(say: Print, result: Result) -> None:
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
