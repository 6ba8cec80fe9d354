"""Makes a whole journal with Spark: each of its tasks writes the files of one cell."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem

from famulus.errors import SettingsError
from famulus.journal.files import JournalFile, hour_of
from famulus.journal.schema import TIME_COLUMN
from famulus.lab.synth import chronicle
from famulus.lab.synth.cells import tables_of
from famulus.lab.synth.plan import US_PER_HOUR, Plan, Truths
from famulus.lab.synth.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITTEN = pa.schema([("table", pa.string()), ("rows", pa.int64()), ("tasks", pa.int64())])


def make(spark: SparkSession, folder: str | os.PathLike[str], plan: Plan) -> Truths:
    """Writes the journal and `truths.json` into the folder, which must be new or empty; returns the truths."""
    place = _place(folder)
    world = World(plan)
    # One more than there are cells: the chronicle.
    count = len(world.cells) + 1
    work = _work(place, plan)
    done = spark.range(0, count, 1, count).mapInArrow(work, "table string, rows long, tasks long").toArrow()
    rows: Counter[str] = Counter()
    tasks = 0
    for entry in done.to_pylist():
        rows[entry["table"]] += entry["rows"]
        tasks += entry["tasks"]
    planted = chronicle.truths(world)
    tasks += chronicle.tasks(world)
    truths = Truths(plan.seed, plan.start.isoformat(), plan.hours, dict(rows), tasks, planted)
    filesystem, path = FileSystem.from_uri(place)
    with filesystem.open_output_stream(f"{path}/truths.json") as stream:
        stream.write(truths.json().encode())
    return truths


def _place(folder: str | os.PathLike[str]) -> str:
    """Any place that Arrow knows: a path, or a URI such as hdfs://... or s3://..."""
    place = os.fspath(folder)
    if "://" not in place:
        place = os.path.abspath(place)
    filesystem, path = FileSystem.from_uri(place)
    # Two journals in one folder would be one with twice the tasks, and no truth would hold.
    if filesystem.get_file_info(FileSelector(path, allow_not_found=True)):
        raise SettingsError(f"{folder}: is not empty; a synthetic journal needs a folder of its own")
    filesystem.create_dir(path, recursive=True)
    return place


def _work(folder: str, plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs in Spark's tasks. Only the plan travels: the world follows from it."""

    def write_cells(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        world = World(plan)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _write_cell(folder, world, number)

    return write_cells


def _write_cell(folder: str, world: World, number: int) -> Iterator[pa.RecordBatch]:
    cell = world.cells[number] if number < len(world.cells) else None
    for table, boot, rows in chronicle.tables_of(world) if cell is None else tables_of(world, cell):
        written = _write(folder, world.brokers[boot.broker], boot.name, number, table, rows)
        # What another broker wrote about a delegated task is not a task of its own.
        tasks = written if cell is not None and table == "tasks" and boot == cell.boot else 0
        yield pa.record_batch([[table], [written], [tasks]], schema=_WRITTEN)


# -- files, as a broker would write them -----------------------------------------------------------------------------


def _write(folder: str, broker: str, boot: str, number: int, table: str, rows: pa.Table) -> int:
    """One file for each hour that has rows; returns the number of rows."""
    if not rows.num_rows:
        return 0
    rows = rows.sort_by(TIME_COLUMN[table])
    hours = pc.divide(pc.cast(rows.column(TIME_COLUMN[table]), pa.int64()), US_PER_HOUR)
    for hour in pc.unique(hours).to_pylist():
        of_hour = rows if hours[0].as_py() == hours[-1].as_py() else rows.filter(pc.equal(hours, hour))
        date, of_day = hour_of(hour * US_PER_HOUR)
        _write_file(folder, JournalFile(table, date, of_day, broker, boot, number, number), of_hour)
    return int(rows.num_rows)


def _write_file(folder: str, file: JournalFile, rows: pa.Table) -> None:
    filesystem, base = FileSystem.from_uri(folder)
    path = f"{base}/{file.path}"
    parent, _, name = path.rpartition("/")
    filesystem.create_dir(parent, recursive=True)
    # Whoever lists the folder meanwhile does not see a half-written file.
    hidden = f"{parent}/.{name}.tmp"
    pq.write_table(rows, hidden, compression="zstd", filesystem=filesystem)
    filesystem.move(hidden, path)
