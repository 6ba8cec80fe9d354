"""The tables by the hour in SQL, as a reader of docs/journal.md and docs/tables.md would write them for DuckDB.

Shares no code with the pipeline, and wants none: where both agree, neither has made its mistakes twice.
"""

from __future__ import annotations

from typing import Final

#: Views over the journal's tables, and words that several tables use.
WORDS: Final = """
CREATE MACRO hour_number(instant) AS epoch_us(instant) // 3600000000;
CREATE MACRO bucket(ns) AS CAST(floor(16 * ln(greatest(ns, 0) + 1)) AS INTEGER);
CREATE MACRO middle(bucket) AS CAST(round(exp((bucket + 0.5) / 16) - 1) AS BIGINT);
CREATE VIEW rows AS
SELECT *,
    outcome IN ('OK', 'ERROR', 'REJECTED', 'UNKNOWN') AS ends,
    ends AND delegated_from IS NULL AS counts,
    worker IS NOT NULL AND assigned IS NOT NULL AND outcome <> 'LATE' AS runs,
    CAST(ended AS DATE) AS date,
    CAST(hour(ended) AS INTEGER) AS hour,
    date_trunc('minute', ended) AS minute,
    date_trunc('hour', ended) AS begin
FROM tasks;
CREATE VIEW told AS SELECT DISTINCT * FROM rows;
CREATE VIEW durations AS
SELECT * FROM (
    SELECT *, 'queue' AS what, bucket(queue_ns) AS bucket FROM rows WHERE counts AND queue_ns IS NOT NULL
    UNION ALL
    SELECT *, 'service' AS what, bucket(service_ns) AS bucket FROM rows WHERE counts AND service_ns IS NOT NULL
    UNION ALL
    SELECT *, 'total' AS what, bucket(total_ns) AS bucket FROM rows WHERE counts AND total_ns IS NOT NULL
    UNION ALL
    SELECT *, 'not_ok' AS what, bucket(total_ns) AS bucket
    FROM rows WHERE counts AND outcome <> 'OK' AND total_ns IS NOT NULL
);
"""

_COUNTS: Final = """
    count(*) FILTER (counts) AS tasks,
    count(*) FILTER (counts AND outcome = 'OK') AS ok,
    count(*) FILTER (counts AND outcome = 'ERROR') AS errors,
    count(*) FILTER (counts AND outcome = 'REJECTED') AS rejected,
    count(*) FILTER (counts AND outcome = 'UNKNOWN') AS unknown,
    count(*) FILTER (counts AND outcome = 'REJECTED' AND reason = 'overload') AS overloaded,
    count(*) FILTER (counts AND outcome = 'REJECTED' AND reason IN ('no_worker', 'no_service')) AS no_worker,
    count(*) FILTER (counts AND reason = 'expired') AS expired,
    count(*) FILTER (outcome = 'RETRY') AS retries,
    count(*) FILTER (outcome = 'LATE') AS late,
    count(*) FILTER (outcome <> 'LATE' AND delegated_to IS NOT NULL) AS delegated_out,
    count(*) FILTER (ends AND delegated_from IS NOT NULL) AS delegated_in,
    count(*) FILTER (runs) AS runs,
    coalesce(sum(request_bytes) FILTER (counts), 0)::BIGINT AS request_bytes,
    coalesce(sum(response_bytes) FILTER (counts), 0)::BIGINT AS response_bytes,
    coalesce(sum(service_ns) FILTER (runs), 0)::BIGINT AS busy_ns
"""


