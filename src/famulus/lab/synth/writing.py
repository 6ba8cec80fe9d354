"""Puts rows into files of the journal, as a broker would: by hour, complete under a hidden name, then renamed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from famulus.journal.files import JournalFile, hour_of
from famulus.journal.schema import TIME_COLUMN
from famulus.lab.synth.plan import US_PER_HOUR


def opened(folder: str) -> tuple[Any, str]:
    """Any place that Arrow knows: a path, or a URI such as hdfs://... or s3://..."""
    filesystem, path = pyarrow.fs.FileSystem.from_uri(folder)
    return filesystem, path


def write(folder: str, broker: str, boot: str, number: int, table: str, rows: pa.Table) -> int:
    """One file for each hour that the rows are of; the number of rows."""
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
    filesystem, base = opened(folder)
    path = f"{base}/{file.path}"
    parent, _, name = path.rpartition("/")
    filesystem.create_dir(parent, recursive=True)
    # Whoever lists the folder meanwhile sees nothing of a half file.
    hidden = f"{parent}/.{name}.tmp"
    pq.write_table(rows, hidden, compression="zstd", filesystem=filesystem)
    filesystem.move(hidden, path)
