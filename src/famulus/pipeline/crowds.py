"""Keeps rows from being moved: of many millions, few have anything to do with each other.

To bring rows with one key together, Spark sorts all of them and moves them about, which is most of the work of a table
with a row per task. Nearly all tasks have one row. So the keys that matter are found first, by their hashes alone.
Where they are few, each reader of the rows is told all of them, and the others stay where they are.

Two keys may have one hash. So what is picked out is not only what was asked for, and whoever picks has to look again.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.once import kept, once
from famulus.pipeline.pace import is_paced_for_few

#: Up to so many hashes are told to everybody, 8 bytes each; with more of them, Spark is left to choose.
TOLD_MAX: Final = 1_000_000
_HASH: Final = "crowd_hash_"


@once
def parted(rows: DataFrame, key: str) -> tuple[DataFrame | None, DataFrame]:
    """Rows that are alone with their key, and all others. Few rows are not worth the question: then all are others."""
    if is_paced_for_few(rows.sparkSession):
        return None, rows
    hashed = F.xxhash64(key)
    crowds = rows.groupBy(hashed.alias(_HASH)).agg(F.count("*").alias("n")).where("n > 1").select(_HASH)
    known = _told(crowds)
    alone, others = (rows.join(known, hashed == F.col(_HASH), how) for how in ("left_anti", "left_semi"))
    # They are few and wanted several times, and to find them all rows are read.
    return alone, kept(others)


def among(rows: DataFrame, key: str, wanted: DataFrame) -> DataFrame:
    """The rows whose key one of `wanted` has, and perhaps a few more. Few rows are left as they are."""
    if is_paced_for_few(rows.sparkSession):
        return rows
    known = _told(wanted.select(F.xxhash64(key).alias(_HASH)).distinct())
    return rows.join(known, F.xxhash64(key) == F.col(_HASH), "left_semi")


def _told(hashes: DataFrame) -> DataFrame:
    first = hashes.limit(TOLD_MAX + 1).toArrow()
    if first.num_rows > TOLD_MAX:
        return hashes
    return F.broadcast(hashes.sparkSession.createDataFrame(first, hashes.schema))
