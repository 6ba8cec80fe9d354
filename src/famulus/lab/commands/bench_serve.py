"""`famulus bench serve`: tasks whose function is a Spark job."""

from __future__ import annotations

from typing import Annotated

import typer

from famulus.lab.commands.bench_result import Print, Result, give, tell_rounds


def serve(
    rows_per_batch: Annotated[int, typer.Option(min=1, max=10_000, help="The most tasks of a job.")] = 5_000,
    max_wait_ms: Annotated[float, typer.Option(min=0.0, help="How long its first task waits for others.")] = 200.0,
    slots: Annotated[int | None, typer.Option(min=1, help="Of the worker. [default: three jobs of tasks]")] = None,
    window: Annotated[int, typer.Option(min=1, help="Tasks open at once.")] = 15_000,
    per_s: Annotated[
        float, typer.Option(min=0.0, metavar="TASKS", help="Instead, so many tasks come each second.")
    ] = 0.0,
    python: Annotated[bool, typer.Option("--python", help="The rows go through Python on the executors.")] = False,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master. [default: local[*]]")] = None,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each round.")] = 10.0,
    warm_up: Annotated[float, typer.Option(min=0.5, help="Before them: Java is slow at first.")] = 20.0,
    rounds: Annotated[int, typer.Option(min=1, help="The medians are shown.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians and rounds.")] = False,
) -> None:
    """How many tasks a second a worker does whose function is a Spark job, and how long each of them takes.

    The jobs have next to nothing to do, so this is what a task costs, and a job. Bodies have 100 bytes.

    Example: famulus bench serve --rows-per-batch 5000
    """
    from dataclasses import asdict

    from famulus.lab.bench.spark_serve import Plan, measure
    from famulus.lab.bench.spark_worker import SparkWork

    work = SparkWork(rows_per_batch, max_wait_ms, slots, master, python)
    plan = Plan(work, window, per_s, seconds, warm_up, rounds)
    line = "{per_s:9,.0f} tasks/s; p50 {p50_ms:.0f}, p99 {p99_ms:.0f} ms; {not_ok:.0f} not OK"
    result = measure(plan, tell_rounds(line, as_json))
    give("serve", {"plan": asdict(plan), **result}, as_json, _show)


def _show(say: Print, result: Result) -> None:
    median = result["medians"]
    say(f"{median['per_s']:,.0f} tasks/s; p50 {median['p50_ms']:.0f} ms, p99 {median['p99_ms']:.0f} ms")
