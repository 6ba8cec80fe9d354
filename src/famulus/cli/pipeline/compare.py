"""`famulus pipeline compare`: before and after, service by service."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from famulus.cli.admin.words import columns, printable
from famulus.cli.journal.options import instant
from famulus.cli.pipeline.options import JournalOption, JsonOption, TablesOption, made_tables
from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.pipeline.compare.comparison import Comparison
    from famulus.pipeline.compare.sides import TimeRange
    from famulus.pipeline.report.reading import Tables

_LENGTH: Final = re.compile(r"\d+(\.\d+)?[smhd]")
#: Columns of figures.
_FIGURES: Final = range(2, 9)


def compare(
    before: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="The first range: times in UTC, such as 2026-03-02T08, or 2h ago."),
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="FROM..TO", help="The second range.")] = None,
    at: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Instead of both: as long before this instant as after it.")
    ] = None,
    length: Annotated[str, typer.Option(metavar="TIME", help="With --at: the length of each range.")] = "1h",
    before_workers: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Compare workers instead: those of this name, such as 'w-*'.")
    ] = None,
    after_workers: Annotated[str | None, typer.Option(metavar="PATTERN", help="With these.")] = None,
    during: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="Of workers: only these hours. [default: all]")
    ] = None,
    service: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this service; may be repeated. [default: all]")
    ] = None,
    tables: TablesOption = None,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two ranges of time, or two sets of workers, service by service.

    For each service: tasks, the share that failed, total times, mean wait and mean run, and whether they differ by
    more than chance explains. It reads the tables of the last `famulus pipeline run`, without Spark.

    Example: famulus pipeline compare --at 2026-03-02T12 --length 2h
    """
    if before_workers is None and after_workers is None:
        if during is not None:
            raise SettingsError("--during is for workers; give --before and --after, or --at")
        sides = _ranges(before, after, at, length)
        found = _of_times(_tables(journal, tables), sides, service)
        names = f"{sides[0]}", f"{sides[1]}"
    else:
        if before_workers is None or after_workers is None:
            raise SettingsError("give both --before-workers and --after-workers")
        if any(each is not None for each in (before, after, at)):
            raise SettingsError("of workers, --during gives the range; leave out --before, --after and --at")
        within = None if during is None else _range("--during", during)
        found = _of_workers(_tables(journal, tables), (before_workers, after_workers), within, service)
        names = f"workers {before_workers}", f"workers {after_workers}"
    if as_json:
        typer.echo(json.dumps(_facts(*names, found), indent=2))
    else:
        _show(*names, found)


# -- what is read -------------------------------------------------------------------------------------------------


def _tables(journal: str | None, tables: str | None) -> Tables:
    from famulus.pipeline.report.reading import Tables

    return Tables(made_tables(journal, tables).name)


def _of_times(tables: Tables, sides: tuple[TimeRange, TimeRange], services: list[str] | None) -> list[Comparison]:
    from famulus.pipeline.compare.reading import compare_times

    found = compare_times(tables, *sides, services)
    if sides[0].hours_of_day != sides[1].hours_of_day:
        typer.echo("famulus: these are different hours of the day, which may be why something differs", err=True)
    return found


def _of_workers(
    tables: Tables, patterns: tuple[str, str], during: TimeRange | None, services: list[str] | None
) -> list[Comparison]:
    from famulus.pipeline.compare.reading import compare_workers

    return compare_workers(tables, *patterns, during, services)


# -- what was asked for -------------------------------------------------------------------------------------------


def _ranges(before: str | None, after: str | None, at: str | None, length: str) -> tuple[TimeRange, TimeRange]:
    from famulus.pipeline.compare.sides import around

    if at is not None:
        if before is not None or after is not None:
            raise SettingsError("give --at, or --before and --after, not both")
        if not _LENGTH.fullmatch(length):
            raise SettingsError(f"--length: {length!r} is no length of time such as 30m, 2h or 1d")
        now = datetime.now(UTC)
        try:
            return around(_instant("--at", at, now), now - _instant("--length", length, now))
        except OverflowError:
            raise SettingsError(f"--at: {length} around {at} is out of all calendars") from None
    if before is None or after is None:
        raise SettingsError("give --before and --after, or --at, or --before-workers and --after-workers")
    first, second = _range("--before", before), _range("--after", after)
    if first.overlaps(second):
        raise SettingsError("--before and --after overlap: a task would be on both sides")
    return first, second


def _range(option: str, text: str) -> TimeRange:
    from famulus.pipeline.compare.sides import TimeRange

    begin, dots, end = text.partition("..")
    if not dots:
        raise SettingsError(f"{option}: {text!r} is not FROM..TO, such as 2026-03-02T08..2026-03-02T10 or 2h..1h")
    now = datetime.now(UTC)
    return TimeRange(_instant(option, begin, now), _instant(option, end, now))


def _instant(option: str, text: str, now: datetime) -> datetime:
    try:
        return instant(text, now)
    except ValueError as error:
        raise SettingsError(f"{option}: {error}") from None


# -- what is said -------------------------------------------------------------------------------------------------


def _show(before: str, after: str, found: Sequence[Comparison]) -> None:
    from famulus.pipeline.compare import words

    typer.echo(printable(f"before: {before}"))
    typer.echo(printable(f"after:  {after}"))
    rows = [words.HEADS] + [row for each in found for row in words.rows(each)]
    # One table, so that the columns are below each other; what is said of a service follows its rows.
    heads, *lines = columns(rows, indent="", numbers=_FIGURES)
    typer.echo(f"\n{heads}")
    for each in found:
        for _ in words.rows(each):
            typer.echo(lines.pop(0))
        for sentence in words.sentences(each):
            typer.echo(f"  {sentence}")
    typer.echo(f"\n{words.summary(found)}")


def _facts(before: str, after: str, found: Sequence[Comparison]) -> dict[str, Any]:
    from famulus.pipeline.compare import words

    services = [{**asdict(each), "differs": each.differs, "said": list(words.sentences(each))} for each in found]
    return {"before": before, "after": after, "services": services}
