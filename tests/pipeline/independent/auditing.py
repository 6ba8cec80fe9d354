"""The audit in SQL, rule by rule, as docs/tables.md tells them. Shares no code with the pipeline."""

from __future__ import annotations

from typing import Final

#: What several rules ask for. `left_open` and `told` are those of `independent.hourly`.
AUDIT_WORDS: Final = """
CREATE TABLE task_gaps AS
SELECT broker, boot, "at", "rows" AS size FROM brokers
WHERE event = 'gap' AND coalesce("table", 'tasks') = 'tasks' AND "rows" > 0;

CREATE TABLE crashes AS
SELECT broker, boot, "at", false AS silent FROM brokers WHERE event = 'process_died' AND process = 'dispatcher'
UNION ALL
SELECT broker, boot, min("at"), true FROM (
    SELECT lives.broker, lives.boot, ending."at", (
        SELECT max(signs."at") FROM signs
        WHERE signs.broker = lives.broker AND signs.boot = lives.boot
          AND abs(hour_number(signs."at") - hour_number(ending."at")) <= 1
    ) AS last
    FROM (SELECT DISTINCT broker, boot FROM signs) AS lives JOIN ends AS ending
        ON ending.broker = lives.broker AND ending.kind IN ('restarted', 'lost')
        AND ending.boot IS DISTINCT FROM lives.boot
    WHERE NOT EXISTS (
        FROM ends AS seen
        WHERE seen.broker = lives.broker AND seen.boot = lives.boot AND seen.kind IN ('died', 'stopped')
          AND abs(hour_number(seen."at") - hour_number(ending."at")) <= 1
    )
) WHERE last <= "at" GROUP BY broker, boot, last;
"""

#: Each gives `at`, `kind`, `explained`, how severe it is if it is not and if it is, whom it is about, and how many.
_NAMES: Final = "broker, boot, service, worker, message_id"

UNFINISHED: Final = f"""
SELECT "at", kind, coalesce(accounts OR turn <= size, false) AS explained, 'error' AS if_not, 'warning' AS if_so,
    {_NAMES}, 1 AS n, NULL AS untold
FROM (
    SELECT *, row_number() OVER (PARTITION BY broker, boot, since ORDER BY "at", message_id) AS turn
    FROM (
        SELECT left_open.*, fate IN ('died', 'restarted', 'lost') AS accounts,
            CASE WHEN NOT accounts THEN gap."at" END AS since, CASE WHEN NOT accounts THEN size END AS size
        FROM left_open LEFT JOIN LATERAL (
            SELECT task_gaps."at", task_gaps.size FROM task_gaps
            WHERE task_gaps.broker = left_open.broker AND task_gaps.boot = left_open.boot
              AND task_gaps."at" >= left_open."at"
              AND hour_number(task_gaps."at") <= hour_number(left_open."at") + 1
            ORDER BY task_gaps."at", task_gaps.size LIMIT 1
        ) AS gap ON true
        WHERE fate IS NOT NULL
    )
)
"""

_STARTED: Final = "runs AND coalesce(reason, '') <> 'not_connected'"


def _again(kind: str, which: str) -> str:
    """A second one of a task within the hour after the first: explained if its client asked again meanwhile."""
    return f"""
    SELECT ended, '{kind}', coalesce(last_accepted >= before, false), 'error', 'info', {_NAMES}, 2, NULL
    FROM (
        SELECT *, lag(ended) OVER (PARTITION BY message_id ORDER BY ended, broker, boot, ticket) AS before
        FROM (
            SELECT *, max(arrived) FILTER (delegated_from IS NULL) OVER (
                PARTITION BY message_id ORDER BY hour_number(ended) RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING
            ) AS last_accepted
            FROM told
        ) WHERE {which}
    ) WHERE hour_number(before) >= hour_number(ended) - 1
    """


REJECTED: Final = f"""
SELECT ended, 'rejected_but_ran', false, 'error', 'error', broker, boot, service, ran.worker, message_id, 1, NULL
FROM told, LATERAL (
    SELECT count(DISTINCT (near.broker, near.boot, near.arrived)) FILTER (near.delegated_from IS NULL) AS asked
    FROM told AS near
    WHERE near.message_id = told.message_id AND abs(hour_number(near.ended) - hour_number(told.ended)) <= 1
), LATERAL (
    SELECT near.worker FROM (SELECT * FROM told AS those WHERE {_STARTED}) AS near
    WHERE near.message_id = told.message_id AND abs(hour_number(near.ended) - hour_number(told.ended)) <= 1
    ORDER BY near.broker, near.worker LIMIT 1
) AS ran
WHERE counts AND outcome = 'REJECTED' AND asked = 1
"""

