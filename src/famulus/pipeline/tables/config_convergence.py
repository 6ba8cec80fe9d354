"""Each edit of the config: when it was accepted, when each broker had it, and the conflicts that it was in.

An old edit may reach another broker any day. So what brokers told of edits is kept by the hour: there is little of it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.columns import hour_of

#: Columns of `broker_minutes`.
WANTED: Final = ("broker", "minute")
#: A broker that is still without an edit after this time is missing it.
GRACE_S: Final = 60


def config_events(config: DataFrame) -> DataFrame:
    """What brokers told of edits."""
    return config.select("*", *hour_of("at"))


def config_convergence(config_events: DataFrame, broker_minutes: DataFrame) -> DataFrame:
    return _edits(config_events).transform(_with_missing, broker_minutes).transform(_with_conflicts, config_events)


def _edits(config: DataFrame) -> DataFrame:
    """One row per edit, with the first time at each broker."""
    here = F.col("event").isin("accepted", "applied")
    firsts = (
        config.where(here)
        .groupBy("edit", "broker")
        .agg(
            F.min("at").alias("at"),
            F.min(F.when(F.col("event") == "accepted", F.col("at"))).alias("accepted"),
            F.min(F.struct("key", "author", "accepted_by")).alias("said"),
        )
    )
    return (
        firsts.groupBy("edit")
        .agg(
            F.min("said").alias("said"),
            F.coalesce(F.min("accepted"), F.min("at")).alias("accepted"),
            F.max("at").alias("last"),
            F.array_sort(F.collect_list(F.struct("at", "broker"))).alias("firsts"),
        )
        .withColumns({"arrivals": _arrivals(), "brokers": F.size("firsts"), "span_ms": F.expr(_delay_ms("last"))})
        .select("edit", "said.*", "accepted", "arrivals", "brokers", "span_ms")
    )


def _arrivals() -> Column:
    arrival = f"named_struct('broker', first.broker, 'at', first.at, 'delay_ms', {_delay_ms('first.at')})"
    return F.expr(f"transform(firsts, first -> {arrival})")


def _delay_ms(at: str) -> str:
    """Never negative, although the clocks of two brokers may differ by more than an edit takes."""
    return f"greatest(0L, unix_millis({at}) - unix_millis(accepted))"


def _with_missing(edits: DataFrame, broker_minutes: DataFrame) -> DataFrame:
    spans = broker_minutes.groupBy("broker").agg(F.min("minute").alias("first"), F.max("minute").alias("last"))
    # One row with all brokers: there are few of them, and many edits.
    everybody = spans.agg(F.array_sort(F.collect_list(F.struct("broker", "first", "last"))).alias("everybody"))
    # A broker that started in this very minute may have had the edit already: it was made to let the broker in.
    before, after = "each.first + INTERVAL 1 MINUTE <= accepted", f"each.last >= accepted + INTERVAL {GRACE_S} SECONDS"
    there = f"{before} AND {after}"
    missing = F.array_except(F.expr(f"filter(everybody, each -> {there}).broker"), F.col("arrivals.broker"))
    return edits.crossJoin(F.broadcast(everybody)).withColumn("missing", F.array_sort(missing)).drop("everybody")


def _with_conflicts(edits: DataFrame, config: DataFrame) -> DataFrame:
    """A conflict is identified by its highest head; whatever resolves its key afterwards ends it."""
    event = F.col("event")
    seen = config.where(event == "conflict").groupBy("edit", "key").agg(F.min("at").alias("conflict_seen"))
    end = F.struct(F.col("at").alias("conflict_resolved"), F.col("edit").alias("resolved_by"))
    resolved = config.where(event == "resolved").select(F.col("key").alias("resolved_key"), end.alias("end"))
    after = (F.col("key") == F.col("resolved_key")) & (F.col("end.conflict_resolved") >= F.col("conflict_seen"))
    lives = (
        seen.join(resolved, on=after, how="left")
        .groupBy("edit", "conflict_seen")
        .agg(F.min("end").alias("end"))
        .select("edit", "conflict_seen", "end.*")
        .withColumn("conflict_ms", F.unix_millis("conflict_resolved") - F.unix_millis("conflict_seen"))
    )
    return edits.join(lives, on="edit", how="left")
