"""Tasks that were handed over have rows at both brokers: one half without the other is questioned.

Only if the journal of the other broker is there, too, and goes on for a while after it: the row may still come.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.auditing.gaps import with_gap
from famulus.pipeline.tables.columns import hour_number, is_dispatcher_death, is_run, seconds_between
from famulus.pipeline.tables.lives import broker_events, last_signs
from famulus.pipeline.tables.memo import cached
from famulus.pipeline.tables.words import said

#: A broker that died, or was cut off, within this time after its half would have been written, may have lost it.
ENDS_WITHIN_S: Final = 120
#: The clocks of two brokers may differ by this much.
CLOCKS_S: Final = 5


def missing(remarkable: DataFrame, tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    """`remarkable`: the rows of tasks that are not plain. A plain task that was handed over has both halves."""
    answered = F.col("outcome").isin("OK", "ERROR")
    handed = cached(remarkable.where(F.col("delegated_to").isNotNull() | F.col("delegated_from").isNotNull()))
    given, taken = (handed.where(F.col(name).isNotNull()) for name in ("delegated_to", "delegated_from"))
    signs = last_signs(tasks, brokers, ["broker"], "hour_number", after=0).withColumnRenamed("broker", "other")
    lone_given = _without(given.where(answered), "delegated_to", taken, "delegated_from")
    lone_taken = _without(taken.where(answered & is_run()), "delegated_from", given, "delegated_to")
    return (
        lone_given.unionByName(lone_taken)
        .dropDuplicates()
        # If no row of the other broker is near, its journal is not there.
        .join(signs, on=["other", "hour_number"], how="inner")
        .transform(_with_end, broker_events(brokers), peers)
        .transform(_entries, broker_events(brokers))
    )


def _without(rows: DataFrame, other: str, halves: DataFrame, back: str) -> DataFrame:
    """Rows whose other half is not there: a row of the other broker, of the same task, that names this one."""
    names = {"half_id": "message_id", "half_broker": "broker", "half_other": back}
    halves_hour, hour = (hour_number("ended").alias(name) for name in ("half_hour", "hour_number"))
    found = halves.select(*[F.col(column).alias(name) for name, column in names.items()], halves_hour)
    own = rows.select(
        "message_id", "service", "worker", "broker", "boot", "ticket", "outcome", F.col("ended").alias("at"),
        F.col(other).alias("other"), F.lit(other).alias("way"), hour,
    )  # fmt: skip
    same = (F.col("half_id") == F.col("message_id")) & (F.col("half_broker") == F.col("other"))
    same &= F.col("half_other") == F.col("broker")
    near = F.abs(F.col("half_hour") - F.col("hour_number")) <= 1
    return own.join(found, on=same & near, how="left_anti")


def _with_end(rows: DataFrame, events: DataFrame, peers: DataFrame) -> DataFrame:
    """`ends_at`: the first time after it, or just before, that a life of the other broker ended."""
    event = F.col("event")
    ended = event.isin("start", "stop") | is_dispatcher_death()
    own = events.where(ended).select(F.col("broker").alias("other"), F.col("at").alias("end"))
    seen = peers.where(event == "lost").select(F.col("peer").alias("other"), F.col("at").alias("end"))
    ends = own.unionByName(seen).groupBy("other").agg(F.array_sort(F.collect_set("end")).alias("ends"))
    first = f"get(filter(ends, each -> each >= at - INTERVAL {CLOCKS_S} SECONDS), 0)"
    return rows.join(F.broadcast(ends), on="other", how="left").withColumn("ends_at", F.expr(first)).drop("ends")


def _entries(rows: DataFrame, events: DataFrame) -> DataFrame:
    ends = F.coalesce(seconds_between("at", "ends_at") <= ENDS_WITHIN_S, F.lit(False))
    goes_on = seconds_between("at", "alive_at") > ENDS_WITHIN_S
    # The gap is one of the broker that should have written the half, in any of its lives.
    gapped = (
        rows.where(ends | goes_on)
        .withColumns({"ends": ends, "named": F.struct("broker", "boot"), "broker": F.col("other"), "boot": F.lit("")})
        .transform(with_gap, events.withColumn("boot", F.lit("")), ~F.col("ends"))
        .withColumns({"broker": F.col("named.broker"), "boot": F.col("named.boot")})
    )
    explained = F.col("ends") | F.col("in_gap")
    why = (
        F.when(F.col("ends"), ": it ended about then, and may have lost it")
        .when(F.col("in_gap"), ": it may be in a gap of its journal")
        .otherwise("")
    )
    how = F.when(F.col("way") == "delegated_to", "was handed over to").otherwise("came from")
    words = said("it {how} {other}, whose journal has nothing of that{why}", how=how, why=why)
    return entries(gapped, "half_missing", words, explained=explained)
