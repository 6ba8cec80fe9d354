"""`famulus bench pipeline`: how fast the tables are made."""

from __future__ import annotations

from typing import Annotated

import typer

from famulus.lab.commands.bench_result import Print, Result, give, table, tell


def pipeline(
    tasks: Annotated[
        list[int] | None,
        typer.Option(min=1000, help="Size of the journal; may be repeated. [default: 10,000,000 and 50,000,000]"),
    ] = None,
    hours: Annotated[int, typer.Option(min=1, help="The time that the tasks are spread over.")] = 24,
    more_hours: Annotated[
        int, typer.Option(min=0, help="The time over which an increment is spread; 0: a hundredth of the hours.")
    ] = 0,
    brokers: Annotated[int, typer.Option(min=2, help="Brokers that wrote the journal.")] = 2,
    files: Annotated[int, typer.Option(min=1, help="Files into which each cuts an hour of a table.")] = 1,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master. [default: local[*]]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with everything.")] = False,
) -> None:
    """How fast the pipeline's tables are made, each by itself: time, memory, growth, and an increment of 1 %.

    The journal is a synthetic one, made first. Beside Spark, DuckDB makes the same service_minutes, where it is
    installed. Spark's start is measured apart, and so is a first small run, in which its code is compiled.

    Example: famulus bench pipeline --tasks 1000000
    """
    from famulus.cli.pipeline.options import plain_errors
    from famulus.lab.bench.pipeline import BenchPlan, measure
    from famulus.lab.synth import Plan

    sizes = sorted(tasks or (10_000_000, 50_000_000))
    plans = [BenchPlan(Plan(size, hours, brokers=brokers), files, more_hours) for size in sizes]
    with plain_errors():
        measured = measure(plans, master, tell)
    result = {"hours": hours, "brokers": brokers, "files": files, "more_hours": more_hours, **measured}
    give("pipeline", result, as_json, _show)


def _show(say: Print, result: Result) -> None:
    for size in result["sizes"]:
        title = f"{size['tasks']:,} tasks, {size['journal_rows']:,} rows in {size['journal_files']:,} files"
        say(table(title, _rows(size["full"]), left=1, title_justify="left"))
        compared = size["service_minutes"]
        if compared["spark_over_duckdb"] is not None:
            say(
                f"service_minutes: Spark {compared['spark_s']:.1f} s, DuckDB {compared['duckdb_s']:.1f} s: "
                f"Spark takes {compared['spark_over_duckdb']:.1f} times as long"
            )
        say(
            f"1 % more: {size['increment']['seconds']:.1f} s, {size['increment_ratio']:.2f} of the full run, "
            f"{size['increment']['look_s']:.1f} s of it a look at the journal; "
            f"the first time {size['first_increment']['seconds']:.1f} s\n"
        )
    for each in result["growth"]:
        say(f"{each['tasks']:,} tasks: {each['us_per_task']:.2f} us per task, {each['ratio']:.2f} of the first")
    say(f"start of Spark {result['start_s']:.1f} s, first small run {result['first_run_s']:.1f} s")


def _rows(run: Result) -> list[dict[str, str]]:
    rows = [
        {
            "table": each["table"],
            "rows": f"{each['rows']:,}",
            "seconds": f"{each['seconds']:.1f}",
            "peak MiB": f"{each['peak_mib']:,}",
        }
        for each in run["tables"]
    ]
    return [*rows, {"table": "all", "rows": "", "seconds": f"{run['seconds']:.1f}", "peak MiB": ""}]
