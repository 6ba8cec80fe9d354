"""A file of the journal while it is being written: hidden by its name until it is complete and on the disk.

Whoever writes one holds a lock on it, so that others can tell it from a file that a crash has left behind.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.journal import schema
from famulus.journal.files import JournalFile
from famulus.journal.footers import TOLD_KEY, Told
from famulus.journal.schema import Kind

TMP: Final = ".tmp"
#: This many values of a column are encoded at once: that takes fewer steps than Arrow's default of about a thousand.
BATCH_ROWS: Final = 8192


class OpenFile:
    def __init__(self, folder: Path, file: JournalFile, written_as: pa.Schema) -> None:
        """`written_as`: the table's columns, where texts may be dictionaries; readers see them as texts."""
        self.file = file
        self._path = folder / file.path
        self._tmp = hidden(self._path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._tmp, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._sink = pa.OSFile(str(self._tmp), "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            written_as,
            compression="zstd",
            compression_level=1,
            write_batch_size=BATCH_ROWS,
            # Otherwise readers would see dictionaries where the schema says text.
            store_schema=False,
            **_encodings(file.table),
        )

    def write(self, rows: pa.Table) -> None:
        """One row group."""
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))

    @property
    def bytes(self) -> int:
        return int(self._sink.tell())

    def finish(self, told: Told) -> None:
        """`told`: how many of the rows that each process reported are in files, including this one."""
        self._writer.add_key_value_metadata(
            {schema.VERSION_KEY: str(schema.VERSION), schema.TABLE_KEY: self.file.table, TOLD_KEY: json.dumps(told)}
        )
        self._writer.close()
        self._sink.close()
        os.fsync(self._fd)
        os.rename(self._tmp, self._path)
        sync_folder(self._path.parent)
        os.close(self._fd)

    def abandon(self) -> None:
        """It cannot be finished: remove it completely."""
        for step in (self._writer.close, self._sink.close, self._tmp.unlink, partial(os.close, self._fd)):
            with suppress(OSError):
                step()


def hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}{TMP}")


def shown(path: Path) -> Path:
    """The reverse of `hidden`."""
    return path.with_name(path.name.removeprefix(".").removesuffix(TMP))


def is_being_written(path: Path) -> bool:
    """Whether somebody holds the lock on this hidden file."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def sync_folder(folder: Path) -> None:
    """A rename is on the disk only once its folder is synced."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@cache
def _encodings(table: str) -> dict[str, Any]:
    """Most numbers are close to their neighbours: differences take half the space, and less time to write."""
    columns = schema.TABLES[table]
    numbers = {
        column.name: "DELTA_BINARY_PACKED" for column in columns if column.kind in (Kind.INT, Kind.LONG, Kind.INSTANT)
    }
    return {
        "use_dictionary": schema.REPEATED_TEXTS[table],
        "column_encoding": numbers,
        "write_statistics": [schema.TIME_COLUMN[table]],
    }