HALVES: Final = """
SELECT "at", 'half_missing', coalesce(ended_there OR turn <= size, false), 'error', 'warning', broker, boot, service,
    worker, message_id, 1, NULL
FROM (
    SELECT *, row_number() OVER (PARTITION BY other, since ORDER BY "at", message_id) AS turn
    FROM (
        SELECT lone.*, CASE WHEN NOT ended_there THEN gap."at" END AS since,
            CASE WHEN NOT ended_there THEN gap.size END AS size
        FROM (
            SELECT *,
                EXISTS (
                    FROM ends WHERE ends.broker = other AND ends."at" >= one."at" - INTERVAL 5 SECONDS
                      AND ends."at" <= one."at" + INTERVAL 120 SECONDS
                ) AS ended_there,
                (SELECT max(signs."at") FROM signs
                 WHERE signs.broker = other AND hour_number(signs."at") - hour_number(one."at") IN (0, 1)) AS alive
            FROM (
                SELECT ended AS "at", broker, boot, service, worker, message_id, delegated_to AS other
                FROM told AS one
                WHERE outcome IN ('OK', 'ERROR') AND delegated_to IS NOT NULL AND NOT EXISTS (
                    FROM told AS two WHERE two.message_id = one.message_id AND two.broker = one.delegated_to
                      AND two.delegated_from = one.broker
                      AND abs(hour_number(two.ended) - hour_number(one.ended)) <= 1
                )
                UNION ALL
                SELECT ended, broker, boot, service, worker, message_id, delegated_from
                FROM told AS one
                WHERE outcome IN ('OK', 'ERROR') AND runs AND delegated_from IS NOT NULL AND NOT EXISTS (
                    FROM told AS two WHERE two.message_id = one.message_id AND two.broker = one.delegated_from
                      AND two.delegated_to = one.broker
                      AND abs(hour_number(two.ended) - hour_number(one.ended)) <= 1
                )
            ) AS one
        ) AS lone LEFT JOIN LATERAL (
            SELECT task_gaps."at", task_gaps.size FROM task_gaps
            WHERE task_gaps.broker = other AND task_gaps."at" >= lone."at"
              AND hour_number(task_gaps."at") <= hour_number(lone."at") + 1
            ORDER BY task_gaps."at", task_gaps.size LIMIT 1
        ) AS gap ON true
        WHERE alive IS NOT NULL AND (ended_there OR alive > lone."at" + INTERVAL 120 SECONDS)
    )
)
"""

MISSING: Final = """
SELECT "at", 'missing_rows', false, 'error', 'error', broker, boot, NULL, NULL, NULL, lacking, NULL
FROM (
    SELECT hours.broker, hours.boot, coalesce(hours.first, hours.told_at) AS "at",
        least(
            greatest(0, if(low IS NULL, said - since,
                greatest(0, low - since - 1) + high - low + 1 - there + greatest(0, said - high)
            )) - gap_rows,
            greatest_top - coalesce(lowest, since) - there_near - gaps_near
        ) AS lacking
    FROM (
        SELECT *, coalesce(
            (SELECT max(greatest(high, said)) FROM numbered AS before
             WHERE before.broker = numbered.broker AND before.boot = numbered.boot AND before.h = numbered.h - 1),
            if(begins, 0, NULL)
        ) AS since
        FROM numbered
    ) AS hours, LATERAL (
        SELECT max(greatest(near.high, near.said)) AS greatest_top, sum(near.there) AS there_near,
            sum(near.gap_rows) AS gaps_near,
            if(bool_or(near.begins) FILTER (near.h <= hours.h), 0, min(near.low) - 1) AS lowest
        FROM numbered AS near
        WHERE near.broker = hours.broker AND near.boot = hours.boot AND abs(near.h - hours.h) <= 1
    )
) WHERE lacking > 0
"""

#: Of each life and hour: the numbers of its rows, and how many it says there were.
NUMBERED: Final = """
CREATE TABLE numbered AS
SELECT *, coalesce(there_or_none, 0) AS there,
    EXISTS (
        FROM brokers WHERE brokers.broker = counted.broker AND brokers.boot = counted.boot
          AND hour_number(brokers."at") = h
          AND (event = 'start' OR (event = 'process_started' AND process = 'dispatcher'))
    ) AS begins,
    coalesce((
        SELECT sum(size) FROM task_gaps
        WHERE task_gaps.broker = counted.broker AND task_gaps.boot = counted.boot AND hour_number(task_gaps."at") = h
    ), 0) AS gap_rows
FROM (
    SELECT * FROM (
        SELECT broker, boot, hour_number(ended) AS h, min("row") AS low, max("row") AS high, count(*) AS there_or_none,
            min(ended) AS first
        FROM told WHERE "row" IS NOT NULL GROUP BY ALL
    ) FULL JOIN (
        SELECT broker, boot, hour_number("at") AS h, max("rows") AS said, min("at") AS told_at
        FROM brokers WHERE event = 'told' AND "table" = 'tasks' GROUP BY ALL
    ) USING (broker, boot, h)
) AS counted;
"""

