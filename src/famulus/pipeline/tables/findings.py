"""What an admin should do: each with its evidence and, where there is one, the edit of the config that would do it.

A rule is a function to rows of `_FIELDS`. The rules look at the last day of data, the audit's at the last week. Values
of edits name only the fields to change: the journal does not know what else stands under a key. A worker that does harm
could only be added to a list (`error_workers`) that the journal does not know; so there the advice is all there is.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.columns import seconds_between, stable_id
from famulus.pipeline.tables.spark_types import contract, union_all
from famulus.pipeline.tables.table import Grain, Table

_FIELDS: Final = (
    "severity", "kind", "subject", "title", "evidence", "advice", "key", "value", "last_seen",
)  # fmt: skip
_SEVERITIES: Final = ("critical", "warning", "info")
DAY_H: Final = 24
WEEK_H: Final = 24 * 7
#: Workers below this score are worth a word, below the second one they are urgent.
SCORE_LOW: Final = 60
SCORE_BAD: Final = 30
#: One in so many tasks is too many.
ONE_IN: Final = 100
DEATHS_MIN: Final = 3
RECOVERY_S: Final = 300
#: An edit that takes so many minutes to come to a broker is late.
LATE_MINUTES: Final = 2
# Bounds of the config.
_BACKLOG_TASKS_MAX: Final = 10_000_000
_TIMEOUT_MS_MAX: Final = 86_400_000


def findings(
    service_hours: DataFrame,
    service_loads: DataFrame,
    worker_health: DataFrame,
    broker_minutes: DataFrame,
    failovers: DataFrame,
    config_convergence: DataFrame,
    audit: DataFrame,
    capacity: DataFrame,
    anomalies: DataFrame,
) -> DataFrame:
    newest = _newest(service_hours, broker_minutes)
    day = service_hours.transform(_since, newest, "at", DAY_H).transform(_services)
    found = [
        _bad_workers(worker_health),
        _too_few_slots(capacity, newest),
        _backlog_full(day, _backlogs(service_loads, newest), capacity),
        _time_out_short(day),
        _no_worker(day),
        _broker_unstable(broker_minutes.transform(_since, newest, "minute", DAY_H)),
        _slow_recovery(failovers.transform(_since, newest, "seen", DAY_H)),
        _conflicts(config_convergence),
        _edits_missing(config_convergence),
        _edits_late(config_convergence.transform(_since, newest, "accepted", DAY_H), broker_minutes),
        _gaps(audit.transform(_since, newest, "at", WEEK_H)),
        _crashes(audit.transform(_since, newest, "at", WEEK_H)),
        _unexplained(audit.transform(_since, newest, "at", WEEK_H)),
        _unusual(anomalies.transform(_since, newest, "minute", DAY_H)),
    ]
    return union_all(found).transform(_ranked).transform(contract, schemas.FINDINGS)


def _ranked(rows: DataFrame) -> DataFrame:
    urgency = F.array_position(F.lit(list(_SEVERITIES)), F.col("severity"))
    # Over all rows at once: there are as many as an admin can read.
    order = Window.partitionBy(F.lit(0)).orderBy(urgency, "kind", "subject")
    return rows.withColumn("id", stable_id(F.col("kind"), F.col("subject"))).withColumn(
        "rank", F.row_number().over(order)
    )


def _finding(
    rows: DataFrame,
    kind: str,
    *,
    severity: Column,
    subject: Column,
    title: Column,
    evidence: Column,
    advice: Column,
    key: Column | None = None,
    value: Column | None = None,
    last_seen: Column,
) -> DataFrame:
    none = F.lit(None).cast("string")
    values = (
        severity, F.lit(kind), subject, title, evidence, advice,
        none if key is None else key, none if value is None else value, last_seen,
    )  # fmt: skip
    return rows.select(*[column.alias(name) for name, column in zip(_FIELDS, values, strict=True)])


# -- what the rules look at ---------------------------------------------------------------------------------------


def _newest(service_hours: DataFrame, broker_minutes: DataFrame) -> DataFrame:
    """The end of the data. The tables know no now."""
    ends = service_hours.select("at").unionByName(broker_minutes.select(F.col("minute").alias("at")))
    return ends.agg(F.max("at").alias("newest"))


def _since(rows: DataFrame, newest: DataFrame, column: str, hours: int) -> DataFrame:
    recent = F.col(column) > F.col("newest") - F.make_dt_interval(hours=F.lit(hours))
    return rows.join(F.broadcast(newest), on=recent, how="inner")


def _services(hours: DataFrame) -> DataFrame:
    names = ("tasks", "overloaded", "no_worker", "expired", "late")
    return hours.groupBy("service").agg(
        *[F.sum(name).alias(name) for name in names],
        F.max("total_p999_ns").alias("total_p999_ns"),
        F.max("at").alias("last_seen"),
    )


def _backlogs(service_loads: DataFrame, newest: DataFrame) -> DataFrame:
    at = F.to_timestamp(F.col("date")) + F.make_dt_interval(hours=F.col("hour"))
    recent = service_loads.withColumn("at", at).transform(_since, newest, "at", DAY_H)
    return recent.groupBy("service").agg(F.max("backlog_max").alias("backlog_max"))


def _is_common(column: str) -> Column:
    return (F.col(column) > 0) & (F.col(column) * ONE_IN >= F.col("tasks"))


# -- workers and services -----------------------------------------------------------------------------------------


def _bad_workers(worker_health: DataFrame) -> DataFrame:
    return _finding(
        worker_health.where(F.col("score") < SCORE_LOW),
        "bad_worker",
        severity=F.when(F.col("score") < SCORE_BAD, "critical").otherwise("warning"),
        subject=F.concat_ws(" ", "worker", "service"),
        title=F.format_string("Worker %s does badly at %s: score %d", "worker", "service", "score"),
        evidence=F.format_string("%s (%d tasks in the last day)", "why", "tasks"),
        advice=F.format_string(
            "Look at %s and its machine; stop it until it is well. The others do its work.", "worker"
        ),
        last_seen=F.col("last_seen"),
    )


def _worst_hours(capacity: DataFrame) -> DataFrame:
    """Of each service and family the hour of the day that lacks most."""
    worst = F.max(F.struct("slots_missing", F.col("erlangs_peak"), F.col("hour_of_day"))).alias("worst")
    keys = ["service", "family"]
    short = capacity.where((F.col("slots_missing") > 0) & (F.col("wait_share") > 0.2))
    hours = short.groupBy(*keys).agg(worst).select(*keys, F.col("worst.hour_of_day").alias("hour_of_day"))
    return capacity.join(hours, on=[*keys, "hour_of_day"], how="inner")


def _too_few_slots(capacity: DataFrame, newest: DataFrame) -> DataFrame:
    rows = capacity.transform(_worst_hours).crossJoin(F.broadcast(newest)).where(F.col("newest").isNotNull())
    return _finding(
        rows,
        "too_few_slots",
        severity=F.when(F.col("erlangs_peak") >= F.col("slots"), "critical").otherwise("warning"),
        subject=F.concat_ws(" ", "service", "family"),
        title=F.format_string("%s needs %d more slots in family %s", "service", "slots_missing", "family"),
        evidence=F.format_string(
            "from %02d:00 UTC tasks ask for %.1f busy slots at the peak; %.1f are there, and %.0f %% of tasks wait",
            "hour_of_day", "erlangs_peak", "slots", F.col("wait_share") * 100,
        ),
        advice=F.format_string("Start workers until %s has %d slots at that time of day.", "service", "slots_needed"),
        last_seen=F.col("newest"),
    )  # fmt: skip


def _backlog_full(day: DataFrame, backlogs: DataFrame, capacity: DataFrame) -> DataFrame:
    """A longer backlog takes up a burst; where slots are short for good, it would only make everybody wait."""
    short = capacity.transform(_worst_hours).select("service", F.lit(True).alias("short")).distinct()
    rows = (
        day.where(_is_common("overloaded"))
        .join(backlogs, on="service", how="left")
        .join(short, on="service", how="left")
    )
    cure = F.col("short").isNull() & F.col("backlog_max").isNotNull()
    longer = F.least(F.lit(_BACKLOG_TASKS_MAX), F.greatest(F.col("backlog_max") * 2, F.lit(10)))
    return _finding(
        rows,
        "backlog_full",
        severity=F.lit("warning"),
        subject=F.col("service"),
        title=F.format_string("%s turns tasks away", "service"),
        evidence=F.format_string(
            "%d of %d tasks of the last day were rejected with overload; at most %s waited at one broker",
            "overloaded", "tasks", F.coalesce(F.col("backlog_max").cast("string"), F.lit("an unknown number")),
        ),
        advice=F.when(cure, F.lit("Let more tasks wait, so that a burst is taken up."))
        .otherwise(F.lit("Add slots: a longer backlog would not help where slots are short all the time.")),
        key=F.when(cure, F.concat(F.lit("service/"), F.col("service"))),
        value=F.when(cure, F.to_json(F.struct(longer.alias("backlog_tasks_max")))),
        last_seen=F.col("last_seen"),
    )  # fmt: skip


def _time_out_short(day: DataFrame) -> DataFrame:
    """If the answers do come, only late, the time-out is to blame and not the worker."""
    seconds = F.ceil(F.col("total_p999_ns") * 2 / 1e9)
    longer = F.least(F.lit(_TIMEOUT_MS_MAX).cast("long"), seconds * 1000)
    return _finding(
        day.where(_is_common("expired") & (F.col("late") * 2 >= F.col("expired")) & (F.col("total_p999_ns") > 0)),
        "time_out_short",
        severity=F.lit("warning"),
        subject=F.col("service"),
        title=F.format_string("The time-out of %s is too short", "service"),
        evidence=F.format_string(
            "%d of %d tasks of the last day ran out of time, and %d answers came after that", "expired", "tasks", "late"
        ),
        advice=F.lit("Give its tasks more time, or make them faster: work is done and thrown away."),
        key=F.concat(F.lit("service/"), F.col("service")),
        value=F.to_json(F.struct(longer.alias("timeout_ms"))),
        last_seen=F.col("last_seen"),
    )


def _no_worker(day: DataFrame) -> DataFrame:
    return _finding(
        day.where(_is_common("no_worker")),
        "no_worker",
        severity=F.lit("critical"),
        subject=F.col("service"),
        title=F.format_string("Nobody serves %s", "service"),
        evidence=F.format_string("%d of %d tasks of the last day found no worker", "no_worker", "tasks"),
        advice=F.format_string("Start workers of %s, or tell its clients that it is gone.", "service"),
        last_seen=F.col("last_seen"),
    )


# -- brokers and the config ---------------------------------------------------------------------------------------


def _broker_unstable(minutes: DataFrame) -> DataFrame:
    deaths = F.col("dispatcher_deaths")
    rows = (
        minutes.where(deaths > 0)
        .groupBy("broker")
        .agg(F.sum(deaths).alias("deaths"), F.max("minute").alias("last_seen"))
        .where(F.col("deaths") >= DEATHS_MIN)
    )
    return _finding(
        rows,
        "broker_unstable",
        severity=F.lit("critical"),
        subject=F.col("broker"),
        title=F.format_string("Broker %s keeps dying", "broker"),
        evidence=F.format_string("its dispatcher died %d times in the last day", "deaths"),
        advice=F.lit("Drain it, so that the others of its family take over, and look at its log and its machine."),
        key=F.concat(F.lit("broker_state/"), F.col("broker")),
        value=F.to_json(F.struct(F.lit("draining").alias("state"))),
        last_seen=F.col("last_seen"),
    )


def _slow_recovery(failovers: DataFrame) -> DataFrame:
    # That it was not normal in time can be said only of a time that the data cover.
    waited_s = F.coalesce("recovery_s", seconds_between(F.col("seen"), F.col("newest")))
    slow = (F.size("services") > 0) & (waited_s > RECOVERY_S)
    rows = (
        failovers.where(slow)
        .groupBy("kind", "lost")
        .agg(F.count("*").alias("times"), F.max("seen").alias("last_seen"), F.max("recovery_s").alias("longest"))
    )
    return _finding(
        rows,
        "slow_recovery",
        severity=F.lit("info"),
        subject=F.concat_ws(" ", "kind", "lost"),
        title=F.format_string("It took long to get over the loss of %s", "lost"),
        evidence=F.format_string(
            "%d losses in the last day after which its services were not normal within %d s", "times", F.lit(RECOVERY_S)
        ),
        advice=F.lit("See whether the others have slots enough for its services."),
        last_seen=F.col("last_seen"),
    )


def _conflicts(config_convergence: DataFrame) -> DataFrame:
    rows = (
        config_convergence.where(F.col("conflict_seen").isNotNull() & F.col("conflict_resolved").isNull())
        .groupBy("key")
        .agg(F.min("conflict_seen").alias("since"), F.max("conflict_seen").alias("last_seen"))
    )
    return _finding(
        rows,
        "config_conflict",
        severity=F.lit("warning"),
        subject=F.col("key"),
        title=F.format_string("Two admins changed %s at the same time", "key"),
        evidence=F.format_string("in conflict since %s UTC", F.date_format("since", "yyyy-MM-dd HH:mm:ss")),
        advice=F.format_string("Choose one: famulus config resolve %s", "key"),
        key=F.col("key"),
        last_seen=F.col("last_seen"),
    )


def _edits_missing(config_convergence: DataFrame) -> DataFrame:
    rows = (
        config_convergence.select(F.explode("missing").alias("broker"), "accepted")
        .groupBy("broker")
        .agg(F.count("*").alias("edits"), F.max("accepted").alias("last_seen"))
    )
    return _finding(
        rows,
        "edits_missing",
        severity=F.lit("warning"),
        subject=F.col("broker"),
        title=F.format_string("Broker %s has not all of the config", "broker"),
        evidence=F.format_string("%d edits have not come to it within a minute, or ever", "edits"),
        advice=F.lit("See whether the other brokers reach its peer port."),
        last_seen=F.col("last_seen"),
    )


def _edits_late(config_convergence: DataFrame, broker_minutes: DataFrame) -> DataFrame:
    """Only while a broker was up: one that was stopped, or joined since, could not have had it sooner."""
    arrival = F.explode("arrivals").alias("arrival")
    late = (
        config_convergence.select("edit", "key", "accepted", arrival)
        .select("edit", "key", "accepted", "arrival.*")
        .where(F.col("delay_ms") >= LATE_MINUTES * 60_000)
    )
    there = broker_minutes.select("broker", "minute")
    whole_minute = (F.col("minute") >= F.col("accepted")) & (
        F.col("minute") + F.expr("INTERVAL 1 MINUTE") <= F.col("at")
    )
    rows = (
        late.join(there, on="broker", how="inner")
        .where(whole_minute)
        .groupBy("broker", "edit", "key", "at", "delay_ms")
        .agg(F.count("*").alias("minutes"))
        .where(F.col("minutes") >= LATE_MINUTES)
        .groupBy("broker")
        .agg(
            F.count("*").alias("edits"),
            F.max(F.struct("delay_ms", "key")).alias("slowest"),
            F.max("at").alias("last_seen"),
        )
    )
    return _finding(
        rows,
        "edits_late",
        severity=F.lit("warning"),
        subject=F.col("broker"),
        title=F.format_string("Edits of the config came late to broker %s", "broker"),
        evidence=F.format_string(
            "%d edits of the last day took %d minutes or more, though it was up; that of %s took %d s",
            "edits", F.lit(LATE_MINUTES), "slowest.key", F.floor(F.col("slowest.delay_ms") / 1000),
        ),
        advice=F.lit("See whether the other brokers reach its peer port all the time: it worked with an old config."),
        last_seen=F.col("last_seen"),
    )  # fmt: skip


# -- the audit, and what is not as usual --------------------------------------------------------------------------


def _gaps(audit: DataFrame) -> DataFrame:
    rows = (
        audit.where(F.col("kind") == "gap")
        .groupBy("broker")
        .agg(F.count("*").alias("gaps"), F.sum("rows").alias("missing"), F.max("at").alias("last_seen"))
    )
    return _finding(
        rows,
        "journal_gaps",
        severity=F.lit("warning"),
        subject=F.col("broker"),
        title=F.format_string("The journal of %s has gaps", "broker"),
        evidence=F.format_string("%d rows are missing in %d places in the last week", "missing", "gaps"),
        advice=F.lit("See whether its disk is full or too slow; what is missing cannot be audited."),
        last_seen=F.col("last_seen"),
    )


def _crashes(audit: DataFrame) -> DataFrame:
    """Of which nobody can say what became of all their tasks."""
    rows = (
        audit.where((F.col("kind") == "crash_window") & (F.col("rows") + F.coalesce("untold", F.lit(0)) > 0))
        .groupBy("broker")
        .agg(
            F.count("*").alias("crashes"),
            F.sum("rows").alias("open"),
            F.sum(F.coalesce("untold", F.lit(0))).alias("untold"),
            F.max("at").alias("last_seen"),
        )
    )
    return _finding(
        rows,
        "crash_lost_tasks",
        severity=F.lit("warning"),
        subject=F.col("broker"),
        title=F.format_string("Crashes of %s took tasks along", "broker"),
        evidence=F.format_string(
            "%d times in the last week; %d tasks were open, and their outcomes are not known; up to about %d more "
            "may have ended without a row",
            "crashes", "open", "untold",
        ),
        advice=F.lit("See in its log why it died. What became of those tasks, only their clients know."),
        last_seen=F.col("last_seen"),
    )  # fmt: skip


def _unexplained(audit: DataFrame) -> DataFrame:
    first = F.min(F.struct("at", "broker", "message_id", "explanation"))
    rows = (
        audit.where(~F.col("explained"))
        .groupBy("kind")
        .agg(F.count("*").alias("times"), first.alias("first"), F.max("at").alias("last_seen"))
    )
    return _finding(
        rows,
        "audit",
        severity=F.lit("critical"),
        subject=F.col("kind"),
        title=F.format_string("%d rows of the audit are not explained: %s", "times", "kind"),
        evidence=F.format_string(
            "the first is task %s at %s: %s",
            F.coalesce(F.col("first.message_id"), F.lit("?")), F.col("first.broker"), F.col("first.explanation"),
        ),
        advice=F.lit("Look at these tasks in task_facts, and at the log of that broker. This should never happen."),
        last_seen=F.col("last_seen"),
    )  # fmt: skip


def _unusual(anomalies: DataFrame) -> DataFrame:
    worst = F.max(F.struct(F.abs("score").alias("far"), "minute", "value", "baseline"))
    rows = anomalies.groupBy("service", "measure", "direction").agg(
        F.count("*").alias("minutes"), worst.alias("worst"), F.max("minute").alias("last_seen")
    )
    return _finding(
        rows,
        "unusual",
        severity=F.when(F.col("minutes") >= 10, "warning").otherwise("info"),
        subject=F.concat_ws(" ", "service", "measure", "direction"),
        title=F.format_string("%s of %s was unusually %s", "measure", "service", "direction"),
        evidence=F.format_string(
            "in %d minutes of the last day; most at %s UTC: %s, where %s is usual",
            "minutes", F.date_format("worst.minute", "yyyy-MM-dd HH:mm"),
            F.round("worst.value", 3).cast("string"), F.round("worst.baseline", 3).cast("string"),
        ),
        advice=F.lit("See what else happened in those minutes: failovers, edits of the config, new clients."),
        last_seen=F.col("last_seen"),
    )  # fmt: skip


TABLE: Final = Table(
    "findings",
    Grain.WHOLE,
    (
        "service_hours", "service_loads", "worker_health", "broker_minutes", "failovers", "config_convergence", "audit",
        "capacity", "anomalies",
    ),
    findings,
)  # fmt: skip
