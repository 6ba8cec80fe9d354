"""`famulus bench policy`: how workers are chosen, where one of them is slow."""

from __future__ import annotations

from typing import Annotated

import typer

from famulus.lab.commands.bench_result import Print, Result, beside, give, tell_rounds, tell_unless


def policy(
    slots: Annotated[int, typer.Option(min=1, help="Slots of each worker.")] = 8,
    work_ms: Annotated[float, typer.Option(min=0.1, help="How long a worker takes for a task.")] = 10.0,
    slower: Annotated[float, typer.Option(min=1.0, help="How many times as long one of eight takes.")] = 10.0,
    load: Annotated[float, typer.Option(min=0.01, max=1.0, help="Offered, as a share of what they can do.")] = 0.6,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="A worker does as many tasks at once as it has slots.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=1.0, help="Length of each measurement, after its warm-up.")] = 10.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds through all policies; the medians are shown.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians and rounds.")] = False,
) -> None:
    """What the policies of a service make of a slow worker, and how many keys keep theirs when a worker leaves.

    Eight workers, one of them ten times slower; an open loop asks for 60 % of what they can do. A worker does one task
    after the other, as one that computes does, and its other slots wait; with --at-once it does all of them.

    `p99_ratios` are the latencies of each policy over that of `lru`. `keys_kept` is the share of the keys whose worker
    stayed that are still there when one of the eight has left.

    Example: famulus bench policy --rounds 1 --seconds 5
    """
    from dataclasses import asdict

    from famulus.lab.bench.policy import Plan, measure

    plan = Plan(
        slots=slots,
        work_ms=work_ms,
        slower=slower,
        load=load,
        one_by_one=not at_once,
        seconds=seconds,
        warm_up_s=seconds / 2,
        rounds=rounds,
    )
    line = "{side:10} {per_s:7,.0f} tasks/s; p50 {p50_ms:.1f}, p99 {p99_ms:.1f} ms; {not_ok:.0f} not OK"
    result = measure(plan, tell_unless(as_json), tell_rounds(line, as_json))
    give("policy", {"plan": asdict(plan), **result}, as_json, _show)


def _show(say: Print, result: Result) -> None:
    say(beside("one of eight workers is slow: medians of the rounds", result["medians"], decimals=1))
    for name, ratio in result["p99_ratios"].items():
        say(f"p99 of {name} is {ratio:.2f} times that of lru")
    say(f"{result['keys_kept']:.1%} of the keys whose worker stayed keep it when one of eight leaves")
    say(f"{result['keys_moved']:.1%} of all keys have another one then")
