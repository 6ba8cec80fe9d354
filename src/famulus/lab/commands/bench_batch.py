"""`famulus bench batch`: the same function with batches and without."""

from __future__ import annotations

from typing import Annotated

import typer

from famulus.lab.commands.bench_result import Print, Result, beside, give, tell_rounds


def batch(
    size: Annotated[int, typer.Option("--batch", min=1, max=10_000, help="Tasks of a batch.")] = 64,
    wait_ms: Annotated[float, typer.Option(min=0.0, help="How long its first task waits for others.")] = 5.0,
    threads: Annotated[int, typer.Option(min=1, max=64, help="Calls of the function at the same time.")] = 1,
    call_ms: Annotated[float, typer.Option(min=0.0, help="How long a call takes, however many tasks it has.")] = 5.0,
    task_ms: Annotated[float, typer.Option(min=0.01, help="How much longer for each of its tasks.")] = 0.1,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each measurement, after its warm-up.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with and without; the medians are shown.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratio and rounds.")] = False,
) -> None:
    """How much more a worker does if its function gets tasks in batches: 5 ms for a call, and 0.1 ms for each task.

    The worker has as many threads on both sides, and sleeps instead of working. `ratio` is that of the tasks per
    second; `best_ratio` would be it if nothing but the function took any time.

    Example: famulus bench batch --batch 64
    """
    from dataclasses import asdict

    from famulus.lab.bench.batch import Plan, measure

    plan = Plan(
        batch=size,
        wait_ms=wait_ms,
        threads=threads,
        call_ms=call_ms,
        task_ms=task_ms,
        seconds=seconds,
        warm_up_s=min(1.0, seconds / 2),
        rounds=rounds,
    )
    line = "{side:8} {per_s:9,.0f} tasks/s; p50 {p50_ms:.1f}, p99 {p99_ms:.1f} ms; {not_ok:.0f} not OK"
    give("batch", {"plan": asdict(plan), **measure(plan, tell_rounds(line, as_json))}, as_json, _show)


def _show(say: Print, result: Result) -> None:
    say(beside("the same function with batches and without: medians of the rounds", result["medians"], decimals=1))
    say(f"with batches: {result['ratio']:.1f} times the tasks per second (at best {result['best_ratio']:.1f})")
