"""Columns made of columns: outcomes, instants, and what a histogram says. Knows no table."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from famulus.pipeline.schemas import QUANTILES
from famulus.pipeline.spark_types import HISTOGRAM

#: Buckets for each e-fold of a value: the middle of a bucket is at most 3.2 % from all that is in it.
BUCKETS_PER_E_FOLD: Final = 16
MILLION: Final = 1_000_000
#: Outcomes that end a task.
FINAL: Final = ("OK", "ERROR", "REJECTED", "UNKNOWN")


# -- rows of the journal's tasks ----------------------------------------------------------------------------------


def is_final() -> Column:
    """The task ended with this attempt, at this broker."""
    return F.col("outcome").isin(*FINAL)


def is_settled() -> Column:
    """Final, and at the accountable broker: so the client heard it."""
    return is_final() & F.col("delegated_from").isNull()


def is_run() -> Column:
    """A worker had this attempt. A late answer is the echo of one that has its own row."""
    return F.col("worker").isNotNull() & F.col("assigned").isNotNull() & (F.col("outcome") != "LATE")


# -- sums that are never null -------------------------------------------------------------------------------------


def sum_if(value: Column, condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, value)), F.lit(0).cast("long"))


def total(value: Column) -> Column:
    return F.coalesce(F.sum(value), F.lit(0).cast("long"))


# -- instants -----------------------------------------------------------------------------------------------------


def minute_of(at: Column) -> Column:
    return F.date_trunc("minute", at)


def hour_of(at: Column) -> tuple[Column, Column]:
    """The columns `date` and `hour` of an hourly table."""
    return F.to_date(at).alias("date"), F.hour(at).alias("hour")


def hour_number(at: Column) -> Column:
    """Hours since 1970: neighbours differ by one."""
    return F.floor(F.unix_seconds(at) / 3600)


def seconds_between(earlier: Column, later: Column) -> Column:
    return (F.unix_micros(later) - F.unix_micros(earlier)) / F.lit(1e6)


def minutes_from(at: Column, first: int, last: int) -> Column:
    """The begins of the minutes around an instant, as an array; 0 is its own minute."""
    own = minute_of(at)
    return F.transform(F.lit(list(range(first, last + 1))), lambda n: F.timestamp_seconds(F.unix_seconds(own) + n * 60))


# -- names --------------------------------------------------------------------------------------------------------


def stable_id(*parts: Column) -> Column:
    """Twelve letters that stay the same for the same parts."""
    return F.substring(F.sha2(F.concat_ws("\n", *parts), 256), 1, 12)


# -- histograms ---------------------------------------------------------------------------------------------------


def bucket_of(value: Column) -> Column:
    """The number of the bucket that a value belongs to: 0 for 0, and for what a clock that went back made less."""
    bucket = F.floor(F.ln(F.greatest(value, F.lit(0)) + 1) * BUCKETS_PER_E_FOLD).cast("int")
    # `greatest` passes over nulls.
    return F.when(value.isNotNull(), bucket)


def middle_of(bucket: Column) -> Column:
    """The value in the (geometric) middle of a bucket."""
    return F.round(F.exp((bucket + 0.5) / BUCKETS_PER_E_FOLD) - 1).cast("long")


def no_histogram() -> Column:
    return F.array().cast(HISTOGRAM)


def count_of(histogram: Column) -> Column:
    """How many values it has counted."""
    return F.aggregate(histogram, F.lit(0).cast("long"), lambda seen, entry: seen + entry["count"])


def quantiles(histogram: Column) -> Column:
    """What the shares of QUANTILES do not exceed, as a struct of p50 and so on; nulls if nothing was counted.

    The total is a part of the state: as a term of each step it would be summed again for every bucket.
    """
    nothing = F.lit(None).cast("int")
    start = F.struct(
        F.lit(0).cast("long").alias("seen"),
        count_of(histogram).alias("total"),
        *[nothing.alias(name) for name in QUANTILES],
    )

    def step(state: Column, entry: Column) -> Column:
        seen = state["seen"] + entry["count"]
        return F.struct(
            seen.alias("seen"),
            state["total"].alias("total"),
            *[
                F.coalesce(state[name], F.when(seen * MILLION >= state["total"] * share, entry["bucket"])).alias(name)
                for name, share in QUANTILES.items()
            ],
        )

    def finish(state: Column) -> Column:
        return F.struct(*[middle_of(state[name]).alias(name) for name in QUANTILES])

    return F.aggregate(histogram, start, step, finish)


def quantile_columns(of: str) -> list[Column]:
    """The columns `<of>_p50_ns` and so on, of the column `<of>_quantiles`."""
    return [F.col(f"{of}_quantiles")[name].alias(f"{of}_{name}_ns") for name in QUANTILES]


def minus(histogram: Column, part: Column) -> Column:
    """What is left of a histogram without one that it was summed from."""
    counts = F.map_from_entries(part)
    left = F.transform(
        histogram,
        lambda entry: F.struct(
            entry["bucket"].alias("bucket"),
            (entry["count"] - F.coalesce(counts[entry["bucket"]], F.lit(0))).alias("count"),
        ),
    )
    return F.filter(left, lambda entry: entry["count"] > 0)
