"""After the demo: the pipeline over its own journal, and what the audit says about it."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from famulus.journal.places import state_folder
from famulus.journal.unknowns import what_is_not_known
from famulus.lab.demo.actor import run

PIPELINE_S = 150.0


@dataclass(frozen=True, slots=True)
class Archive:
    """What is left of a demo: its journal, its tables, its report. The next one takes its place."""

    folder: Path

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def tables(self) -> Path:
        return self.folder / "tables"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)


def archive() -> Archive:
    return Archive(state_folder() / "demo")


def can_play() -> bool:
    return importlib.util.find_spec("pyspark") is not None


@dataclass(frozen=True, slots=True)
class Account:
    #: What the audit cannot explain, which should be nothing.
    unexplained: list[str]
    #: What no journal can know: a broker was killed.
    not_known: str


def play(archive: Archive) -> Account:
    """Make the tables and the report, and read the audit."""
    asyncio.run(_make_tables_and_report(archive))
    return account(archive.tables)


async def _make_tables_and_report(archive: Archive) -> None:
    await run(
        *("pipeline", "run", "--journal", str(archive.journal), "--tables", str(archive.tables)), within_s=PIPELINE_S
    )
    await run(
        *("pipeline", "report", "--tables", str(archive.tables), "--output", str(archive.report)), within_s=PIPELINE_S
    )


def account(tables: Path) -> Account:
    import pyarrow.dataset as ds

    rows = ds.dataset(tables / "audit", format="parquet", partitioning="hive").to_table().to_pylist()
    unexplained = [f"audit: {row['kind']}: {row['explanation']}" for row in rows if not row["explained"]]
    return Account(unexplained, what_is_not_known(row for row in rows if row["explained"]))
