"""Histograms over the groups of a table: counted from values, or summed from histograms."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import no_histogram


def merged(rows: DataFrame, keys: Sequence[str], names: Sequence[str]) -> DataFrame:
    """For each group one row with the sums of its histograms of these names."""
    entries = [_labelled(name, at) for at, name in enumerate(names)]
    return _summed(rows, keys, F.concat(*entries), names)


def beside(counts: DataFrame, histograms: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows of both together; where nothing was counted, histograms are empty."""
    names = [name for name in histograms.columns if name not in keys]
    both = counts.join(histograms, on=list(keys), how="left")
    return both.withColumns({name: F.coalesce(name, no_histogram()) for name in names})


def _labelled(histogram: str, at: int) -> Column:
    labelled = f"named_struct('of', {at}, 'bucket', entry.bucket, 'count', entry.count)"
    # Null in hours that were made before there was such a histogram.
    return F.expr(f"coalesce(transform({histogram}, entry -> {labelled}), array())")


def _summed(rows: DataFrame, keys: Sequence[str], entries: Column, names: Sequence[str]) -> DataFrame:
    """First by bucket, since Spark then adds up before it moves anything; only after that are arrays made."""
    by_bucket = (
        rows.select(*keys, F.explode(entries).alias("entry"))
        .where(F.col("entry.bucket").isNotNull())
        .groupBy(*keys, F.col("entry.of").alias("of"), F.col("entry.bucket").alias("bucket"))
        .agg(F.sum("entry.count").alias("count"))
    )
    # `collect_list` skips nulls, so each array gets its own entries only.
    arrays = [
        F.array_sort(F.collect_list(F.when(F.col("of") == at, F.struct("bucket", "count")))).alias(name)
        for at, name in enumerate(names)
    ]
    return by_bucket.groupBy(*keys).agg(*arrays)
