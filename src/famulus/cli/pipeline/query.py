"""`famulus pipeline query`: SQL over the tables."""

from __future__ import annotations

import csv
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from famulus.cli.admin.words import printable
from famulus.cli.pipeline.options import (
    ConfOption,
    JournalOption,
    MasterOption,
    TablesOption,
    made_tables,
    sentence,
    spark_session,
)
from famulus.errors import FamulusError, QueryError, SettingsError, SparkError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from famulus.pipeline.io.place import Place

#: How a statement that changes nothing begins.
_READS = re.compile(r"\s*\(*\s*(select|with|values|from|show|describe|desc|explain)\b", re.IGNORECASE)
#: If the tables change while they are read, the question is asked again.
TRIES = 3


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="For example: 'SELECT * FROM findings ORDER BY rank'.")],
    tables: TablesOption = None,
    journal: JournalOption = None,
    rows: Annotated[int, typer.Option(min=0, help="At most this many rows; 0 for all.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON array with an object for each row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, with a first line of names.")] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Ask the tables a question in SQL. Each table is known by its name; times are in UTC.

    The tables are plain Parquet, so DuckDB, pandas and others can read them as well.

    Example: famulus pipeline query "SELECT service, sum(tasks) FROM service_minutes GROUP BY service"
    """
    if as_json and as_csv:
        raise SettingsError("give --json or --csv, not both")
    if not _READS.match(sql):
        raise QueryError("a query begins with SELECT, WITH, VALUES, FROM, SHOW, DESCRIBE or EXPLAIN")
    place = made_tables(journal, tables)
    with spark_session(master, conf) as spark:
        answer, more = ask(spark, place, sql, rows)
        if as_json:
            _print_json(answer)
        elif as_csv:
            _print_csv(answer)
        else:
            _print_table(answer)
        if more:
            typer.echo(f"famulus: there are more than {rows:,} rows; --rows shows more", err=True)


def ask(spark: SparkSession, place: Place, sql: str, rows_max: int) -> tuple[pa.Table, bool]:
    """The answer, and whether there would be more rows."""
    from pyspark.errors import PySparkException

    from famulus.pipeline.run import state

    for attempt in range(1, TRIES + 1):
        number = state.load(place).number
        try:
            _make_views(spark, place)
            frame = spark.sql(sql)
            # Answers to SHOW and the like ignore the limit.
            answer = (frame.limit(rows_max + 1) if rows_max else frame).toArrow()
        except PySparkException as error:
            if attempt == TRIES or state.load(place).number == number:
                raise _complaint(error) from None
            continue
        if attempt == TRIES or state.load(place).number == number:
            break
    return (answer.slice(0, rows_max), True) if 0 < rows_max < answer.num_rows else (answer, False)


def _make_views(spark: SparkSession, place: Place) -> None:
    from famulus.pipeline.io.store import Store
    from famulus.pipeline.tables import ALL

    store = Store(place)
    for table in ALL:
        store.read(spark, table).createOrReplaceTempView(table.name)


def _complaint(error: Exception) -> FamulusError:
    from pyspark.errors import AnalysisException, ParseException

    wrong = isinstance(error, AnalysisException | ParseException)
    words = re.sub(r"^\[[\w.]+\] ", "", sentence(error))
    return QueryError(words) if wrong else SparkError(words)


def _print_json(answer: pa.Table) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(answer.to_pylist(), enc_hook=str), indent=2).decode())


def _print_csv(answer: pa.Table) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(answer.column_names)
    for row in answer.to_pylist():
        writer.writerow([_plain(each) for each in row.values()])


def _print_table(answer: pa.Table) -> None:
    from pyarrow.types import is_decimal, is_floating, is_integer
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for field in answer.schema:
        is_number = is_integer(field.type) or is_floating(field.type) or is_decimal(field.type)
        table.add_column(field.name, justify="right" if is_number else "left", overflow="fold")
    for row in answer.to_pylist():
        table.add_row(*(_plain(each) for each in row.values()))
    # A pipe has no width to fit into.
    Console(width=None if sys.stdout.isatty() else 10_000, markup=False, highlight=False).print(table)


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").replace("+00:00", "Z")
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | dict):
        return printable(msgspec.json.encode(value, enc_hook=str).decode())
    return printable(str(value))
