"""`famulus bench pipeline`: how fast the tables are made."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer


def pipeline(
    tasks: Annotated[
        list[int] | None,
        typer.Option(min=1000, help="Size of the journal; may be repeated. [default: 10,000,000 and 50,000,000]"),
    ] = None,
    hours: Annotated[int, typer.Option(min=1, help="The time that the tasks are spread over.")] = 24,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master. [default: local[*]]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with everything.")] = False,
) -> None:
    """How fast the pipeline's tables are made, each by itself: time, memory, growth, and an increment of 1 %.

    The journal is a synthetic one, made first. Beside Spark, DuckDB makes the same service_minutes, where it is
    installed. Spark's start is measured apart, and so is a first small run, in which its code is compiled.

    Example: famulus bench pipeline --tasks 1000000
    """
    from famulus.cli.pipeline.options import plain_errors
    from famulus.lab.bench import machine
    from famulus.lab.bench.pipeline import Load, measure

    load = Load(tuple(sorted(tasks or (10_000_000, 50_000_000))), hours, master)
    with plain_errors():
        result = measure(load, lambda sentence: typer.echo(sentence, err=True))
    if as_json:
        typer.echo(json.dumps({"command": "pipeline", **machine.facts(), "hours": hours, **result}, indent=2))
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    for size in result["sizes"]:
        console.print(_table(size))
        compared = size["service_minutes"]
        if compared["spark_over_duckdb"] is not None:
            console.print(
                f"service_minutes: Spark {compared['spark_s']:.1f} s, DuckDB {compared['duckdb_s']:.1f} s: "
                f"Spark takes {compared['spark_over_duckdb']:.1f} times as long"
            )
        console.print(
            f"1 % more: {size['increment']['seconds']:.1f} s, {size['increment_ratio']:.2f} of the full run; "
            f"the first time {size['first_increment']['seconds']:.1f} s\n"
        )
    for each in result["growth"]:
        console.print(
            f"{each['tasks']:,} tasks: {each['us_per_task']:.2f} us per task, {each['ratio']:.2f} of the first"
        )
    console.print(f"start of Spark {result['start_s']:.1f} s, first small run {result['first_run_s']:.1f} s")


def _table(size: dict[str, Any]) -> Any:
    from rich.table import Table

    full = size["full"]
    table = Table(title=f"{size['tasks']:,} tasks, {size['journal_rows']:,} rows", title_justify="left")
    table.add_column("table")
    for name in ("rows", "seconds", "peak MiB"):
        table.add_column(name, justify="right")
    for each in full["tables"]:
        table.add_row(each["table"], f"{each['rows']:,}", f"{each['seconds']:.1f}", f"{each['peak_mib']:,}")
    table.add_row("all", "", f"{full['seconds']:.1f}", "")
    return table
