"""The tables that the pipeline makes, and their columns: one place for all who make, write, read and explain them.

Knows no Spark; `spark_types` makes Spark's schemas of it. Tables that are made anew by the hour begin with `date` and
`hour` (UTC), which are also the folders that they lie in. Durations are nanoseconds, or carry their unit in the name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from famulus.journal.schema import Kind


class More(Enum):
    """What a column can hold besides the kinds that the journal knows."""

    DOUBLE = "double"
    DATE = "date"
    #: An array of (bucket int, count long), sorted by bucket; `columns.bucket_of` says which value is in which.
    HISTOGRAM = "histogram"
    #: An array of names, sorted.
    TEXTS = "texts"
    #: An array of (broker text, at instant, delay_ms long), sorted by instant and broker.
    ARRIVALS = "arrivals"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind | More
    meaning: str
    nullable: bool = False


def _text(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, Kind.TEXT, meaning, nullable)


def _int(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, Kind.INT, meaning, nullable)


def _long(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, Kind.LONG, meaning, nullable)


def _double(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, More.DOUBLE, meaning, nullable)


def _bool(name: str, meaning: str) -> Column:
    return Column(name, Kind.BOOL, meaning)


def _instant(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, Kind.INSTANT, meaning, nullable)


#: Of each quantile that is kept: its name, and its share in parts per million, so that ranks are exact.
QUANTILES: Final = {"p50": 500_000, "p90": 900_000, "p99": 990_000, "p999": 999_000}


def _quantiles(of: str, meaning: str) -> tuple[Column, ...]:
    return tuple(
        _long(
            f"{of}_{name}_ns", f"what {share / 10_000:g} % of {meaning} do not exceed, to within 3.5 %", nullable=True
        )
        for name, share in QUANTILES.items()
    )


_HOUR: Final = (
    Column("date", More.DATE, "day of the row, UTC"),
    _int("hour", "hour of that day, 0 to 23"),
)

_COUNTS: Final = (
    _long("tasks", "tasks that ended; a task that was handed over counts at the broker that its client asked"),
    _long("ok", "of those, with the outcome OK"),
    _long("errors", "of those, ERROR"),
    _long("rejected", "of those, REJECTED"),
    _long("unknown", "of those, UNKNOWN"),
    _long("overloaded", "of the rejected, those with the reason overload"),
    _long("no_worker", "of the rejected, those with the reason no_worker or no_service"),
    _long("expired", "tasks that ended by their time-out, whatever the outcome"),
    _long("retries", "attempts after which another one followed"),
    _long("late", "answers that came after the outcome and were dropped"),
    _long("delegated_out", "attempts that this broker gave to another one"),
    _long("delegated_in", "tasks that ended here and came from another broker; not among `tasks`"),
    _long("runs", "attempts that a worker of this broker had, whoever was asked for them"),
    _long("request_bytes", "bytes of the bodies that came, of `tasks`"),
    _long("response_bytes", "bytes of the bodies that went back, of `tasks`"),
    _long("busy_ns", "slot time: the sum over `runs` from assignment to the end"),
)

_LATENCIES: Final = (
    Column("queue_hist", More.HISTOGRAM, "of `tasks`: nanoseconds from arrival to assignment"),
    Column("service_hist", More.HISTOGRAM, "of those that were assigned: nanoseconds from assignment to the end"),
    Column("total_hist", More.HISTOGRAM, "of `tasks`: nanoseconds from arrival to the end"),
    *_quantiles("queue", "the waits"),
    *_quantiles("service", "the service times"),
    *_quantiles("total", "the total times"),
)

TASK_FACTS: Final = (
    *_HOUR,
    _text("message_id", "id of the task"),
    _text("service", "name of the service"),
    _text("family", "family of the accountable broker"),
    _text("broker", "the accountable broker: the one that the client asked"),
    _text("outcome", "OK, ERROR, REJECTED or UNKNOWN; null: its broker died with it", nullable=True),
    _text("reason", "code of the reason, where the outcome has one", nullable=True),
    _text("worker", "the last worker that had it, at whichever broker", nullable=True),
    Column("brokers", More.TEXTS, "brokers that it passed"),
    _int("attempts", "how often it was given to a worker"),
    _int("late", "answers that came after the outcome"),
    _int("outcomes", "outcomes at accountable brokers: 1, save for what the audit shows"),
    _bool("at_most_once", "whether the service promises to run a task at most once"),
    _int("priority", "as the client gave it"),
    _instant("arrived", "when the accountable broker accepted it"),
    _instant("ended", "when it ended; of a swallowed one, when it was last seen open"),
    _long("queue_ns", "from arrival to assignment, at the accountable broker", nullable=True),
    _long("service_ns", "from assignment to the end", nullable=True),
    _long("total_ns", "from arrival to the end", nullable=True),
    _long("request_bytes", "size of the body that came", nullable=True),
    _long("response_bytes", "size of the body that went back", nullable=True),
)

SERVICE_MINUTES: Final = (
    *_HOUR,
    _instant("minute", "its begin"),
    _text("service", "name of the service"),
    _text("family", "family of the broker"),
    _text("broker", "identity of the broker"),
    *_COUNTS,
    *_LATENCIES,
)

SERVICE_HOURS: Final = (
    *_HOUR,
    _instant("at", "begin of the hour"),
    _text("service", "name of the service"),
    _text("family", "family of the brokers"),
    *_COUNTS,
    *_LATENCIES,
)

SERVICE_DAYS: Final = (
    Column("day", More.DATE, "UTC"),
    _text("service", "name of the service"),
    _text("family", "family of the brokers"),
    *_COUNTS,
    *_LATENCIES,
)

SERVICE_LOADS: Final = (
    *_HOUR,
    _text("service", "name of the service"),
    _text("family", "family of the broker"),
    _text("broker", "identity of the broker"),
    _long("samples", "seconds in which the load was noted"),
    _long("slots_sum", "slots, free and busy, summed over the samples"),
    _long("busy_sum", "busy slots, likewise"),
    _long("backlog_sum", "tasks in the backlog, likewise"),
    _int("slots_max", "the most slots in a sample"),
    _int("backlog_max", "the longest backlog in a sample"),
    _long("saturated_s", "samples with no slot free and tasks waiting"),
)

WORKER_HOURS: Final = (
    *_HOUR,
    _text("worker", "identity of the worker"),
    _text("service", "name of the service"),
    _text("family", "family of the broker"),
    _text("broker", "identity of the broker"),
    _long("tasks", "attempts that it had"),
    _long("ok", "of those, answered with OK"),
    _long("errors", "of those, answered with ERROR"),
    _long("unknown", "of those, ended as UNKNOWN"),
    _long("retries", "of those, given to another worker afterwards"),
    _long("late", "its answers that came too late"),
    _long("busy_ns", "slot time that it spent"),
    Column("service_hist", More.HISTOGRAM, "nanoseconds from assignment to the answer, of those that it answered"),
)

WORKER_HEALTH: Final = (
    _text("worker", "identity of the worker"),
    _text("service", "name of the service"),
    _text("family", "family of the brokers that it was with"),
    _instant("first_seen", "begin of the first hour of the last day of data in which it had tasks"),
    _instant("last_seen", "begin of the last one"),
    _long("tasks", "attempts that it had in that day"),
    _double("share", "of all attempts of the service, 0 to 1"),
    _long("errors", "tasks that it answered with ERROR"),
    _double("error_share", "of its tasks, 0 to 1"),
    _double("others_error_share", "of the tasks of the service's other workers", nullable=True),
    _long("unknown", "tasks that ended with it as UNKNOWN"),
    _long("late", "answers that came too late"),
    _long("lost_tasks", "tasks of any service that it had when it was lost"),
    _long("connects", "how often it connected"),
    _long("losses", "how often it was lost"),
    _long("error_listed", "how often it was put on a list of error workers"),
    _long("p50_ns", "median of its service time", nullable=True),
    _long("p99_ns", "99th percentile of it", nullable=True),
    _long("others_p50_ns", "median over all tasks of the service's other workers", nullable=True),
    _double("slowness", "its median over theirs", nullable=True),
    _int("score", "100: nothing to say against it; 0: it does more harm than good"),
    _text("why", "what the points were taken off for; empty if none were"),
)

BROKER_MINUTES: Final = (
    *_HOUR,
    _instant("minute", "its begin"),
    _text("broker", "identity of the broker"),
    _text("family", "its family"),
    _long("load_samples", "seconds in which the load was noted"),
    _double("slots", "mean of the slots; one that serves several services counts for each", nullable=True),
    _double("slots_busy", "mean of the busy ones", nullable=True),
    _double("busy_share", "busy over all slots, 0 to 1", nullable=True),
    _double("backlog", "mean of the waiting tasks", nullable=True),
    _long("backlog_max", "most tasks that waited at once", nullable=True),
    _long("saturated_s", "seconds in which a service had tasks waiting and no slot free"),
    _long("delegated", "tasks given to other brokers"),
    _long("peers_lost", "peers that it lost"),
    _long("process_deaths", "processes of it that died"),
    _long("dispatcher_deaths", "of those, dispatchers"),
    _long("overloads", "services that were overloaded for a part of the minute"),
    _long("gaps", "gaps that its journal owned up to"),
    _long("gap_rows", "rows that are missing there"),
)

LOST_ATTEMPTS: Final = (
    *_HOUR,
    _instant("minute", "its begin"),
    _text("broker", "the broker that had given the attempt away"),
    _text("family", "its family"),
    _text("lost_kind", "worker or broker"),
    _text("lost", "identity of the one that was lost"),
    _text("service", "name of the service"),
    _long("retries", "attempts after which another one followed"),
    _long("unknown", "tasks that ended as UNKNOWN"),
)

LOSSES: Final = (
    *_HOUR,
    _instant("at", "when it was seen"),
    _text("kind", "worker_lost, dispatcher_died or peer_lost"),
    _text("lost", "identity of the worker or broker"),
    _text("broker", "the broker that saw it"),
    _text("family", "its family"),
    Column("services", More.TEXTS, "of a worker: its services"),
    _long("tasks", "of a worker: tasks that it had"),
)

FAILOVERS: Final = (
    _text("id", "stable name of the loss"),
    _text("kind", "worker_lost, dispatcher_died or peer_lost"),
    _text("lost", "identity of the worker or broker"),
    _text("family", "family of the first one who saw it"),
    Column("seen_by", More.TEXTS, "brokers that saw it"),
    _instant("seen", "when the first of them did"),
    Column("services", More.TEXTS, "services that were hit"),
    _long("tasks_hit", "tasks that it had; of a dispatcher, those that nobody heard of again"),
    _long("retries", "attempts that were made again"),
    _long("unknown", "tasks that ended as UNKNOWN for it"),
    _instant("normal", "begin of the first minute in which those services were normal; null: not within half an hour, "
             "or before the journal ends", nullable=True),
    _double("recovery_s", "seconds until then, 0 if the minute of the loss was normal", nullable=True),
)  # fmt: skip

CONFIG_CONVERGENCE: Final = (
    _text("edit", "id of the edit"),
    _text("key", "what was edited"),
    _text("author", "who edited"),
    _text("accepted_by", "the broker that accepted it"),
    _instant("accepted", "when it did; of an edit from before the journal, when it was first applied"),
    Column("arrivals", More.ARRIVALS, "when each broker had it, by that broker's clock, and how long after that"),
    _int("brokers", "how many have it"),
    Column(
        "missing",
        More.TEXTS,
        "brokers that were there since the minute before it, or longer, and a minute after it, and do not have it",
    ),
    _long("span_ms", "until the last of them had it"),
    _instant("conflict_seen", "when a conflict of which it is a head was first seen", nullable=True),
    _instant("conflict_resolved", "when that was resolved", nullable=True),
    _text("resolved_by", "id of the edit that resolved it", nullable=True),
    _long("conflict_ms", "life of the conflict", nullable=True),
)

AUDIT: Final = (
    *_HOUR,
    _instant("at", "when it happened, or was last seen"),
    _text("kind", "what it is: see below"),
    _text("severity", "info, warning or error"),
    _bool("explained", "whether a death, a gap or a late answer accounts for it; the verdict is that all rows are"),
    _text("broker", "identity of the broker"),
    _text("boot", "life of its dispatcher"),
    _text("service", "name of the service", nullable=True),
    _text("worker", "identity of the worker", nullable=True),
    _text("message_id", "id of the task", nullable=True),
    _long("rows", "tasks, answers or missing rows that it is about"),
    _long("untold", "of crash_window: tasks that may have ended in it without a row, up to about", nullable=True),
    _text("explanation", "in words"),
)

CAPACITY: Final = (
    _text("service", "name of the service"),
    _text("family", "its family"),
    _int("hour_of_day", "UTC, 0 to 23"),
    _int("days", "days with data for it"),
    _long("runs", "attempts that workers had"),
    _double("rate", "attempts and overloaded tasks per second, mean over the days"),
    _double("service_s", "mean service time in seconds"),
    _double("erlangs", "offered load: busy slots that the tasks ask for, mean over the days"),
    _double("erlangs_peak", "the same on the day on which it was most"),
    _double("slots", "mean of the slots that were there; null: nobody noted them", nullable=True),
    _double("busy_share", "erlangs over slots", nullable=True),
    _double("wait_share", "share of tasks that have to wait, by Erlang C, with those slots at the peak", nullable=True),
    _int("slots_needed", "slots with which 95 % of tasks wait no longer than 100 ms at the peak, by Erlang C"),
    _int("slots_missing", "how many more than there are; 0 if enough", nullable=True),
)

ANOMALIES: Final = (
    _instant("minute", "its begin"),
    _text("service", "name of the service"),
    _text("measure", "rate (tasks per minute), error_share or p99_ns (of the total time, at the slowest broker)"),
    _text("direction", "high or low"),
    _double("value", "in this minute; of errors, in the stretch of minutes that it belongs to"),
    _double("baseline", "median over this hour of the day, of the last two weeks; of errors, their usual share"),
    _double("spread", "the usual distance from it: the median one, or a floor for what is small"),
    _double("score", "how many times that distance it is away"),
    _long("tasks", "tasks that ended in this minute"),
)

FINDINGS: Final = (
    _text("id", "stable: the same as long as the same is found about the same"),
    _int("rank", "1 is the most urgent"),
    _text("severity", "critical, warning or info"),
    _text("kind", "what was found"),
    _text("subject", "whom it is about"),
    _text("title", "in a few words"),
    _text("evidence", "figures that show it"),
    _text("advice", "what to do"),
    _text("key", "of the config edit that would do it", nullable=True),
    _text("value", "the fields of that key to change, as a JSON object; null: an admin has to choose", nullable=True),
    _instant("last_seen", "when the latest of the evidence happened"),
)

TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "task_facts": TASK_FACTS,
    "service_minutes": SERVICE_MINUTES,
    "service_hours": SERVICE_HOURS,
    "service_loads": SERVICE_LOADS,
    "worker_hours": WORKER_HOURS,
    "broker_minutes": BROKER_MINUTES,
    "lost_attempts": LOST_ATTEMPTS,
    "losses": LOSSES,
    "audit": AUDIT,
    "service_days": SERVICE_DAYS,
    "worker_health": WORKER_HEALTH,
    "failovers": FAILOVERS,
    "config_convergence": CONFIG_CONVERGENCE,
    "capacity": CAPACITY,
    "anomalies": ANOMALIES,
    "findings": FINDINGS,
}
