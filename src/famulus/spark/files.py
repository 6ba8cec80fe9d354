"""Parquet files that are there as a whole or not at all, on whatever file system Arrow knows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs


def address_of(folder: str) -> str:
    """The same folder wherever it is said: a path is one of this machine, from where this program is."""
    return folder if "://" in folder else Path(folder).absolute().as_uri()


def place_of(address: str) -> tuple[fs.FileSystem, str]:
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(address)
    return found


def write_parquet(address: str, name: str, table: pa.Table) -> None:
    """Spark does not look at names that begin with a dot."""
    system, path = place_of(address)
    system.create_dir(path, recursive=True)
    unfinished = f"{path}/.{name}.tmp"
    pq.write_table(table, unfinished, filesystem=system, compression="zstd")
    system.move(unfinished, f"{path}/{name}.parquet")
