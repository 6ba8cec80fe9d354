"""Columns made of columns: outcomes, instants, and what a histogram says. Knows no table.

Whatever loops over an array is written in SQL, here and in the tables. PySpark gives the parameters of a `lambda` new
names each time; Spark recognises by its text the code that it has compiled, and would compile it again in each run.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from famulus.journal.schema import Kind
from famulus.pipeline.columnar.rows import FINAL
from famulus.pipeline.histogram import BUCKETS_PER_E_FOLD, MILLION, QUANTILES
from famulus.pipeline.tables.column_types import SPARK

# -- rows of the journal's tasks ----------------------------------------------------------------------------------


def is_final() -> Column:
    """The task ended with this attempt, at this broker."""
    return F.col("outcome").isin(*FINAL)


def is_settled() -> Column:
    """Final, and at the accountable broker: so the client heard it."""
    return is_final() & F.col("delegated_from").isNull()


def is_run() -> Column:
    """A worker had this attempt. A late answer belongs to an attempt that has its own row."""
    return F.col("worker").isNotNull() & F.col("assigned").isNotNull() & (F.col("outcome") != "LATE")


# -- rows of the journal's brokers --------------------------------------------------------------------------------


def is_dispatcher_death() -> Column:
    return (F.col("event") == "process_died") & (F.col("process") == "dispatcher")


# -- sums that are never null -------------------------------------------------------------------------------------


def sum_if(value: str, condition: Column) -> Column:
    return total(F.when(condition, F.col(value)))


def total(value: Column | str) -> Column:
    return F.coalesce(F.sum(value), F.lit(0).cast("long"))


# -- instants -----------------------------------------------------------------------------------------------------


def minute_of(at: Column | str) -> Column:
    return F.date_trunc("minute", at)


def hour_of(at: Column | str) -> tuple[Column, Column]:
    """The columns `date` and `hour` of an hourly table."""
    return F.to_date(at).alias("date"), F.hour(at).alias("hour")


def hour_number(at: Column | str) -> Column:
    """Hours since 1970: neighbours differ by one."""
    return F.floor(F.unix_seconds(at) / 3600)


def hours_around(at: str, *, after: int = 1) -> Column:
    """A row for each hour, by its number, that this instant is in or next to; `after`: how many hours ahead."""
    return F.explode(F.array(*[hour_number(at) + step for step in range(-1, after + 1)]))


def seconds_between(earlier: Column | str, later: Column | str) -> Column:
    return (F.unix_micros(later) - F.unix_micros(earlier)) / F.lit(1e6)


def minutes_between(first: Column | str, last: Column | str) -> Column:
    """The starts of all minutes from that of one instant to that of another, as an array."""
    return F.sequence(minute_of(first), minute_of(last), F.expr("INTERVAL 1 MINUTE"))


def later(at: str, minutes: int) -> Column:
    return F.col(at) + F.make_dt_interval(mins=F.lit(minutes))


# -- names --------------------------------------------------------------------------------------------------------


def stable_id(*parts: Column | str) -> Column:
    """Twelve hex digits that are always the same for the same parts."""
    return F.substring(F.sha2(F.concat_ws("\n", *parts), 256), 1, 12)


# -- histograms ---------------------------------------------------------------------------------------------------


def no_histogram() -> Column:
    return F.array().cast(SPARK[Kind.HISTOGRAM])


def count_of(histogram: str) -> Column:
    """How many values it has counted."""
    return F.expr(_count_of(histogram))


def quantiles(histogram: str) -> Column:
    """Values that the shares of QUANTILES do not exceed, as a struct of p50 and so on; nulls if nothing was counted.

    The total is part of the state: as a term of each step it would be summed again for every bucket.
    """
    seen = "state.seen + entry.count"
    nothing = dict.fromkeys(QUANTILES, "CAST(NULL AS INT)")
    found = {
        name: f"coalesce(state.{name}, IF(({seen}) * {MILLION} >= state.total * {share}, entry.bucket, NULL))"
        for name, share in QUANTILES.items()
    }
    start = _struct({"seen": "0L", "total": _count_of(histogram)} | nothing)
    step = _struct({"seen": seen, "total": "state.total"} | found)
    finish = _struct({name: _middle_of(f"state.{name}") for name in QUANTILES})
    return F.expr(f"aggregate({histogram}, {start}, (state, entry) -> {step}, state -> {finish})")


def minus(histogram: str, part: str) -> Column:
    """What is left of a histogram without one that it was summed from."""
    count = f"entry.count - coalesce(map_from_entries({part})[entry.bucket], 0)"
    entry = _struct({"bucket": "entry.bucket", "count": count})
    left = f"transform({histogram}, entry -> {entry})"
    return F.expr(f"filter({left}, entry -> entry.count > 0)")


def _count_of(histogram: str) -> str:
    return f"aggregate({histogram}, 0L, (seen, entry) -> seen + entry.count)"


def _middle_of(bucket: str) -> str:
    """The value in the (geometric) middle of a bucket."""
    return f"CAST(round(exp(({bucket} + 0.5D) / {BUCKETS_PER_E_FOLD}) - 1) AS BIGINT)"


def _struct(fields: Mapping[str, str]) -> str:
    pairs = [f"'{name}', {value}" for name, value in fields.items()]
    return f"named_struct({', '.join(pairs)})"
