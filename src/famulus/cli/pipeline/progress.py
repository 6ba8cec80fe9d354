"""How a run of the pipeline looks on a terminal, and in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from famulus.pipeline.run.progress import ProgressStep, RunSummary, Tell

_DOING = {
    "arrange": "putting tables of an older pipeline, which had a file for each hour, into files of days",
    "renew": "these tables are from an older pipeline, which filed some rows under wrong hours: all are made anew, "
    "save for hours that the journal no longer has",
    "look": "looking at the journal",
    "stage": "making",
    "publish": "publishing",
    "remember": "noting what was done",
}


@contextmanager
def shown(*, quiet: bool) -> Iterator[Tell]:
    """Steps on standard error: in place on a terminal, otherwise a line each."""
    from famulus.pipeline.run.progress import silent

    if quiet:
        yield silent
    elif sys.stderr.isatty():
        with _live() as tell:
            yield tell
    else:
        yield _line


def starting(*, quiet: bool) -> None:
    if not quiet:
        typer.echo("starting Spark", err=True)


def _line(step: ProgressStep) -> None:
    typer.echo(_words(step), err=True)
    sys.stderr.flush()


@contextmanager
def _live() -> Iterator[Tell]:
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("") as status:

        def tell(step: ProgressStep) -> None:
            if step.done:
                console.print(_words(step), highlight=False, markup=False)
            else:
                status.update(_words(step))

        yield tell


def _words(step: ProgressStep) -> str:
    about = f"{_DOING[step.what]}{' ' + step.table if step.table else ''}"
    if step.what in ("arrange", "renew"):
        return about
    if not step.done:
        hours = f", {step.hours:,} hours" if step.hours else ""
        return about + hours
    name = step.table or "journal"
    what = "new rows" if step.what == "look" else "rows"
    hours = f"{step.hours:6,} hours" if step.hours else " " * 12
    return f"{name:20} {hours} {step.rows:14,} {what:8} {step.seconds:8.1f} s"


def show_summary(summary: RunSummary) -> None:
    for bad in summary.bad:
        typer.echo(f"famulus: left out {bad.path}: {bad.reason}", err=True)
    for path in summary.late:
        typer.echo(f"famulus: left out {path}: the journal no longer has all files of that hour", err=True)
    typer.echo(words(summary))


def words(summary: RunSummary) -> str:
    left_out = f", {len(summary.bad)} left out" if summary.bad else ""
    if not summary.tables:
        return f"nothing new in {summary.files:,} files{left_out}; the tables are in {summary.tables_folder}"
    new = f"{summary.files_new:,} new of {summary.files:,} files{left_out}"
    return (
        f"{len(summary.tables)} tables in {summary.tables_folder}: {new}, {summary.rows_new:,} rows, "
        f"{summary.hours:,} hours made in {summary.seconds:.1f} s"
    )


def facts(summary: RunSummary, start_s: float) -> dict[str, Any]:
    return summary.facts() | {"start_seconds": round(start_s, 3)}
