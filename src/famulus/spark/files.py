"""Parquet files that are there as a whole or not at all, on whatever file system Arrow knows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs


def place_of(folder: str) -> tuple[fs.FileSystem, str]:
    if "://" in folder:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(folder)
        return found
    return fs.LocalFileSystem(), str(Path(folder).absolute())


def write_parquet(folder: str, name: str, table: pa.Table) -> None:
    """Spark does not look at names that begin with a dot."""
    system, path = place_of(folder)
    system.create_dir(path, recursive=True)
    unfinished = f"{path}/.{name}.tmp"
    pq.write_table(table, unfinished, filesystem=system, compression="zstd")
    system.move(unfinished, f"{path}/{name}.parquet")
