"""`famulus bench spark`: what it costs to ask for the rows of a DataFrame."""

from __future__ import annotations

from typing import Annotated

import typer

from famulus.lab.commands.bench_result import Print, Result, give, table, tell_rounds


def spark(
    rows: Annotated[int, typer.Option(min=1000, help="Rows, with one row per task.")] = 100_000,
    many_rows: Annotated[int, typer.Option(min=1000, help="Rows at most, with more rows per task.")] = 1_000_000,
    window: Annotated[int, typer.Option(min=1, max=50_000, help="Tasks of a partition that are open at once.")] = 1000,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions, and cores of Spark.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of all sides; the medians are shown.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with medians, ratios and rounds.")] = False,
) -> None:
    """How many rows of 100 bytes per second `ask` asks for, with 1, 100 and 1,000 rows per task, beside `map`.

    Each time the same plan is run with nothing in its place: what that takes is Spark's own, and is taken off.

    Example: famulus bench spark
    """
    from dataclasses import asdict

    from famulus.cli.pipeline.options import plain_errors
    from famulus.lab.bench.spark import Plan, measure

    plan = Plan(rows=rows, many_rows=many_rows, window=window, partitions=partitions, rounds=rounds)
    line = "{side:14} {per_s:11,.0f} rows/s, {seconds:.2f} s"
    with plain_errors():
        result = measure(plan, tell_rounds(line, as_json))
    give("spark", {"plan": asdict(plan), **result}, as_json, _show)


def _show(say: Print, result: Result) -> None:
    rows = []
    for side, figures in result["medians"].items():
        net = result["net"].get(side, {})
        rows.append(
            {
                "side": side,
                "rows/s": f"{figures['per_s']:,.0f}",
                "seconds": f"{figures['seconds']:.2f}",
                "Spark taken off": f"{net['per_s']:,.0f}" if net else "",
                "of map": f"{net['of_map']:.2f}" if net else "",
            }
        )
    say(table("medians of the rounds", rows, left=1, no_wrap=True, title_justify="left"))
