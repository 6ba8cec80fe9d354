"""How fast the pipeline is: each table by itself, how it grows, what an increment costs, and DuckDB beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from msgspec.structs import asdict

from famulus.journal.files import parse
from famulus.lab import synth
from famulus.lab.bench.memory import MemoryWatch
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs
from famulus.pipeline.run.progress import ProgressStep
from famulus.pipeline.run.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]
#: The increment is the journal divided by this.
INCREMENT: Final = 100
WARM_TASKS: Final = 10_000
#: The increment is run this often, from the same tables.
TIMES: Final = ("first", "second", "third")
SERVICE_MINUTES: Final = Path(__file__).parent / "static" / "service_minutes.sql"


@dataclass(frozen=True, slots=True)
class BenchPlan:
    journal: synth.Plan
    #: Into how many files each broker's hour of a table is cut, where it has the rows for that.
    files: int = 1
    #: Of the increment; 0: in proportion.
    more_hours: int = 0


def measure(plans: Sequence[BenchPlan], master: str | None, tell: Tell) -> dict[str, Any]:
    began = time.monotonic()
    with session(master) as spark:
        start_s = time.monotonic() - began
        tell(f"Spark started in {start_s:.1f} s")
        # What runs for the first time has to be compiled first: that is a cost of the start, not of the data.
        warm = _size(spark, BenchPlan(synth.Plan(WARM_TASKS, plans[0].journal.hours)), lambda _: None)
        sizes = [_size(spark, plan, tell) for plan in plans]
    return {"start_s": start_s, "first_run_s": warm["full"]["seconds"], "sizes": sizes, "growth": _growth(sizes)}


def _size(spark: SparkSession, plan: BenchPlan, tell: Tell) -> dict[str, Any]:
    tasks = plan.journal.tasks
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as folder:
        journal, tables = Path(folder) / "journal", Path(folder) / "tables"
        began = time.monotonic()
        rows = sum(synth.make(spark, journal, plan.journal).rows.values())
        made_s = time.monotonic() - began
        files = cut(journal, plan.files)
        tell(f"{tasks:,} tasks: journal of {rows:,} rows made in {made_s:.1f} s")
        full = _run(spark, journal, tables)
        tell(f"{tasks:,} tasks: all tables in {full['seconds']:.1f} s")
        duckdb = _duckdb(journal)
        increments = _increments(spark, journal, tables, plan, tell)
    # Few rows take another path than many, which Java compiles the first time. And short runs are easily disturbed.
    first, increment = increments[0], sorted(increments, key=itemgetter("seconds"))[len(increments) // 2]
    spark_s = next((each["seconds"] for each in full["tables"] if each["table"] == "service_minutes"), None)
    return {
        "tasks": tasks,
        "journal_rows": rows,
        "journal_files": files,
        "journal_s": made_s,
        "full": full,
        "increments_s": [each["seconds"] for each in increments],
        "first_increment": first,
        "first_increment_ratio": first["seconds"] / full["seconds"],
        "increment": increment,
        "increment_ratio": increment["seconds"] / full["seconds"],
        "service_minutes": {
            "spark_s": spark_s,
            "duckdb_s": duckdb,
            "spark_over_duckdb": spark_s / duckdb if spark_s and duckdb else None,
        },
    }


def _increments(spark: SparkSession, journal: Path, tables: Path, plan: BenchPlan, tell: Tell) -> list[dict[str, Any]]:
    """One hundredth more, added to the same tables several times."""
    # Published files are replaced and never changed, so hard links are copies of the tables as they are now.
    copies = {
        each: shutil.copytree(tables, tables.with_name(f"{each}-tables"), copy_function=os.link) for each in TIMES
    }
    _add(spark, journal, tables.with_name("more"), plan)
    increments = []
    for which, copy in copies.items():
        increments.append(_run(spark, journal, copy))
        took = f"{increments[-1]['seconds']:.1f} s"
        tell(f"{plan.journal.tasks:,} tasks: {100 / INCREMENT:g} % more, the {which} time, in {took}")
    return increments


def _run(spark: SparkSession, journal: Path, tables: Path) -> dict[str, Any]:
    peaks_kib: dict[str, int] = {}
    look_s = 0.0
    with MemoryWatch() as memory:

        def tell(step: ProgressStep) -> None:
            nonlocal look_s
            if step.what == "look" and step.done:
                look_s = step.seconds
            if step.table and step.done:
                peaks_kib[step.table] = memory.take_peak_kib()
            elif step.table and step.what == "stage":
                memory.take_peak_kib()

        summary = jobs.run(spark, Place(journal), Place(tables), tell=tell)
    return {
        "seconds": summary.seconds,
        "rows_new": summary.rows_new,
        "look_s": look_s,
        "hours": summary.hours,
        "rows_per_s": summary.rows_new / summary.seconds,
        "tables": [asdict(each) | {"peak_mib": round(peaks_kib.get(each.table, 0) / 1024)} for each in summary.tables],
    }


def _add(spark: SparkSession, journal: Path, folder: Path, plan: BenchPlan) -> None:
    """The hours that follow, with a hundredth of the tasks."""
    before = plan.journal
    more = replace(
        before,
        tasks=max(before.tasks // INCREMENT, 100),
        hours=plan.more_hours or max(before.hours // INCREMENT, 1),
        start=before.start + timedelta(hours=before.hours),
        seed=before.seed + 1,
    )
    synth.make(spark, folder, more)
    cut(folder, plan.files)
    for path in sorted(folder.rglob("*.parquet")):
        target = journal / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)


def cut(journal: Path, files: int) -> int:
    """As brokers have it that have not compacted an hour yet. Returns how many files there are."""
    # From the highest number on, since the new numbers are higher: so none is that of a file still to be cut.
    paths = sorted(journal.rglob("*.parquet"), reverse=True)
    return len(paths) if files == 1 else sum(_cut(journal, path, files) for path in paths)


def _cut(journal: Path, path: Path, files: int) -> int:
    whole = parse(path.relative_to(journal).as_posix())
    assert whole is not None
    rows = pq.read_table(path, partitioning=None)
    path.unlink()
    step = -(-rows.num_rows // files)
    begins = range(0, rows.num_rows, step)
    for number, begin in enumerate(begins, whole.first * files):
        own = replace(whole, first=number, last=number)
        pq.write_table(rows.slice(begin, step), journal / own.path, compression="zstd")
    return len(begins)


def _growth(sizes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Time per task of each size, over that of the smallest."""
    per_task = [each["full"]["seconds"] / each["tasks"] for each in sizes]
    return [
        {"tasks": each["tasks"], "us_per_task": cost * 1e6, "ratio": cost / per_task[0]}
        for each, cost in zip(sizes, per_task, strict=True)
    ]


# -- DuckDB -------------------------------------------------------------------------------------------------------


def duckdb_query(journal: Path) -> str:
    """The same table, as the pipeline defines it."""
    return SERVICE_MINUTES.read_text("utf-8").replace("{journal}", str(journal))


def _duckdb(journal: Path) -> float | None:
    """Seconds for the same table, written to a file; None where DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as db:
        began = time.monotonic()
        db.execute(
            f"copy ({duckdb_query(journal)}) to '{folder}/service_minutes.parquet' (format parquet, compression zstd)"
        )
        return time.monotonic() - began