TICKETS: Final = f"""
SELECT ended, 'ticket_twice', false, 'error', 'error', {_NAMES}, 2, NULL
FROM (
    SELECT *, lag(hour_number(ended)) OVER (PARTITION BY broker, boot, ticket ORDER BY ended, message_id, outcome)
        AS before
    FROM (
        SELECT DISTINCT broker, boot, ticket, message_id, attempt, service, worker, outcome, ended
        FROM told WHERE outcome <> 'LATE'
    )
) WHERE before >= hour_number(ended) - 1
"""


def _odd(kind: str, which: str) -> str:
    return f"SELECT ended, '{kind}', false, 'error', 'error', {_NAMES}, 1, NULL FROM told WHERE {which}"


CRASHES: Final = """
SELECT "at", 'crash_window', true, 'info', if(left_behind > 0 OR hidden > 0, 'warning', 'info'), broker, boot, NULL,
    NULL, NULL, left_behind, hidden
FROM (
    SELECT crashes.*, (
        SELECT count(*) FROM left_open
        WHERE fate IN ('died', 'restarted', 'lost') AND left_open.broker = crashes.broker
          AND left_open.boot = crashes.boot AND left_open."at" <= crashes."at"
          AND hour_number(left_open."at") >= hour_number(crashes."at") - 1
    ) AS left_behind, CAST(coalesce((
        SELECT ceil(round(count(*) / greatest(1, least(10, alive_s)) * (
            if(silent, least(since_s, 60), since_s) + avg(greatest(0, least(total_ns / 1e9, open_s)))
        ), 6))
        FROM rows
        WHERE rows.broker = crashes.broker AND rows.boot = crashes.boot AND ended <= last
          AND ended > last - INTERVAL 10 SECONDS AND hour_number(ended) >= hour_number(crashes."at") - 1
    ), 0) AS BIGINT) AS hidden
    FROM crashes, LATERAL (
        SELECT max(sign) AS last, (epoch_us(max(sign)) - epoch_us(min(sign))) / 1e6 AS alive_s,
            (epoch_us(crashes."at") - epoch_us(max(sign))) / 1e6 AS since_s,
            (epoch_us(max(sign)) - epoch_us(max(sign) FILTER (is_checkpoint))) / 1e6 AS open_s
        FROM (
            SELECT broker, boot, ended AS sign, false AS is_checkpoint FROM tasks
            UNION ALL
            SELECT broker, boot, "at", event = 'load' FROM brokers
            WHERE event IN ('load', 'overload_on', 'overload_off')
        ) AS words
        WHERE words.broker = crashes.broker AND words.boot = crashes.boot AND sign <= crashes."at"
          AND hour_number(sign) >= hour_number(crashes."at") - 1
    )
)
"""

_RULES: Final = (
    UNFINISHED,
    _again("two_outcomes", "counts"),
    _again("at_most_once", f"at_most_once AND {_STARTED}"),
    REJECTED,
    HALVES,
    MISSING,
    f"""
    SELECT ended, 'duplicate_row', false, 'error', 'error', {_NAMES}, copies, NULL
    FROM (SELECT *, count(*) AS copies FROM tasks GROUP BY ALL) WHERE copies > 1
    """,
    TICKETS,
    _odd("no_such_outcome", "outcome NOT IN ('OK', 'ERROR', 'REJECTED', 'UNKNOWN', 'RETRY', 'LATE')"),
    _odd("ended_before_arrived", "ended < arrived OR assigned < arrived OR ended < assigned"),
    _odd("negative_duration", "least(queue_ns, service_ns, total_ns) < 0"),
    f"SELECT ended, 'late_answer', true, 'info', 'info', {_NAMES}, 1, NULL FROM told WHERE outcome = 'LATE'",
    """
    SELECT "at", 'gap', true, 'warning', 'warning', broker, boot, NULL, NULL, NULL, coalesce("rows", 0), NULL
    FROM brokers WHERE event = 'gap'
    """,
    CRASHES,
)

AUDIT: Final = f"""
SELECT CAST("at" AS DATE) AS date, CAST(hour("at") AS INTEGER) AS hour, "at", kind,
    if(explained, if_so, if_not) AS severity, explained, broker, boot, service, worker, message_id,
    CAST(n AS BIGINT) AS "rows", CAST(untold AS BIGINT) AS untold
FROM ({" UNION ALL ".join(_RULES)})
"""
