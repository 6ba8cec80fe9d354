"""`famulus journal`: look at a journal and keep it in order, without Spark."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from famulus.cli.journal.options import open_reading
from famulus.exit_codes import ExitCode
from famulus.journal import schema

app = typer.Typer()

FOLLOW_S = 1.0
#: What `verify` finds, in words.
KINDS = {"newer": "of a later version", "foreign": "not a file of the journal", "unfinished": "unfinished"}


TableName = Literal["tasks", "open_tasks", "workers", "brokers", "peers", "config", "access"]
Folder = Annotated[
    Path | None, typer.Option(help="The journal, or the folder of a broker. [default: ~/.local/state/famulus/journal]")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


@app.command()
def tail(
    table: Annotated[TableName, typer.Argument(help="Which table.")] = "tasks",
    count: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new rows until Ctrl-C.")] = False,
    folder: Folder = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row.")] = False,
) -> None:
    """Show the last rows of a table. Rows appear when their file is finished: by default after a minute.

    Example: famulus journal tail workers --rows 20
    """
    from famulus.journal.listing import last_rows
    from famulus.journal.reading import plain

    reading = open_reading(folder)
    known = set(reading.folder.files())
    for row in last_rows(reading, table, count):
        _show_row(plain(row), table, as_json)
    while follow:
        time.sleep(FOLLOW_S)
        for row in reading.follow(table, known):
            _show_row(row, table, as_json)


@app.command()
def stat(folder: Folder = None, as_json: AsJson = False) -> None:
    """Show for each table: files, rows, bytes, from when to when, and how many rows are known to be missing.

    Example: famulus journal stat --json
    """
    reading = open_reading(folder)
    figures = reading.figures()
    if as_json:
        tables = {name: dataclasses.asdict(each) for name, each in figures.items()}
        typer.echo(json.dumps({"folder": str(reading.folder.path), "tables": tables}, indent=2))
        return
    from famulus.cli.status import words

    typer.echo(reading.folder.path)
    columns: tuple[words.TableColumn, ...] = (
        ("table", lambda row: row[0]),
        (">files", lambda row: f"{row[1].files:,}"),
        (">rows", lambda row: f"{row[1].rows:,}"),
        (">bytes", lambda row: f"{row[1].bytes:,}"),
        ("from", lambda row: _short(row[1].first)),
        ("to", lambda row: _short(row[1].last)),
        (">missing rows", lambda row: f"{row[1].gaps:,}"),
    )
    words.show(words.table(columns, figures.items()))


@app.command()
def verify(folder: Folder = None, as_json: AsJson = False) -> None:
    """Read every file, and say which are broken or unfinished, and which files and rows are missing (exit code 1).

    Files of a later version, and files that are not the journal's, are listed and do no harm.

    Example: famulus journal verify
    """
    reading = open_reading(folder)
    found = reading.verify()
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
    else:
        _show_findings(found.as_dict())
    if not found.whole:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def compact(
    folder: Folder = None,
    days: Annotated[
        int, typer.Option(min=0, help="Also remove what is older than this many days; 0 removes nothing.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Merge the small files of each past hour, as a broker's scribe does by itself in quiet moments.

    Example: famulus journal compact
    """
    reading = open_reading(folder)
    now_us = time.time_ns() // 1000
    expired = reading.folder.expire(now_us, days, 0) if days else []
    before = len(reading.folder.files())
    made = [file.path for file in reading.folder.compaction(now_us) if file is not None]
    after = len(reading.folder.files())
    if as_json:
        typer.echo(json.dumps({"removed": len(expired), "before": before, "after": after, "made": made}, indent=2))
    else:
        gone = f"{len(expired)} files were too old; " if days else ""
        typer.echo(f"{gone}{before} files are now {after}")


def _show_row(row: dict[str, Any], table: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(row))
        return
    at = row.pop(schema.TIME_COLUMN[table])
    told = (f"{name}={_word(value)}" for name, value in row.items() if value is not None and name != "boot")
    typer.echo(f"{_short(at)}  {' '.join(told)}")


def _word(value: object) -> str:
    text = ",".join(str(value).splitlines())
    return json.dumps(text) if " " in text or not text else text


def _short(instant: str | None) -> str:
    return instant.removesuffix("+00:00").replace("T", " ")[:23] if instant else ""


def _show_findings(found: dict[str, Any]) -> None:
    typer.echo(f"{found['files']:,} files with {found['rows']:,} rows can be read")
    for path, reason in found["broken"].items():
        typer.echo(f"broken: {path}: {reason}")
    for kind, words in KINDS.items():
        for path in found[kind]:
            typer.echo(f"{words}: {path}")
    for origin, numbers in found["missing"].items():
        told = ", ".join(str(number) for number in numbers[:10]) + (" ..." if len(numbers) > 10 else "")
        typer.echo(f"missing: file {told} of {origin}")
    for table, rows in found["gaps"].items():
        typer.echo(f"gap: {rows:,} rows of {table} were never written")
    for origin, rows in found["missing_rows"].items():
        typer.echo(f"missing: {rows:,} rows of tasks of {origin} are in no file, and no gap accounts for them")
    for crash in found["crashes"]:
        typer.echo(f"crash: {crash}")
    typer.echo(_verdict(found))


def _verdict(found: dict[str, Any]) -> str:
    """A journal cannot know which rows a dispatcher had not reported yet when it died."""
    words = "it is whole" if found["whole"] else "it is not whole"
    if not found["crashes"]:
        return words
    times = "once" if len(found["crashes"]) == 1 else f"{len(found['crashes'])} times"
    return (
        f"{words}, as far as a journal can know: a dispatcher died {times}, with rows that it had not handed over yet"
    )
