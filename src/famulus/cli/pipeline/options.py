"""What the commands of the pipeline have in common: their options, the places they mean, and how errors are worded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from famulus.errors import PlaceError, SettingsError, SparkError
from famulus.journal.places import default_folder, tables_beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from famulus.pipeline.io.place import Place

JournalOption = Annotated[
    str | None,
    typer.Option(
        "--journal", metavar="FOLDER", help="The journal: a folder or a URI. [default: ~/.local/state/famulus/journal]"
    ),
]
TablesOption = Annotated[
    str | None, typer.Option("--tables", metavar="FOLDER", help="The tables. [default: 'tables' beside the journal]")
]
MasterOption = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master. [default: local[*], all cores]")
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated. It wins over ours."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def journal_place(journal: str | None) -> Place:
    from famulus.pipeline.io.place import Place

    return Place(journal if journal is not None else default_folder())


def tables_place(journal: str | None, tables: str | None) -> Place:
    from famulus.pipeline.io.place import Place

    if tables is not None:
        return Place(tables)
    return Place(tables_beside(journal if journal is not None else str(default_folder())))


def made_tables(journal: str | None, tables: str | None) -> Place:
    """Where the tables are, if somebody has made them."""
    place = tables_place(journal, tables)
    if not place.exists():
        raise PlaceError(f"there are no tables at {place}: make them with famulus pipeline run")
    return place


@contextmanager
def spark_session(master: str | None, conf: Sequence[str] | None, *, brief: bool = False) -> Iterator[SparkSession]:
    """A session in which errors of Spark become one sentence."""
    from famulus.pipeline.run.session import session

    with session(master, more=settings(conf or ()), brief=brief) as spark, plain_errors():
        yield spark


def settings(conf: Sequence[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in conf]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise SettingsError(f"conf: {name!r} is not KEY=VALUE")
    return {name: value for name, _, value in pairs}


@contextmanager
def plain_errors() -> Iterator[None]:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise SparkError(sentence(error)) from error
    except ConnectionError as error:
        raise SparkError(f"Spark's JVM is gone: {error}") from error


def sentence(error: Exception) -> str:
    """The first line that says something, without the class and the plan."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "An error occurred while calling"))]
    first = told[0] if told else type(error).__name__
    return first.removeprefix(": ").partition(" SQLSTATE:")[0]
