"""Keeps rows from being moved: of many millions, few have anything to do with each other.

To bring rows with one key together, Spark sorts all of them and moves them about, which is most of the work of a table
with a row per task. Nearly all tasks have one row. So the keys that matter are found first, by their hashes alone.
Where they are few, they are broadcast to all readers, and the other rows stay where they are.

Two keys may have the same hash. So more may be picked out than was asked for, and the caller has to check again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.memo import cached, memo
from famulus.pipeline.tables.scale import BATCH_ROWS, Scale, scale_of

#: Up to this many hashes are broadcast, 8 bytes each; with more of them, Spark is left to choose.
TOLD_MAX: Final = 1_000_000
_HASH: Final = "key_hash_"


class _Hashes(NamedTuple):
    rows: DataFrame
    #: Whether it is known that only few rows have one of them.
    are_of_few: bool


def split_unique(rows: DataFrame, key: str) -> tuple[DataFrame | None, DataFrame]:
    """Rows whose key no other row has, and all others. Few rows are not worth splitting: then all are others."""
    # What is remembered must not contain the rows that it is remembered for, or neither would ever be freed.
    return (None, rows) if scale_of(rows.sparkSession) is Scale.SMALL else _split(rows, key)


@memo
def _split(rows: DataFrame, key: str) -> tuple[DataFrame, DataFrame]:
    shared = _hashes(rows, key, at_least=2)
    alone, others = (rows.join(shared.rows, F.xxhash64(key) == F.col(_HASH), how) for how in ("left_anti", "left_semi"))
    # They are few and used several times, and finding them reads all rows.
    return alone, cached(in_one_partition(others) if shared.are_of_few else others)


def matching(rows: DataFrame, key: str, wanted: DataFrame) -> DataFrame:
    """The rows whose key is in `wanted`, and perhaps a few more. Few rows are left as they are."""
    if scale_of(rows.sparkSession) is Scale.SMALL:
        return rows
    known = _hashes(wanted, key, at_least=1)
    found = rows.join(known.rows, F.xxhash64(key) == F.col(_HASH), "left_semi")
    return in_one_partition(found) if known.are_of_few else found


def in_one_partition(rows: DataFrame) -> DataFrame:
    """The few that are left of some rows, in one partition: they need not be moved again. Of many, more may be left."""
    return rows.repartition(1) if scale_of(rows.sparkSession) is Scale.MEDIUM else rows


def _hashes(rows: DataFrame, key: str, *, at_least: int) -> _Hashes:
    """The hashes of the keys that at least this many rows have."""
    hashes = rows.select(F.xxhash64(key).alias(_HASH))
    if scale_of(rows.sparkSession) is Scale.MEDIUM:
        # Counted by Arrow: Spark would need three stages, and there are not that many.
        counts = hashes.toArrow().group_by(_HASH).aggregate([([], "count_all")])
        found = counts.filter(pc.field("count_all") >= at_least)
        return _Hashes(_told(found.select([_HASH]), hashes), (pc.sum(found["count_all"]).as_py() or 0) <= BATCH_ROWS)
    counted = hashes.groupBy(_HASH).agg(F.count("*").alias("n")).where(F.col("n") >= at_least).select(_HASH)
    return _Hashes(broadcast_if_few(counted), False)


def broadcast_if_few(keys: DataFrame) -> DataFrame:
    """Broadcasts the keys, up to a bound. They are found now; with few rows the join itself finds them."""
    if scale_of(keys.sparkSession) is Scale.SMALL:
        return keys
    first = keys.limit(TOLD_MAX + 1).toArrow()
    return keys if first.num_rows > TOLD_MAX else _told(first, keys)


def _told(keys: pa.Table, like: DataFrame) -> DataFrame:
    return F.broadcast(like.sparkSession.createDataFrame(keys, like.schema))
