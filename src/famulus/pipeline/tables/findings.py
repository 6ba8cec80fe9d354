"""What an admin should do: each with its evidence and, where there is one, the edit of the config that would do it.

Their texts are in `findings.toml`. The rules look at the last day of data, the audit's at the last week. Values
of edits name only the fields to change: the journal does not know what else is under a key. A list is set as a whole,
so it is proposed only where nothing suggests that there is one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.columns import later, seconds_between, stable_id
from famulus.pipeline.tables.frames import newest
from famulus.pipeline.tables.memo import cached
from famulus.pipeline.tables.words import said

_TEXTS: Final = tomllib.loads((files(__package__) / "findings.toml").read_text("utf-8"))
_SEVERITIES: Final = ("critical", "warning", "info")
DAY_H: Final = 24
WEEK_H: Final = 24 * 7
#: No rule looks further back than that from the end of the data, which no table is beyond.
LAST_DAYS: Final = {"service_hours": 1, "service_loads": 1, "broker_minutes": 1, "refusals": 1, "audit": 7}
#: Workers below the first score are worth mentioning, below the second one they are urgent.
SCORE_LOW: Final = 60
SCORE_BAD: Final = 30
#: One in this many tasks is too many.
ONE_IN: Final = 100
DEATHS_MIN: Final = 3
RECOVERY_S: Final = 300
#: An edit that takes this many minutes to reach a broker is late.
LATE_MINUTES: Final = 2
#: Somebody who is refused this often in a day does not stop trying.
REFUSED_MIN: Final = 100
#: For how long before its keys expire a principal is mentioned.
EXPIRES_DAYS: Final = 14
SLOW_MINUTES_MIN: Final = 2
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
    refusals: DataFrame,
    config_events: DataFrame,
    objectives: DataFrame,
) -> DataFrame:
    end = F.greatest(newest(service_hours, "at"), newest(broker_minutes, "minute"))
    hours = service_hours.transform(_since, end, "at", DAY_H)
    day = cached(hours.transform(_services))
    loads = cached(service_loads.transform(_loads, end))
    helpers = cached(_helpers(loads, hours))
    found = [
        _bad_workers(worker_health),
        _too_few_slots(capacity, helpers, end),
        _backlog_full(day, loads, capacity, helpers),
        _time_out_short(day),
        _no_worker(day),
        _broker_unstable(broker_minutes.transform(_since, end, "minute", DAY_H)),
        _slow_recovery(failovers.transform(_since, end, "seen", DAY_H), end),
        _conflicts(config_convergence),
        _edits_missing(config_convergence),
        _edits_late(config_convergence.transform(_since, end, "accepted", DAY_H), broker_minutes),
        _gaps(audit.transform(_since, end, "at", WEEK_H)),
        _crashes(audit.transform(_since, end, "at", WEEK_H)),
        _unexplained(audit.transform(_since, end, "at", WEEK_H)),
        _unusual(anomalies.transform(_since, end, "minute", DAY_H)),
        _refused_often(refusals.transform(_since, end, "last", DAY_H)),
        _keys_expire(config_events, end),
        *_budgets(objectives, end),
    ]
    return union_all(found).transform(_ranked)


def _ranked(rows: DataFrame) -> DataFrame:
    urgency = F.array_position(F.lit(list(_SEVERITIES)), F.col("severity"))
    # Over all rows at once: there are only as many as an admin can read.
    order = Window.partitionBy(F.lit(0)).orderBy(urgency, "kind", "subject")
    return rows.withColumn("id", stable_id("kind", "subject")).withColumn("rank", F.row_number().over(order))


def _finding(
    kind: str,
    rows: DataFrame,
    *,
    severity: Column | None = None,
    key: Column | None = None,
    value: Column | None = None,
    last_seen: str = "last_seen",
    **columns: Column,
) -> DataFrame:
    """Its texts are made from the rows and from these columns."""
    texts = _TEXTS[kind]
    found = {
        "severity": F.lit(texts.get("severity")) if severity is None else severity,
        "kind": F.lit(kind),
        **{name: said(texts[name], **columns) for name in ("subject", "title", "evidence", "advice")},
        "key": F.lit(key).cast("string"),
        "value": F.lit(value).cast("string"),
        "last_seen": F.col(last_seen),
    }
    return rows.select(*[column.alias(name) for name, column in found.items()])


# -- what the rules look at ---------------------------------------------------------------------------------------


def _since(rows: DataFrame, end: Column, column: str, hours: int) -> DataFrame:
    return rows.where(F.col(column) > end - F.make_dt_interval(hours=F.lit(hours)))


def _services(hours: DataFrame) -> DataFrame:
    names = ("tasks", "overloaded", "no_worker", "expired", "late")
    of_family = hours.groupBy("service", "family").agg(
        *[F.sum(name).alias(name) for name in names],
        F.max("total_p999_ns").alias("total_p999_ns"),
        F.max("at").alias("last_seen"),
    )
    return of_family.groupBy("service").agg(
        # The one that turned the most away.
        F.max(F.struct("overloaded", "family"))["family"].alias("family"),
        *[F.sum(name).alias(name) for name in names],
        F.max("total_p999_ns").alias("total_p999_ns"),
        F.max("last_seen").alias("last_seen"),
    )


def _loads(service_loads: DataFrame, end: Column) -> DataFrame:
    """By service and family."""
    at = F.to_timestamp(F.col("date")) + F.make_dt_interval(hours=F.col("hour"))
    # Without a sample, all that is known there is an objective.
    recent = service_loads.where("samples > 0").withColumn("at", at).transform(_since, end, "at", DAY_H)
    sums = [F.sum(name).alias(name) for name in ("slots_sum", "busy_sum", "saturated_s")]
    return recent.groupBy("service", "family").agg(F.max("backlog_max").alias("backlog_max"), *sums)


def _helpers(loads: DataFrame, hours: DataFrame) -> DataFrame:
    """For a service and a family, another family that has workers for it with little to do.

    There is none for a family whose brokers hand over tasks: it may have fallback families already, in an order that
    nobody here knows.
    """
    idle = loads.where("saturated_s = 0 AND slots_sum > 0 AND busy_sum * 2 <= slots_sum")
    others = idle.select("service", F.col("family").alias("helper"), F.expr("slots_sum - busy_sum").alias("free"))
    giving = hours.groupBy("family").agg(F.sum("delegated_out").alias("given")).where("given > 0").select("family")
    return (
        loads.select("service", "family")
        .join(others, on="service", how="inner")
        .where("family <> helper")
        .groupBy("service", "family")
        .agg(F.max(F.struct("free", "helper"))["helper"].alias("helper"))
        .join(giving, on="family", how="left_anti")
    )


def _help() -> dict[str, Column]:
    """The edit by which the family gets that help, where there is a `helper`."""
    fields = F.to_json(F.struct(F.array("helper").alias("fallback_families")))
    there = F.col("helper").isNotNull()
    return {"key": F.when(there, said("family/{family}")), "value": F.when(there, fields)}


def _each(rows: DataFrame, keys: Sequence[str], at: str, **more: Column) -> DataFrame:
    """One row for each group: how many `times` it was seen, when it was last seen, and more."""
    found = {"times": F.count("*"), "last_seen": F.max(at)} | more
    return rows.groupBy(*keys).agg(*[column.alias(name) for name, column in found.items()])


def _is_common(column: str) -> Column:
    return (F.col(column) > 0) & (F.col(column) * ONE_IN >= F.col("tasks"))


# -- workers and services -----------------------------------------------------------------------------------------


def _bad_workers(worker_health: DataFrame) -> DataFrame:
    """It is drained if that leaves enough to do its work: of no service more sick workers than others."""
    is_bad = F.col("score") < SCORE_LOW
    of_worker, of_service = Window.partitionBy("worker"), Window.partitionBy("service", "family")
    is_sick = F.max(is_bad).over(of_worker)
    rows = (
        worker_health.withColumn("sick", is_sick)
        .withColumn("others", F.count_if(~F.col("sick")).over(of_service) - F.count_if("sick").over(of_service))
        .withColumn("fewest", F.min("others").over(of_worker))
        .where(is_bad)
    )
    can_go = F.col("fewest") >= 0
    wanted = F.to_json(F.struct("family", F.lit("drained").alias("state")))
    well = "Drain it: it answers what it has, and the others do its work. Then look at its machine; when it is well,"
    return _finding(
        "bad_worker",
        rows,
        severity=F.when(F.col("score") < SCORE_BAD, "critical").otherwise("warning"),
        key=F.when(can_go, said("worker/{worker}")),
        value=F.when(can_go, wanted),
        cure=F.when(can_go, said(well + " take it back: famulus config unset worker/{worker}")).otherwise(
            said("Look at {worker} and its machine. Without it there would be too few: start others first.")
        ),
    )


def _worst_hours(capacity: DataFrame) -> DataFrame:
    """For each service and family, the hour of the day that lacks the most slots."""
    worst = F.max(F.struct("slots_missing", F.col("erlangs_peak"), F.col("hour_of_day"))).alias("worst")
    keys = ["service", "family"]
    short = capacity.where((F.col("slots_missing") > 0) & (F.col("wait_share") > 0.2))
    hours = short.groupBy(*keys).agg(worst).select(*keys, F.col("worst.hour_of_day").alias("hour_of_day"))
    return capacity.join(hours, on=[*keys, "hour_of_day"], how="inner")


def _too_few_slots(capacity: DataFrame, helpers: DataFrame, end: Column) -> DataFrame:
    rows = (
        capacity.transform(_worst_hours)
        .withColumn("newest", end)
        .where("newest IS NOT NULL")
        .join(helpers, on=["service", "family"], how="left")
    )
    more = "Start workers until {service} has {slots_needed:# slot|# slots} at that time of day."
    borrow = "Let family {helper} help, most of whose slots for it are free; or start workers, which no edit can do."
    return _finding(
        "too_few_slots",
        rows,
        severity=F.when(F.col("erlangs_peak") >= F.col("slots"), "critical").otherwise("warning"),
        last_seen="newest",
        hour=F.format_string("%02d", "hour_of_day"),
        wait=F.col("wait_share") * 100,
        cure=F.when(F.col("helper").isNotNull(), said(borrow)).otherwise(said(more)),
        **_help(),
    )


def _backlog_full(day: DataFrame, loads: DataFrame, capacity: DataFrame, helpers: DataFrame) -> DataFrame:
    """Another family may have slots that are free. If not, a longer backlog takes up a burst; where slots are always
    short, it would only make everybody wait.
    """
    short = capacity.transform(_worst_hours).select("service", F.lit(True).alias("short")).distinct()
    rows = (
        day.where(_is_common("overloaded"))
        .join(loads.groupBy("service").agg(F.max("backlog_max").alias("backlog_max")), on="service", how="left")
        .join(short, on="service", how="left")
        .join(helpers, on=["service", "family"], how="left")
    )
    is_cure = F.col("short").isNull() & F.col("backlog_max").isNotNull()
    longer = F.least(F.lit(_BACKLOG_TASKS_MAX), F.greatest(F.col("backlog_max") * 2, F.lit(10)))
    help_of = _help()
    return _finding(
        "backlog_full",
        rows,
        key=F.coalesce(help_of["key"], F.when(is_cure, said("service/{service}"))),
        value=F.coalesce(help_of["value"], F.when(is_cure, F.to_json(F.struct(longer.alias("backlog_tasks_max"))))),
        most=F.coalesce(F.col("backlog_max").cast("string"), F.lit("an unknown number")),
        cure=F.when(F.col("helper").isNotNull(), said("Let family {helper} help: most of its slots for it are free."))
        .when(is_cure, "Let more tasks wait, so that a burst is taken up.")
        .otherwise("Add slots: a longer backlog would not help where slots are short all the time."),
    )


def _time_out_short(day: DataFrame) -> DataFrame:
    """If the answers do come, but late, the time-out is to blame and not the worker."""
    seconds = F.ceil(F.col("total_p999_ns") * 2 / 1e9)
    longer = F.least(F.lit(_TIMEOUT_MS_MAX).cast("long"), seconds * 1000)
    rows = day.where(_is_common("expired") & (F.col("late") * 2 >= F.col("expired")) & (F.col("total_p999_ns") > 0))
    value = F.to_json(F.struct(longer.alias("timeout_ms")))
    return _finding("time_out_short", rows, key=said("service/{service}"), value=value)


def _no_worker(day: DataFrame) -> DataFrame:
    return _finding("no_worker", day.where(_is_common("no_worker")))


def _budgets(objectives: DataFrame, end: Column) -> list[DataFrame]:
    """What burns too fast in the last day, and what is used up by now."""
    hour = F.struct("burn_rate", "at", "bad", "tasks")
    is_hot = (F.col("fast_minutes") > 0) | (F.col("slow_minutes") > 0)
    recent = objectives.transform(_since, end, "at", DAY_H).where(is_hot)
    fast = F.sum("fast_minutes")
    burning = _each(recent, ["service", "share"], "at", worst=F.max(hour), fast=fast, slow=F.sum("slow_minutes"))
    so_far = F.struct("at", "burnt", "within_ms", "days").alias("now")
    sums = _each(objectives, ["service"], "at", now=F.max(so_far), tasks=F.sum("tasks"), bad=F.sum("bad"))
    within = F.when(F.col("now.within_ms").isNotNull(), said(" within {now.within_ms} ms")).otherwise("")
    return [
        _finding(
            "budget_burning",
            burning,
            severity=F.when(F.col("fast") > 0, "critical").otherwise("warning"),
            minutes=F.greatest("fast", "slow"),
            hour=F.date_format("worst.at", "yyyy-MM-dd HH:mm"),
        ),
        _finding("budget_used_up", sums.where(F.col("now.burnt") >= 1), within=within, times=F.col("now.burnt")),
    ]


# -- brokers and the config ---------------------------------------------------------------------------------------


def _broker_unstable(minutes: DataFrame) -> DataFrame:
    died = _each(minutes.where("dispatcher_deaths > 0"), ["broker"], "minute", deaths=F.sum("dispatcher_deaths"))
    rows = died.where(F.col("deaths") >= DEATHS_MIN)
    value = F.to_json(F.struct(F.lit("draining").alias("state")))
    return _finding("broker_unstable", rows, key=said("broker_state/{broker}"), value=value)


def _slow_recovery(failovers: DataFrame, end: Column) -> DataFrame:
    # That it was not normal in time can only be said if the data cover that time.
    waited_s = F.coalesce("recovery_s", seconds_between("seen", end))
    slow = failovers.where((F.size("services") > 0) & (waited_s > RECOVERY_S))
    return _finding("slow_recovery", _each(slow, ["kind", "lost"], "seen"), limit_s=F.lit(RECOVERY_S))


def _conflicts(config_convergence: DataFrame) -> DataFrame:
    unresolved = config_convergence.where("conflict_seen IS NOT NULL AND conflict_resolved IS NULL")
    rows = _each(unresolved, ["key"], "conflict_seen", first=F.min("conflict_seen"))
    since = F.date_format("first", "yyyy-MM-dd HH:mm:ss")
    return _finding("config_conflict", rows, key=F.col("key"), since=since)


def _edits_missing(config_convergence: DataFrame) -> DataFrame:
    missing = config_convergence.select(F.explode("missing").alias("broker"), "accepted")
    return _finding("edits_missing", _each(missing, ["broker"], "accepted"))


def _edits_late(config_convergence: DataFrame, broker_minutes: DataFrame) -> DataFrame:
    """Only while a broker was up: one that was stopped, or joined since, could not have had it sooner."""
    arrival = F.explode("arrivals").alias("arrival")
    late = (
        config_convergence.select("edit", "key", "accepted", arrival)
        .select("edit", "key", "accepted", "arrival.*")
        .where(F.col("delay_ms") >= LATE_MINUTES * 60_000)
    )
    there = broker_minutes.select("broker", "minute")
    whole_minute = (F.col("minute") >= F.col("accepted")) & (later("minute", 1) <= F.col("at"))
    late_there = (
        late.join(there, on="broker", how="inner")
        .where(whole_minute)
        .groupBy("broker", "edit", "key", "at", "delay_ms")
        .agg(F.count("*").alias("minutes"))
        .where(F.col("minutes") >= LATE_MINUTES)
    )
    rows = _each(late_there, ["broker"], "at", slowest=F.max(F.struct("delay_ms", "key")))
    slowest_s = F.floor(F.col("slowest.delay_ms") / 1000)
    return _finding("edits_late", rows, limit=F.lit(LATE_MINUTES), slowest_s=slowest_s)


# -- who may do what ----------------------------------------------------------------------------------------------


def _refused_often(refusals: DataFrame) -> DataFrame:
    """Somebody of whom nothing is known, not even an address, is nobody whom an admin could look for."""
    who = F.coalesce("principal", "key", F.when(F.col("address") != "*", F.col("address")))
    most = F.max(F.struct("times", "broker", "port", "wanted", F.coalesce("service", F.lit("")).alias("service")))
    rows = (
        refusals.withColumns({"who": who, "is_known": F.col("principal").isNotNull()})
        .where(F.col("who").isNotNull())
        .transform(_each, ["who", "why"], "last", times=F.sum("times"), is_known=F.max("is_known"), most=most)
        .where(F.col("times") >= REFUSED_MIN)
    )
    has_right = (F.col("why") == "not_allowed") & F.col("most.wanted").isin("call", "serve") & F.col("is_known")
    allow = "If it should, allow it: famulus pass rights {who} --{most.wanted} {most.service}. If not, ask whose it is."
    return _finding(
        "refused_often",
        rows,
        severity=F.when(F.col("why") == "overload", "info").otherwise("warning"),
        cure=F.when(F.col("why") == "overload", "It sends more than it may: raise its limits, or slow it down.")
        .when(has_right & (F.col("most.service") != ""), said(allow))
        .otherwise("If it belongs here, give it a pass that is valid. If not, keep it away from that port."),
        wish=F.trim(F.concat_ws(" ", "most.wanted", "most.service")),
    )


def _keys_expire(config_events: DataFrame, end: Column) -> DataFrame:
    """The last edit of a principal counts. One that has just expired is mentioned as well: now it is missed."""
    newest_edit = F.max(F.struct("edited", "edit", "expires"))
    edits = config_events.where(
        F.col("key").startswith("principal/") & F.col("event").isin("accepted", "applied", "expires")
    )
    days = F.make_dt_interval(days=F.lit(EXPIRES_DAYS))
    rows = (
        _each(edits, ["key"], "at", newest=newest_edit)
        .withColumn("expires", F.col("newest.expires"))
        .transform(_since, end, "expires", DAY_H)
        .where(F.col("expires") <= end + days)
    )
    return _finding(
        "keys_expire",
        rows,
        severity=F.when(F.col("expires") <= end, "critical").otherwise("warning"),
        key=F.col("key"),
        principal=F.substring_index("key", "/", -1),
        day=F.date_format("expires", "yyyy-MM-dd"),
        instant=F.date_format("expires", "yyyy-MM-dd HH:mm:ss"),
    )


# -- the audit, and what is not as usual --------------------------------------------------------------------------


def _gaps(audit: DataFrame) -> DataFrame:
    rows = _each(audit.where(F.col("kind") == "gap"), ["broker"], "at", missing=F.sum("rows"))
    return _finding("journal_gaps", rows)


def _crashes(audit: DataFrame) -> DataFrame:
    """Crashes of which nobody can say what became of all their tasks."""
    untold = F.coalesce("untold", F.lit(0))
    crashes = audit.where((F.col("kind") == "crash_window") & (F.col("rows") + untold > 0))
    rows = _each(crashes, ["broker"], "at", open=F.sum("rows"), untold=F.sum(untold))
    return _finding("crash_lost_tasks", rows)


def _unexplained(audit: DataFrame) -> DataFrame:
    first = F.min(F.struct("at", "broker", "message_id", "explanation"))
    rows = _each(audit.where(~F.col("explained")), ["kind"], "at", first=first)
    return _finding("audit", rows, task=F.coalesce(F.col("first.message_id"), F.lit("?")))


def _unusual(anomalies: DataFrame) -> DataFrame:
    """Of one minute with twenty tasks, a percentile is that of a single task: one slow minute says nothing."""
    worst = F.max(F.struct(F.abs("score").alias("far"), "minute", "value", "baseline"))
    rows = _each(anomalies, ["service", "measure", "direction"], "minute", worst=worst)
    return _finding(
        "unusual",
        rows.where((F.col("measure") != "p99_ns") | (F.col("times") >= SLOW_MINUTES_MIN)),
        severity=F.when(F.col("times") >= 10, "warning").otherwise("info"),
        minute=F.date_format("worst.minute", "yyyy-MM-dd HH:mm"),
        found=F.round("worst.value", 3),
        usual=F.round("worst.baseline", 3),
    )
