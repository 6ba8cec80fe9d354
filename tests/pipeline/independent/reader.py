"""Recomputes tables in DuckDB from the journal's files, and compares them with those that were published.

What is published is read as anybody would: by its folders. So a row in the folder of another hour is another row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import duckdb
from tests.pipeline.independent.auditing import AUDIT, AUDIT_WORDS, NUMBERED
from tests.pipeline.independent.hourly import HOURLY, OPEN, WORDS
from tests.pipeline.independent.whole import WHOLE

BY_HOUR: Final = HOURLY | {"audit": AUDIT}
SQL: Final = BY_HOUR | WHOLE
JOURNAL: Final = ("tasks", "open_tasks", "workers", "brokers", "peers", "config", "access")
#: Columns in words, which no page spells out.
WORDED: Final = {"audit": {"explanation"}, "worker_health": {"why"}, "findings": {"title", "evidence", "advice"}}
Row = tuple[Any, ...]


class Recomputed:
    """All tables of one journal, beside those in a folder."""

    def __init__(self, journal: Path, tables: Path) -> None:
        self.tables = tables
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'; SET threads = 2")
        for name in JOURNAL:
            files = f"{journal}/{name}/*/*/*.parquet"
            self.db.execute(f"CREATE TABLE {name} AS FROM read_parquet('{files}', hive_partitioning = false)")
        for words in (WORDS, OPEN, AUDIT_WORDS, NUMBERED):
            self.db.execute(words)
        for name, sql in SQL.items():
            try:
                self.db.execute(f"CREATE TABLE {name} AS {sql}")
            except duckdb.Error as error:
                raise AssertionError(f"the SQL of {name}: {error}") from error

    def columns(self, table: str) -> list[str]:
        told = self.db.execute(f"DESCRIBE {self._published(table)}").fetchall()
        return [name for name, *_ in told if name not in WORDED.get(table, ())]

    def differences(self, table: str) -> list[str]:
        """What one side has and the other has not; nothing, if all is well."""
        names = ", ".join(f'"{name}"' for name in self.columns(table))
        ours = self._rows(f"SELECT {names} FROM {table}")
        theirs = self._rows(f"SELECT {names} {self._published(table)}")
        said = [f"{len(ours)} rows recomputed, {len(theirs)} published"] if len(ours) != len(theirs) else []
        for mine, other in zip(ours, theirs, strict=False):
            if not _alike(mine, other):
                return [*said, f"recomputed {mine}", f"published  {other}"]
        return said

    def _published(self, table: str) -> str:
        if table not in BY_HOUR:
            return f"FROM read_parquet('{self.tables}/{table}/*.parquet')"
        return f"FROM read_parquet('{self.tables}/{table}/*/*.parquet', hive_types = {{'date': DATE}})"

    def _rows(self, sql: str) -> list[Row]:
        return sorted(self.db.execute(sql).fetchall(), key=_without_floats)


def _without_floats(row: Row) -> str:
    """What rows are sorted by: figures that may differ in their last digit do not count."""
    return repr([None if isinstance(value, float) else value for value in row])


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def all_differences(journal: Path, tables: Path, names: Iterable[str] = SQL) -> dict[str, list[str]]:
    recomputed = Recomputed(journal, tables)
    return {name: found for name in names if (found := recomputed.differences(name))}