def _latencies(keys: str) -> str:
    """Histograms, and what so many of a thousand do not exceed: the middle of the first bucket up to which they are."""
    named = [(what, name, share) for what in ("queue", "service", "total")
             for name, share in (("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999))]  # fmt: skip
    quantiles = ",\n".join(
        f"middle(min(bucket) FILTER (what = '{what}' AND so_far * 1000 >= everything * {share})) AS {what}_{name}_ns"
        for what, name, share in named
    )
    histograms = ",\n".join(
        f"coalesce(list({{'bucket': bucket, 'count': n}} ORDER BY bucket) FILTER (what = '{what}'), []) AS {what}_hist"
        for what in ("queue", "service", "total", "not_ok")
    )
    return f"""
    SELECT {keys}, {histograms}, {quantiles}
    FROM (
        SELECT *,
            sum(n) OVER (PARTITION BY {keys}, what ORDER BY bucket) AS so_far,
            sum(n) OVER (PARTITION BY {keys}, what) AS everything
        FROM (SELECT {keys}, what, bucket, count(*) AS n FROM durations GROUP BY ALL)
    )
    GROUP BY {keys}
    """


def figures(keys: str) -> str:
    """What is counted of a service, over whatever these keys say."""
    filled = ", ".join(f"coalesce({what}_hist, []) AS {what}_hist" for what in ("queue", "service", "total", "not_ok"))
    return f"""
    SELECT * REPLACE ({filled})
    FROM (SELECT {keys}, {_COUNTS} FROM rows GROUP BY {keys})
    LEFT JOIN ({_latencies(keys)}) USING ({keys})
    """


#: Tasks that were open, or to be tried again, and have no outcome, with what came of their broker: for `task_facts` and
#: `audit`.
OPEN: Final = """
CREATE TABLE ends AS
SELECT broker, boot, "at", false AS hearsay,
    CASE WHEN event = 'process_died' THEN 'died' WHEN event = 'stop' THEN 'stopped' ELSE 'restarted' END AS kind
FROM brokers
WHERE event IN ('stop', 'start') OR (event = 'process_died' AND process = 'dispatcher')
UNION ALL
SELECT peer, NULL, "at", true, 'lost' FROM peers WHERE event = 'lost';

CREATE TABLE signs AS
SELECT broker, boot, "at" FROM brokers UNION ALL SELECT broker, boot, ended FROM tasks;

CREATE TABLE left_open AS
WITH open AS (
    SELECT broker, boot, family, "at", ticket, message_id, attempt, service, worker, at_most_once, priority, arrived,
        'no_outcome' AS kind
    FROM open_tasks WHERE delegated_from IS NULL
    UNION ALL
    SELECT broker, boot, family, ended, ticket, message_id, attempt, service, worker, at_most_once, priority, arrived,
        'retry_without_end'
    FROM told WHERE outcome = 'RETRY' AND delegated_from IS NULL
), seen AS (
    SELECT *, lead(hour_number("at")) OVER (PARTITION BY message_id ORDER BY "at", broker, boot, ticket) AS next_hour
    FROM open
), last AS (
    SELECT * FROM seen
    WHERE coalesce(next_hour > hour_number("at") + 1, true) AND NOT EXISTS (
        FROM rows
        WHERE rows.message_id = seen.message_id AND counts AND abs(hour_number(ended) - hour_number("at")) <= 1
    )
)
SELECT *,
    coalesce(end_kind <> 'lost' OR alive_at IS NULL OR alive_at <= end_at, false) AS is_gone,
    CASE
        WHEN (epoch_us(alive_at) - epoch_us("at")) / 1e6 > greatest(120, coalesce(longest_ns, 0) * 2 / 1e9)
            THEN 'overdue'
        WHEN is_gone THEN end_kind
    END AS fate
FROM (
    SELECT last.*, fate.kind AS end_kind, fate.since AS end_at,
        (SELECT max(signs."at") FROM signs
         WHERE signs.broker = last.broker AND signs.boot = last.boot
           AND abs(hour_number(signs."at") - hour_number(last."at")) <= 1) AS alive_at,
        (SELECT max(total_ns) FROM rows
         WHERE rows.service = last.service AND rows.ends
           AND abs(hour_number(ended) - hour_number(last."at")) <= 1) AS longest_ns
    FROM last LEFT JOIN LATERAL (
        SELECT kind, ends."at" AS since FROM ends
        WHERE ends.broker = last.broker AND ends."at" >= last."at"
          AND abs(hour_number(ends."at") - hour_number(last."at")) <= 1
          AND (kind <> 'restarted' OR ends.boot <> last.boot)
        ORDER BY hearsay, ends."at", kind LIMIT 1
    ) AS fate ON true
);
"""

TASK_FACTS: Final = """
WITH settled AS (
    SELECT * EXCLUDE (worker), hour_number(ended) AS h,
        max(counts) OVER (PARTITION BY message_id ORDER BY hour_number(ended) RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)
            AS accounted
    FROM told
), firsts AS (
    SELECT *, (
        SELECT (min((other.ended, other.broker, other.boot, other.ticket))) FROM told AS other
        WHERE other.message_id = settled.message_id AND hour_number(other.ended) IN (h - 1, h)
          AND other.ends AND other.counts = settled.counts
    ) AS first
    FROM settled WHERE ends AND (counts OR NOT accounted)
), chosen AS (
    SELECT * FROM firsts WHERE (ended, broker, boot, ticket) = first
)
SELECT chosen.date, chosen.hour, message_id, chosen.service, chosen.family, chosen.broker, chosen.outcome,
    chosen.reason, last_worker AS worker, brokers, attempts, late, outcomes, chosen.at_most_once, chosen.priority,
    chosen.arrived, chosen.ended, chosen.queue_ns, chosen.service_ns, chosen.total_ns, chosen.request_bytes,
    chosen.response_bytes
FROM chosen, LATERAL (
    SELECT
        list_sort(list_distinct(list(near.broker))) AS brokers,
        max_by(near.worker, (near.assigned, near.broker, near.boot, near.ticket)) FILTER (near.runs) AS last_worker,
        CAST(count(*) FILTER (near.runs) AS INTEGER) AS attempts,
        CAST(count(*) FILTER (near.outcome = 'LATE') AS INTEGER) AS late,
        CAST(count(*) FILTER (near.counts) AS INTEGER) AS outcomes
    FROM told AS near
    WHERE near.message_id = chosen.message_id AND abs(hour_number(near.ended) - chosen.h) <= 1
)
UNION ALL
SELECT CAST("at" AS DATE), hour("at"), message_id, service, family, broker, NULL, NULL, worker, [broker], attempt, 0, 0,
    at_most_once, priority, arrived, "at", NULL, NULL, NULL, NULL, NULL
FROM left_open WHERE is_gone
"""

SERVICE_MINUTES: Final = figures("date, hour, minute, service, family, broker")

SERVICE_HOURS: Final = f"""
SELECT * RENAME (begin AS "at") FROM ({figures("date, hour, begin, service, family")})
"""

SERVICE_LOADS: Final = """
SELECT CAST("at" AS DATE) AS date, CAST(hour("at") AS INTEGER) AS hour, service, family, broker,
    count(*) FILTER (event = 'load') AS samples,
    CAST(sum(coalesce(slots_free, 0) + coalesce(slots_busy, 0)) AS BIGINT) AS slots_sum,
    CAST(sum(coalesce(slots_busy, 0)) AS BIGINT) AS busy_sum,
    CAST(sum(coalesce(backlog, 0)) AS BIGINT) AS backlog_sum,
    max(coalesce(slots_free, 0) + coalesce(slots_busy, 0)) AS slots_max,
    max(coalesce(backlog, 0)) AS backlog_max,
    count(*) FILTER (coalesce(slots_free, 0) = 0 AND backlog > 0) AS saturated_s,
    max_by(detail, ("at", detail)) FILTER (event = 'objective') AS objective,
    max("at") FILTER (event = 'objective') AS objective_told
FROM brokers WHERE event IN ('load', 'objective') AND service IS NOT NULL
GROUP BY ALL
"""

WORKER_HOURS: Final = """
WITH answered AS (
    SELECT date, hour, worker, service, family, broker, bucket(service_ns) AS bucket, count(*) AS n
    FROM rows WHERE runs AND outcome IN ('OK', 'ERROR') AND service_ns IS NOT NULL
    GROUP BY ALL
), histograms AS (
    SELECT date, hour, worker, service, family, broker,
        list({'bucket': bucket, 'count': n} ORDER BY bucket) AS service_hist
    FROM answered GROUP BY ALL
), counted AS (
    SELECT date, hour, worker, service, family, broker,
        count(*) FILTER (runs) AS tasks,
        count(*) FILTER (runs AND outcome = 'OK') AS ok,
        count(*) FILTER (runs AND outcome = 'ERROR') AS errors,
        count(*) FILTER (runs AND outcome = 'UNKNOWN') AS unknown,
        count(*) FILTER (runs AND outcome = 'RETRY') AS retries,
        count(*) FILTER (outcome = 'LATE') AS late,
        CAST(coalesce(sum(service_ns) FILTER (runs), 0) AS BIGINT) AS busy_ns
    FROM rows WHERE worker IS NOT NULL GROUP BY ALL
)
SELECT * REPLACE (coalesce(service_hist, []) AS service_hist)
FROM counted LEFT JOIN histograms USING (date, hour, worker, service, family, broker)
"""

BROKER_MINUTES: Final = """
WITH seconds AS (
    SELECT broker, family, date_trunc('second', "at") AS second,
        sum(coalesce(slots_free, 0) + coalesce(slots_busy, 0)) AS slots,
        sum(coalesce(slots_busy, 0)) AS busy,
        sum(coalesce(backlog, 0)) AS backlog,
        bool_or(coalesce(slots_free, 0) = 0 AND coalesce(backlog, 0) > 0) AS saturated
    FROM brokers WHERE event = 'load' GROUP BY ALL
), loads AS (
    SELECT broker, family, date_trunc('minute', second) AS minute, count(*) AS load_samples, avg(slots) AS slots,
        avg(busy) AS slots_busy, sum(busy) / nullif(sum(slots), 0) AS busy_share, avg(backlog) AS backlog,
        CAST(max(backlog) AS BIGINT) AS backlog_max, count(*) FILTER (saturated) AS saturated_s
    FROM seconds GROUP BY ALL
), happened AS (
    SELECT broker, family, date_trunc('minute', "at") AS minute,
        count(*) FILTER (event = 'process_died') AS process_deaths,
        count(*) FILTER (event = 'process_died' AND process = 'dispatcher') AS dispatcher_deaths,
        count(*) FILTER (event = 'gap') AS gaps,
        coalesce(sum("rows") FILTER (event = 'gap'), 0) AS gap_rows
    FROM brokers WHERE event IN ('process_died', 'gap') GROUP BY ALL
), towards AS (
    SELECT broker, family, date_trunc('minute', "at") AS minute,
        coalesce(sum(tasks) FILTER (event = 'delegated'), 0) AS delegated,
        count(*) FILTER (event = 'lost') AS peers_lost
    FROM peers WHERE event IN ('delegated', 'lost') GROUP BY ALL
), switched AS (
    SELECT *, lead("at") OVER (PARTITION BY broker, service ORDER BY "at", event) AS next_at
    FROM brokers WHERE event IN ('overload_on', 'overload_off') AND service IS NOT NULL
), overloaded AS (
    SELECT broker, family, service, "at", least(next_at, (
        SELECT max(life."at") FROM brokers AS life
        WHERE life.broker = switched.broker AND hour_number(life."at") - hour_number(switched."at") IN (0, 1)
    )) AS until
    FROM switched WHERE event = 'overload_on'
), overloads AS (
    SELECT broker, family, minute, count(DISTINCT service) AS overloads FROM (
        SELECT broker, family, service,
            unnest(generate_series(date_trunc('minute', "at"), date_trunc('minute', until), INTERVAL 1 MINUTE))
                AS minute
        FROM overloaded
    ) GROUP BY ALL
), minutes AS (
    SELECT broker, family, minute FROM loads UNION SELECT broker, family, minute FROM happened
    UNION SELECT broker, family, minute FROM towards UNION SELECT broker, family, minute FROM overloads
)
SELECT CAST(minute AS DATE) AS date, CAST(hour(minute) AS INTEGER) AS hour, minute, broker, family,
    coalesce(load_samples, 0) AS load_samples, slots, slots_busy, busy_share, backlog, backlog_max,
    coalesce(saturated_s, 0) AS saturated_s,
    CAST(coalesce(delegated, 0) AS BIGINT) AS delegated, coalesce(peers_lost, 0) AS peers_lost,
    coalesce(process_deaths, 0) AS process_deaths, coalesce(dispatcher_deaths, 0) AS dispatcher_deaths,
    coalesce(overloads, 0) AS overloads, coalesce(gaps, 0) AS gaps, CAST(coalesce(gap_rows, 0) AS BIGINT) AS gap_rows
FROM minutes
LEFT JOIN loads USING (broker, family, minute)
LEFT JOIN happened USING (broker, family, minute)
LEFT JOIN towards USING (broker, family, minute)
LEFT JOIN overloads USING (broker, family, minute)
"""

LOST_ATTEMPTS: Final = """
SELECT date, hour, minute, broker, family,
    CASE reason WHEN 'worker_lost' THEN 'worker' ELSE 'broker' END AS lost_kind,
    CASE reason WHEN 'worker_lost' THEN worker ELSE delegated_to END AS lost,
    service,
    count(*) FILTER (outcome = 'RETRY') AS retries,
    count(*) FILTER (outcome = 'UNKNOWN') AS unknown
FROM rows
WHERE reason IN ('worker_lost', 'broker_lost') AND outcome IN ('RETRY', 'UNKNOWN')
  AND CASE reason WHEN 'worker_lost' THEN worker ELSE delegated_to END IS NOT NULL
GROUP BY ALL
"""

LOSSES: Final = """
SELECT CAST("at" AS DATE) AS date, CAST(hour("at") AS INTEGER) AS hour, * FROM (
    SELECT "at", 'worker_lost' AS kind, worker AS lost, broker, family,
        list_sort(list_filter(string_split(services, chr(10)), lambda name: name <> '')) AS services,
        CAST(coalesce(tasks, 0) AS BIGINT) AS tasks
    FROM workers WHERE event = 'lost'
    UNION ALL
    SELECT "at", 'dispatcher_died', broker, broker, family, [], 0
    FROM brokers WHERE event = 'process_died' AND process = 'dispatcher'
    UNION ALL
    SELECT "at", 'peer_lost', peer, broker, family, [], 0 FROM peers WHERE event = 'lost'
)
"""

CONFIG_EVENTS: Final = """
SELECT CAST("at" AS DATE) AS date, CAST(hour("at") AS INTEGER) AS hour,
    "at", broker, event, edit, key, author, accepted_by, edited, expires
FROM config
"""

REFUSALS: Final = """
SELECT CAST("at" AS DATE) AS date, CAST(hour("at") AS INTEGER) AS hour, broker, family, port, wanted, why, principal,
    key, address, service, CAST(sum(times) AS BIGINT) AS times, min("at") AS first, max("at") AS last
FROM access WHERE why IS NOT NULL
GROUP BY ALL
"""

PRINCIPAL_HOURS: Final = """
SELECT CAST("at" AS DATE) AS date, CAST(hour("at") AS INTEGER) AS hour, principal, service,
    CAST(coalesce(sum(times) FILTER (why IS NULL), 0) AS BIGINT) AS tasks,
    CAST(coalesce(sum(request_bytes), 0) AS BIGINT) AS request_bytes,
    CAST(coalesce(sum(response_bytes), 0) AS BIGINT) AS response_bytes,
    CAST(coalesce(sum(busy_ns), 0) AS BIGINT) AS busy_ns,
    CAST(coalesce(sum(times) FILTER (why IS NOT NULL), 0) AS BIGINT) AS refused
FROM access WHERE principal IS NOT NULL
GROUP BY ALL
"""

HOURLY: Final = {
    "task_facts": TASK_FACTS,
    "service_minutes": SERVICE_MINUTES,
    "service_hours": SERVICE_HOURS,
    "service_loads": SERVICE_LOADS,
    "worker_hours": WORKER_HOURS,
    "broker_minutes": BROKER_MINUTES,
    "lost_attempts": LOST_ATTEMPTS,
    "losses": LOSSES,
    "refusals": REFUSALS,
    "config_events": CONFIG_EVENTS,
    "principal_hours": PRINCIPAL_HOURS,
}
