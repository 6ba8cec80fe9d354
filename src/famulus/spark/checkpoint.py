"""`ask` with a checkpoint: a folder in which answers are written down before anybody uses them.

A file has the keys of some rows, their answers and outcomes. A job that begins asks for the rows that no file has; a
partition that Spark computes again, for the rows that it has not written before. Files are in a folder for each job and
partition, and `_run.json` says to which run and service they belong.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from famulus.errors import SettingsError
from famulus.spark.files import address_of, place_of, write_parquet
from famulus.spark.options import with_answers
from famulus.spark.partition import answered
from famulus.spark.run import AskingRun
from famulus.spark.task_ids import row_names
from famulus.spark.terms import Terms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What has an answer is written down when it is so many rows, or the last file is so old.
FILE_ROWS: Final = 10_000
FILE_S: Final = 5.0
#: Rows are given back in pieces, so that they need not wait for the slowest of a large batch.
PIECE_ROWS: Final = 1000
_RUN: Final = "_run.json"
_KEY: Final = "famulus_key_"


def ask_saving(chosen: DataFrame, terms: Terms, folder: str) -> DataFrame:
    """Asks for what has no answer yet, and gives all rows with the answers in the folder."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructField

    if chosen.isStreaming:
        raise SettingsError("checkpoint: a streaming query has its own; use foreachBatch")
    if not terms.key:
        raise SettingsError("checkpoint: needs key=, by which answers are found again")
    spark = chosen.sparkSession
    folder = address_of(folder)
    terms = dataclasses.replace(terms, run=_run_in(folder, terms))
    keys = [chosen.schema.fields[place] for place in terms.key]
    named = [StructField(f"{_KEY}{number}", each.dataType) for number, each in enumerate(keys)]
    schema = with_answers(named, terms)

    def saved() -> DataFrame:
        reader = spark.read.schema(schema).option("recursiveFileLookup", True)
        return reader.parquet(folder)

    names = [each.name for each in named]
    same = [chosen[each.name].eqNullSafe(functions.col(name)) for each, name in zip(keys, names, strict=True)]
    settled = saved().where(functions.col("outcome").isin(_settled(terms))).select(*names)
    job = f"{folder}/{uuid.uuid4().hex[:12]}"
    # Also of the columns that are there for body and key alone: files have the keys.
    all_kept = dataclasses.replace(terms, kept=len(chosen.columns))

    def famulus(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _saving(all_kept, job, batches)

    chosen.join(settled, same, "left_anti").mapInArrow(famulus, "rows bigint").collect()
    # Speculation may have answered a row twice; what ran says more than what was refused.
    rank = functions.array_position(functions.lit(["REJECTED", "UNKNOWN", "ERROR", "OK"]), functions.col("outcome"))
    others = [name for name in schema.names if name not in names]
    best = saved().groupBy(*names).agg(functions.max_by(functions.struct(*others), rank).alias("famulus_best"))
    kept = chosen.columns[: terms.kept]
    return chosen.join(best, same, "left").select(*kept, *(functions.col(f"famulus_best.{name}") for name in others))


def _settled(terms: Terms) -> list[str]:
    """What is not asked for again: whatever may have run, unless it may run twice."""
    return ["OK", "ERROR"] if terms.idempotent or terms.at_least_once else ["OK", "ERROR", "UNKNOWN"]


def _run_in(folder: str, terms: Terms) -> AskingRun:
    """The run that the folder belongs to: with the same name the same rows are the same tasks."""
    system, path = place_of(folder)
    mine = {"service": terms.service, "answers": str(terms.answer_schema), "keys": len(terms.key)}
    file = f"{path}/{_RUN}"
    if system.get_file_info(file).type == fs.FileType.NotFound:
        run = terms.run
        system.create_dir(path, recursive=True)
        unfinished = f"{path}/_{uuid.uuid4().hex}.tmp"
        with system.open_output_stream(unfinished) as stream:
            stream.write(json.dumps({"run": run.given or run.made, **mine}, indent=1).encode())
        system.move(unfinished, file)
    with system.open_input_stream(file) as stream:
        told = json.loads(stream.read())
    if different := [name for name, value in mine.items() if told.get(name) != value]:
        name = different[0]
        raise SettingsError(f"checkpoint: {folder} has other {name}, {told.get(name)!r} instead of {mine[name]!r}")
    return dataclasses.replace(terms.run, given=told["run"])


# -- on executors ---------------------------------------------------------------------------------------------------


def _saving(terms: Terms, folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    own = f"{folder}/{context.partitionId()}"
    file = _File(own, terms)
    try:
        for rows in answered(terms, _pieces(batches, terms, _saved_before(own))):
            file.add(rows)
    finally:
        file.write()
    yield pa.record_batch({"rows": [file.rows]})


def _saved_before(own: str) -> set[bytes | None]:
    """The names of rows that an earlier attempt at this partition, or one that runs beside this, has written down."""
    system, path = place_of(own)
    if system.get_file_info(path).type == fs.FileType.NotFound:
        return set()
    found: set[bytes | None] = set()
    for info in system.get_file_info(fs.FileSelector(path)):
        if info.base_name.startswith("."):
            continue
        table = pq.read_table(info.path, filesystem=system)
        table = table.filter(pc.not_equal(table["outcome"], "REJECTED"))
        keys = [table[name].combine_chunks() for name in table.column_names if name.startswith(_KEY)]
        found.update(row_names(keys).to_pylist())
    return found


def _pieces(batches: Iterable[pa.RecordBatch], terms: Terms, known: set[bytes | None]) -> Iterator[pa.RecordBatch]:
    size = max(PIECE_ROWS, terms.rows_per_task)
    for batch in batches:
        rows = batch
        if known:
            names = row_names([batch.column(place) for place in terms.key]).to_pylist()
            rows = batch.filter(pa.array([name is None or name not in known for name in names]))
        for start in range(0, rows.num_rows, size):
            yield rows.slice(start, size)


class _File:
    """Rows with their answers that are not written down yet."""

    def __init__(self, folder: str, terms: Terms) -> None:
        self._folder = folder
        self._terms = terms
        self._batches: list[pa.RecordBatch] = []
        self._waiting = self.rows = 0
        self._written_at = monotonic()

    def add(self, rows: pa.RecordBatch) -> None:
        self._batches.append(rows)
        self._waiting += rows.num_rows
        if self._waiting >= FILE_ROWS or monotonic() - self._written_at >= FILE_S:
            self.write()

    def write(self) -> None:
        if self._batches:
            kept, keys = self._terms.kept, self._terms.key
            table = pa.Table.from_batches(self._batches)
            columns = {f"{_KEY}{number}": table.column(place) for number, place in enumerate(keys)}
            columns |= {name: table.column(kept + at) for at, name in enumerate(table.column_names[kept:])}
            write_parquet(self._folder, uuid.uuid4().hex, pa.table(columns))
            self.rows += self._waiting
        self._batches, self._waiting, self._written_at = [], 0, monotonic()
