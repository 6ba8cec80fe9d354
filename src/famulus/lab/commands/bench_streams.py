"""`famulus bench streams`: parts per second, and memory that does not grow."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from famulus.lab.commands.bench_result import Print, Result, beside, give, tell_rounds


def streams(
    parts: Annotated[int, typer.Option(min=1000, help="Parts of the stream, and tasks beside it.")] = 200_000,
    size: Annotated[int, typer.Option(min=0, help="Bytes of each.")] = 100,
    credit: Annotated[int, typer.Option(min=1, max=100_000, help="Parts that may be under way.")] = 256,
    client: Annotated[Literal["threads", "asyncio"], typer.Option(help="Client or AsyncClient.")] = "threads",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of both; the medians are shown.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratio and rounds.")] = False,
) -> None:
    """How fast the parts of a stream come, beside as many plain tasks by `map`, and what memory they take.

    One worker, one client. `ratio` is that of the parts to the tasks per second. `mib` is the resident memory of each
    at the end, and `grown_kib` by how much it grew after the first tenth.

    Example: famulus bench streams --credit 1000
    """
    from dataclasses import asdict

    from famulus.lab.bench.streams import Plan, measure

    plan = Plan(parts, size, credit, client, rounds)
    line = "{side:6} {per_s:9,.0f}/s; grown by {grown_kib_client:,.0f} (client), {grown_kib_broker:,.0f} (broker) and"
    line += " {grown_kib_worker:,.0f} KiB (worker)"
    give("streams", {"plan": asdict(plan), **measure(plan, tell_rounds(line, as_json))}, as_json, _show)


def _show(say: Print, result: Result) -> None:
    say(beside("the parts of a stream, and as many tasks: medians of the rounds", result["medians"], decimals=1))
    say(f"parts of a stream: {result['ratio']:.2f} times as many per second as tasks")
