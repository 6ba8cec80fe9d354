"""The tables as a whole in SQL, as a reader of docs/tables.md would write them for DuckDB: see `hourly`."""

from __future__ import annotations

from typing import Final

from tests.pipeline.independent.hourly import figures

SERVICE_DAYS: Final = f"""
SELECT * RENAME (date AS day) FROM ({figures("date, service, family")})
"""

WORKER_HEALTH: Final = """
WITH recent AS (
    SELECT *, (date + to_hours(hour)) AT TIME ZONE 'UTC' AS begun
    FROM worker_hours
), newest AS (
    SELECT max(begun) AS newest FROM recent
), day AS (
    SELECT recent.* FROM recent, newest WHERE begun >= newest - INTERVAL 23 HOURS
), buckets AS (
    SELECT worker, service, entry.bucket AS bucket, sum(entry.count) AS n
    FROM (SELECT worker, service, unnest(service_hist) AS entry FROM day) GROUP BY ALL
), own AS (
    SELECT worker, service, sum(n) AS answered,
        middle(min(bucket) FILTER (so_far * 1000 >= everything * 500)) AS p50_ns,
        middle(min(bucket) FILTER (so_far * 1000 >= everything * 990)) AS p99_ns
    FROM (
        SELECT *, sum(n) OVER (PARTITION BY worker, service ORDER BY bucket) AS so_far,
            sum(n) OVER (PARTITION BY worker, service) AS everything
        FROM buckets
    ) GROUP BY ALL
), rest AS (
    SELECT worker, service, sum(n) AS others_answered,
        middle(min(bucket) FILTER (so_far * 1000 >= everything * 500)) AS others_p50_ns
    FROM (
        SELECT *, sum(n) OVER (PARTITION BY worker, service ORDER BY bucket) AS so_far,
            sum(n) OVER (PARTITION BY worker, service) AS everything
        FROM (
            SELECT each.worker, each.service, bucket, sum(n) AS n
            FROM (SELECT DISTINCT worker, service FROM day) AS each
            JOIN buckets ON buckets.service = each.service AND buckets.worker <> each.worker
            GROUP BY ALL
        )
    ) GROUP BY ALL
), sums AS (
    SELECT worker, service, min(family) AS family, min(begun) AS first_seen, max(begun) AS last_seen,
        CAST(sum(tasks) AS BIGINT) AS tasks, CAST(sum(errors) AS BIGINT) AS errors,
        CAST(sum(unknown) AS BIGINT) AS unknown, CAST(sum(late) AS BIGINT) AS late
    FROM day GROUP BY worker, service
), events AS (
    SELECT worker,
        coalesce(sum(tasks) FILTER (event = 'lost'), 0) AS lost_tasks,
        count(*) FILTER (event = 'connect') AS connects,
        count(*) FILTER (event = 'lost') AS losses,
        count(*) FILTER (event = 'error_listed') AS error_listed
    FROM workers, newest WHERE "at" >= newest - INTERVAL 23 HOURS GROUP BY worker
), known AS (
    SELECT sums.*,
        coalesce(tasks / nullif(sum(tasks) OVER of_service, 0), 0) AS share,
        coalesce(errors / nullif(tasks, 0), 0) AS error_share,
        (sum(errors) OVER of_service - errors) / nullif(sum(tasks) OVER of_service - tasks, 0) AS others_error_share,
        CAST(coalesce(lost_tasks, 0) AS BIGINT) AS lost_tasks, coalesce(connects, 0) AS connects,
        coalesce(losses, 0) AS losses, coalesce(error_listed, 0) AS error_listed,
        p50_ns, p99_ns, others_p50_ns, p50_ns / nullif(others_p50_ns, 0) AS slowness,
        coalesce(answered, 0) >= 20 AND coalesce(others_answered, 0) >= 20 AS comparable
    FROM sums
    LEFT JOIN own USING (worker, service) LEFT JOIN rest USING (worker, service) LEFT JOIN events USING (worker)
    WINDOW of_service AS (PARTITION BY service)
), points AS (
    SELECT *,
        if(tasks >= 20 AND error_share - coalesce(others_error_share, 0) > 0.02,
           least(50, round((error_share - coalesce(others_error_share, 0)) * 200)), 0) AS for_errors,
        if(comparable AND slowness >= 1.5, least(60, round((slowness - 1) * 20)), 0) AS for_slowness,
        if(losses > 0, least(45, losses * 15 - 5), 0) AS for_losses,
        if(tasks >= 20 AND unknown / tasks > 0.01, least(30, round(unknown / tasks * 200)), 0) AS for_unknown,
        if(tasks >= 20 AND late / tasks > 0.01, least(20, round(late / tasks * 100)), 0) AS for_late,
        if(error_listed > 0, 30, 0) AS for_list
    FROM known
)
SELECT * EXCLUDE (comparable, for_errors, for_slowness, for_losses, for_unknown, for_late, for_list),
    CAST(greatest(0, 100 - for_errors - for_slowness - for_losses - for_unknown - for_late - for_list) AS INTEGER)
        AS score
FROM points
"""

FAILOVERS: Final = """
WITH marked AS (
    SELECT *, coalesce(epoch_us("at") - epoch_us(lag("at") OVER of_one)
        > if(kind = 'peer_lost', 60000000, 0), true) AS begins
    FROM losses WINDOW of_one AS (PARTITION BY kind, lost ORDER BY "at", broker)
), numbered AS (
    SELECT *, sum(CAST(begins AS INTEGER)) OVER (PARTITION BY kind, lost ORDER BY "at", broker) AS episode FROM marked
), episodes AS (
    SELECT kind, lost, episode, min("at") AS seen, max("at") AS seen_last,
        min_by(family, ("at", broker, family)) AS family, list_sort(list_distinct(list(broker))) AS seen_by,
        list_sort(list_distinct(flatten(list(services)))) AS own_services, sum(tasks) AS tasks,
        substr(sha256(concat_ws(chr(10), kind, lost, CAST(epoch_us(min("at")) AS VARCHAR))), 1, 12) AS id
    FROM numbered GROUP BY kind, lost, episode
), served AS (
    SELECT id, list_sort(list_distinct(list(service))) AS served
    FROM episodes JOIN service_minutes ON service_minutes.broker = lost AND kind <> 'worker_lost'
        AND minute BETWEEN date_trunc('minute', seen) - INTERVAL 5 MINUTES AND date_trunc('minute', seen)
    GROUP BY id
), hit AS (
    SELECT episodes.*, coalesce(served, own_services) AS services FROM episodes LEFT JOIN served USING (id)
), attempts AS (
    SELECT id, sum(lost_attempts.retries) AS retries, sum(lost_attempts.unknown) AS unknown
    FROM episodes JOIN lost_attempts ON lost_attempts.lost = episodes.lost AND kind <> 'dispatcher_died'
        AND lost_kind = if(kind = 'worker_lost', 'worker', 'broker') AND list_contains(seen_by, broker)
        AND minute BETWEEN date_trunc('minute', seen) AND date_trunc('minute', seen_last)
    GROUP BY id
), swallowed AS (
    SELECT id, sum(audit."rows") AS swallowed
    FROM episodes JOIN audit ON audit.kind = 'crash_window' AND episodes.kind = 'dispatcher_died'
        AND audit.broker = lost AND audit."at" = seen
    GROUP BY id
), asked AS (
    SELECT service, minute, sum(unknown + rejected + retries) * 20 <= sum(tasks) AS fine
    FROM service_minutes GROUP BY service, minute HAVING sum(tasks) > 0
), fared AS (
    SELECT id, each.service, min(minute) FILTER (fine) AS good, min(minute) FILTER (NOT fine) AS bad
    FROM (SELECT id, seen, unnest(services) AS service FROM hit) AS each JOIN asked
        ON asked.service = each.service
        AND minute BETWEEN date_trunc('minute', seen) AND date_trunc('minute', seen) + INTERVAL 30 MINUTES
    GROUP BY ALL
), troubles AS (
    SELECT id, bool_and(good IS NOT NULL) AS ended, max(good) AS last
    FROM fared WHERE bad IS NOT NULL AND NOT coalesce(good < bad, false) GROUP BY id
), told AS (
    SELECT id, kind, lost, family, seen_by, seen, services, tasks, coalesce(retries, 0) AS retries,
        coalesce(unknown, 0) AS unknown, coalesce(swallowed, 0) AS swallowed,
        CASE WHEN len(services) = 0 THEN NULL WHEN ended IS NULL THEN date_trunc('minute', seen)
            WHEN ended THEN last END AS normal
    FROM hit LEFT JOIN attempts USING (id) LEFT JOIN swallowed USING (id) LEFT JOIN troubles USING (id)
)
SELECT id, kind, lost, family, seen_by, seen, services,
    CAST(if(kind = 'worker_lost', greatest(tasks, retries + unknown), swallowed + retries + unknown) AS BIGINT)
        AS tasks_hit,
    CAST(retries AS BIGINT) AS retries, CAST(unknown AS BIGINT) AS unknown, normal,
    CASE WHEN normal IS NOT NULL THEN greatest(0.0, (epoch_us(normal) - epoch_us(seen)) / 1e6) END AS recovery_s
FROM told
"""

CONFIG_CONVERGENCE: Final = """
WITH firsts AS (
    SELECT edit, broker, min("at") AS "at", min("at") FILTER (event = 'accepted') AS accepted, min(key) AS key,
        min(author) AS author, min(accepted_by) AS accepted_by
    FROM config WHERE event IN ('accepted', 'applied') GROUP BY edit, broker
), edits AS (
    SELECT edit, min(key) AS key, min(author) AS author, min(accepted_by) AS accepted_by,
        coalesce(min(accepted), min("at")) AS accepted, max("at") AS last, list(broker) AS had,
        CAST(count(*) AS INTEGER) AS brokers
    FROM firsts GROUP BY edit
), arrivals AS (
    SELECT edit, list({
        'broker': broker, 'at': firsts."at",
        'delay_ms': greatest(0, epoch_ms(firsts."at") - epoch_ms(edits.accepted))
    } ORDER BY firsts."at", broker) AS arrivals
    FROM firsts JOIN edits USING (edit) GROUP BY edit
), spans AS (
    SELECT broker, min(minute) AS first, max(minute) AS last FROM broker_minutes GROUP BY broker
), missing AS (
    SELECT edit, list(broker ORDER BY broker) AS missing
    FROM edits JOIN spans ON first + INTERVAL 1 MINUTE <= accepted AND spans.last >= accepted + INTERVAL 60 SECONDS
        AND NOT list_contains(had, broker)
    GROUP BY edit
), conflicts AS (
    SELECT edit, key, min("at") AS conflict_seen FROM config WHERE event = 'conflict' GROUP BY edit, key
), lives AS (
    SELECT conflicts.edit, conflict_seen, min(config."at") AS conflict_resolved,
        min_by(config.edit, (config."at", config.edit)) AS resolved_by
    FROM conflicts LEFT JOIN config ON config.event = 'resolved' AND config.key = conflicts.key
        AND config."at" >= conflict_seen
    GROUP BY ALL
)
SELECT edit, key, author, accepted_by, accepted, arrivals, brokers, coalesce(missing, []) AS missing,
    greatest(0, epoch_ms(last) - epoch_ms(accepted)) AS span_ms,
    conflict_seen, conflict_resolved, resolved_by, epoch_ms(conflict_resolved) - epoch_ms(conflict_seen) AS conflict_ms
FROM edits JOIN arrivals USING (edit) LEFT JOIN missing USING (edit) LEFT JOIN lives USING (edit)
"""

#: Erlang C by its textbook formula: the terms a^k / k! by their logarithms.
CAPACITY: Final = """
WITH offered AS (
    SELECT service, family, date, hour, sum(runs) AS runs, sum(overloaded) AS overloaded,
        sum(busy_ns) // 1000 AS busy_us,
        busy_us + sum(overloaded) * (busy_us // sum(runs)) AS offered_us
    FROM service_hours GROUP BY ALL HAVING sum(runs) > 0
), slots AS (
    SELECT service, family, date, hour, sum(slots_sum * 1000 // samples) AS milli FROM service_loads GROUP BY ALL
), hours AS (
    SELECT service, family, hour AS hour_of_day, CAST(count(*) AS INTEGER) AS days, CAST(sum(runs) AS BIGINT) AS runs,
        (sum(offered.runs) + sum(overloaded)) / count(*) / 3600 AS rate,
        sum(busy_us) / sum(offered.runs) / 1e6 AS service_s,
        sum(offered_us) / count(*) / 3.6e9 AS erlangs,
        max(offered_us) / 3.6e9 AS erlangs_peak,
        avg(milli) / 1000 AS slots
    FROM offered LEFT JOIN slots USING (service, family, date, hour) GROUP BY service, family, hour
), tries AS (
    SELECT service, family, hour_of_day, erlangs_peak AS a, service_s, floor(slots) AS there, unnest(range(1,
        CAST(ceil(erlangs_peak + 6 * sqrt(erlangs_peak) + 20) AS BIGINT) + coalesce(CAST(slots AS BIGINT), 0) + 1)) AS n
    FROM hours WHERE erlangs_peak > 0
), shares AS (
    SELECT *, if(a >= n, 1.0, waiting / (waiting + (1 - a / n) * served)) AS waits FROM (
        SELECT *, exp(n * ln(a) - lgamma(n + 1)) AS waiting,
            list_sum(list_transform(range(0, n), lambda k: exp(k * ln(a) - lgamma(k + 1)))) AS served
        FROM tries
    )
), needs AS (
    SELECT service, family, hour_of_day, max(waits) FILTER (n = there) AS wait_share,
        min(n) FILTER (n > a AND waits * exp(-(n - a) * 0.1 / service_s) <= 0.05) AS slots_needed
    FROM shares GROUP BY ALL
)
SELECT hours.*, erlangs / nullif(slots, 0) AS busy_share,
    CASE WHEN slots IS NULL THEN NULL WHEN erlangs_peak <= 0 THEN 0.0 WHEN slots < 1 THEN 1.0 ELSE wait_share END
        AS wait_share,
    CAST(if(erlangs_peak <= 0, 0, slots_needed) AS INTEGER) AS slots_needed,
    CASE WHEN slots IS NOT NULL THEN CAST(greatest(0, if(erlangs_peak <= 0, 0, slots_needed) - floor(slots)) AS INTEGER)
        END AS slots_missing
FROM hours LEFT JOIN needs USING (service, family, hour_of_day)
"""

ANOMALIES: Final = """
WITH recent AS (
    SELECT * FROM service_minutes WHERE date > (SELECT max(date) FROM service_minutes) - 14
), minutes AS (
    SELECT service, minute, sum(tasks) AS tasks, sum(errors + unknown) AS bad,
        max(total_p99_ns) FILTER (tasks >= 20) AS p99
    FROM recent GROUP BY ALL
), every AS (
    SELECT service, unnest(generate_series(min(minute), (SELECT max(minute) FROM minutes), INTERVAL 1 MINUTE)) AS minute
    FROM minutes GROUP BY service
), filled AS (
    SELECT service, minute, coalesce(tasks, 0) AS tasks, coalesce(bad, 0) AS bad, p99
    FROM every LEFT JOIN minutes USING (service, minute)
), measured AS (
    SELECT service, minute, tasks, 'rate' AS measure, CAST(tasks AS DOUBLE) AS value, CAST(tasks AS DOUBLE) AS scaled
    FROM filled
    UNION ALL
    SELECT service, minute, tasks, 'p99_ns', p99, ln(p99 + 1) FROM filled WHERE p99 IS NOT NULL
), middles AS (
    SELECT *, median(scaled) OVER alike AS middle, count(*) OVER alike AS known FROM measured
    WINDOW alike AS (PARTITION BY service, measure, hour(minute))
), distances AS (
    SELECT *, greatest(
        1.4826 * median(abs(scaled - middle)) OVER (PARTITION BY service, measure, hour(minute)),
        if(measure = 'rate', greatest(2, sqrt(middle)), 0.1)
    ) AS distance
    FROM middles WHERE known >= 20
), far AS (
    SELECT *, (scaled - middle) / distance AS score FROM distances
), stretches AS (
    SELECT service, coalesce(min(length) FILTER (length * share >= 20), 60) AS length
    FROM (SELECT service, sum(tasks) / count(*) AS share FROM filled GROUP BY service),
        (SELECT unnest([1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60]) AS length)
    GROUP BY service
), pooled AS (
    SELECT service, time_bucket(to_minutes(length), minute) AS since, sum(tasks) AS n, sum(bad) AS k
    FROM filled JOIN stretches USING (service) GROUP BY ALL HAVING sum(tasks) > 0
), usual AS (
    SELECT *,
        greatest(
            (sum(k) OVER of_service - k + 1) / (sum(n) OVER of_service - n + 2),
            if(n_elsewhere >= 20, (k_elsewhere + 1) / (n_elsewhere + 2), 0)
        ) AS p,
        median(k / n) OVER of_service AS middle
    FROM (
        SELECT *,
            sum(k) OVER (PARTITION BY service, hour(since))
                - sum(k) OVER (PARTITION BY service, hour(since), CAST(since AS DATE)) AS k_elsewhere,
            sum(n) OVER (PARTITION BY service, hour(since))
                - sum(n) OVER (PARTITION BY service, hour(since), CAST(since AS DATE)) AS n_elsewhere
        FROM pooled
    )
    WINDOW of_service AS (PARTITION BY service)
), bounds AS (
    SELECT *, k / n AS value,
        greatest(0.01, sqrt(p * (1 - p) / n), 1.4826 * median(abs(k / n - middle)) OVER (PARTITION BY service))
            AS distance,
        if(k > 0, k * ln(k / n / p) + if(k < n, (n - k) * ln((1 - k / n) / (1 - p)), 0), 0) AS odds
    FROM usual
), bursts AS (
    SELECT service, since, value, p, distance, (value - p) / distance AS score
    FROM bounds
    WHERE (value - p) / distance >= 6 AND odds >= ln(100 * (SELECT count(*) FROM pooled))
)
SELECT minute, service, measure, if(score > 0, 'high', 'low') AS direction, value,
    round(if(measure = 'p99_ns', exp(middle) - 1, middle), 6) AS baseline,
    round(if(measure = 'p99_ns', exp(middle) * (exp(distance) - 1), distance), 6) AS spread,
    round(score, 3) AS score, CAST(tasks AS BIGINT) AS tasks
FROM far WHERE if(measure = 'rate', abs(score), score) >= 6
UNION ALL
SELECT minute, service, 'error_share', 'high', value, round(p, 6), round(distance, 6), round(score, 3),
    CAST(tasks AS BIGINT)
FROM bursts JOIN stretches USING (service) JOIN filled USING (service)
WHERE tasks > 0 AND minute >= since AND minute < since + to_minutes(length)
"""

OBJECTIVES: Final = """
WITH newest AS (
    SELECT max(minute) AS newest FROM service_minutes
), told AS (
    SELECT service, max_by(objective, (objective_told, objective)) AS said, max(objective_told) AS told_at
    FROM service_loads WHERE objective IS NOT NULL GROUP BY service
), held AS (
    SELECT service, CAST(said->>'share' AS DOUBLE) AS share, CAST(said->>'within_ms' AS BIGINT) AS within_ms,
        CAST(said->>'days' AS INTEGER) AS days
    FROM told, newest WHERE said <> 'null' AND told_at > newest - INTERVAL 49 HOURS
), late AS (
    SELECT service, share, within_ms, days, minute, tasks, ok,
        coalesce(list_sum(list_transform(list_filter(total_hist, lambda e: e.bucket > bucket(within_ms * 1000000)),
            lambda e: e.count)), 0)
        - coalesce(list_sum(list_transform(list_filter(not_ok_hist, lambda e: e.bucket > bucket(within_ms * 1000000)),
            lambda e: e.count)), 0) AS late
    FROM service_minutes JOIN held USING (service), newest
    WHERE minute > date_trunc('hour', newest) - to_days(days) - INTERVAL 6 HOURS AND tasks > 0
), minutes AS (
    SELECT service, share, within_ms, days, minute, sum(tasks) AS tasks, sum(tasks - ok + least(ok, late)) AS bad
    FROM late GROUP BY ALL
), windows AS (
    SELECT *, sum(bad) OVER hour AS bad_60, sum(tasks) OVER hour AS all_60, sum(bad) OVER five AS bad_5,
        sum(tasks) OVER five AS all_5, sum(bad) OVER six AS bad_360, sum(tasks) OVER six AS all_360,
        sum(bad) OVER half AS bad_30, sum(tasks) OVER half AS all_30
    FROM minutes
    WINDOW hour AS (PARTITION BY service ORDER BY minute RANGE BETWEEN INTERVAL 59 MINUTES PRECEDING AND CURRENT ROW),
        five AS (PARTITION BY service ORDER BY minute RANGE BETWEEN INTERVAL 4 MINUTES PRECEDING AND CURRENT ROW),
        six AS (PARTITION BY service ORDER BY minute RANGE BETWEEN INTERVAL 359 MINUTES PRECEDING AND CURRENT ROW),
        half AS (PARTITION BY service ORDER BY minute RANGE BETWEEN INTERVAL 29 MINUTES PRECEDING AND CURRENT ROW)
), hours AS (
    SELECT service, date_trunc('hour', minute) AS "at", share, within_ms, days, CAST(sum(tasks) AS BIGINT) AS tasks,
        CAST(sum(tasks - bad) AS BIGINT) AS good, CAST(sum(bad) AS BIGINT) AS bad,
        CAST(count(*) FILTER (bad_60 >= 10 AND bad_60 >= 14.4 * (1 - share) * all_60
            AND bad_5 >= 14.4 * (1 - share) * all_5) AS INTEGER) AS fast_minutes,
        CAST(count(*) FILTER (bad_360 >= 10 AND bad_360 >= 6 * (1 - share) * all_360
            AND bad_30 >= 6 * (1 - share) * all_30) AS INTEGER) AS slow_minutes
    FROM windows GROUP BY ALL
)
SELECT *, bad / tasks / (1 - share) AS burn_rate,
    sum(bad) OVER (PARTITION BY service ORDER BY "at") / sum(tasks) OVER (PARTITION BY service ORDER BY "at")
        / (1 - share) AS burnt
FROM (SELECT hours.* FROM hours, newest WHERE "at" > date_trunc('hour', newest) - to_days(days))
"""

#: Without the words: which there are, about whom, how urgent, since when, and the edit that is proposed.
FINDINGS: Final = """
WITH newest AS (
    SELECT max(seen) AS newest
    FROM (SELECT "at" AS seen FROM service_hours UNION ALL SELECT minute FROM broker_minutes)
), day AS (
    SELECT service, sum(tasks) AS tasks, sum(overloaded) AS overloaded, sum(no_worker) AS no_worker,
        sum(expired) AS expired, sum(late) AS late, max(total_p999_ns) AS p999, max("at") AS last_seen
    FROM service_hours, newest WHERE "at" > newest - INTERVAL 24 HOURS GROUP BY service
), backlogs AS (
    SELECT service, max(backlog_max) AS backlog_max
    FROM service_loads, newest
    WHERE samples > 0 AND (date + to_hours(hour)) AT TIME ZONE 'UTC' > newest - INTERVAL 24 HOURS GROUP BY service
), loads AS (
    SELECT service, family, sum(slots_sum) AS slots, sum(busy_sum) AS busy, sum(saturated_s) AS saturated
    FROM service_loads, newest
    WHERE samples > 0 AND (date + to_hours(hour)) AT TIME ZONE 'UTC' > newest - INTERVAL 24 HOURS
    GROUP BY service, family
), giving AS (
    SELECT DISTINCT family FROM service_hours, newest WHERE "at" > newest - INTERVAL 24 HOURS AND delegated_out > 0
), helpers AS (
    SELECT one.service, one.family, max_by(other.family, (other.slots - other.busy, other.family)) AS helper
    FROM loads one JOIN loads other ON one.service = other.service AND one.family != other.family
    WHERE other.saturated = 0 AND other.slots > 0 AND other.busy * 2 <= other.slots
        AND one.family NOT IN (SELECT family FROM giving)
    GROUP BY one.service, one.family
), refusing AS (
    SELECT service, max_by(family, (overloaded, family)) AS family FROM (
        SELECT service, family, sum(overloaded) AS overloaded
        FROM service_hours, newest WHERE "at" > newest - INTERVAL 24 HOURS GROUP BY service, family
    ) GROUP BY service
), sick AS (
    SELECT service, family, worker, score, last_seen,
        worker IN (SELECT worker FROM worker_health WHERE score < 60) AS sick
    FROM worker_health
), places AS (
    SELECT service, family, count(*) FILTER (NOT sick) >= count(*) FILTER (sick) AS enough FROM sick GROUP BY ALL
), needed AS (
    SELECT DISTINCT worker FROM sick JOIN places USING (service, family) WHERE NOT enough
), short AS (
    SELECT service, family, max_by(erlangs_peak >= slots, (slots_missing, erlangs_peak, hour_of_day)) AS over
    FROM capacity WHERE slots_missing > 0 AND wait_share > 0.2 GROUP BY service, family
), late AS (
    SELECT broker, edit, any_value(arrived) AS arrived
    FROM (
        SELECT edit, accepted, arrival.broker AS broker, arrival['at'] AS arrived, arrival.delay_ms AS delay_ms
        FROM (SELECT edit, accepted, unnest(arrivals) AS arrival
              FROM config_convergence, newest WHERE accepted > newest - INTERVAL 24 HOURS)
    ) JOIN broker_minutes USING (broker)
    WHERE delay_ms >= 120000 AND minute >= accepted AND minute + INTERVAL 1 MINUTE <= arrived
    GROUP BY broker, edit HAVING count(*) >= 2
), keys AS (
    SELECT key, last_value(expires) OVER (
            PARTITION BY key ORDER BY edited, edit, expires NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ) AS expires, "at"
    FROM config WHERE starts_with(key, 'principal/') AND event IN ('accepted', 'applied', 'expires')
), found AS (
    SELECT if(score < 30, 'critical', 'warning') AS severity, 'bad_worker' AS kind,
        concat_ws(' ', worker, service) AS subject,
        if(worker IN (SELECT worker FROM needed), NULL, 'worker/' || worker) AS key,
        if(worker IN (SELECT worker FROM needed), NULL, '{"family":"' || family || '","state":"drained"}') AS value,
        last_seen
    FROM sick WHERE score < 60
    UNION ALL
    SELECT if(over, 'critical', 'warning'), 'too_few_slots', concat_ws(' ', service, family),
        if(helper IS NULL, NULL, 'family/' || family), '{"fallback_families":["' || helper || '"]}', newest
    FROM short LEFT JOIN helpers USING (service, family), newest
    UNION ALL
    SELECT 'warning', 'backlog_full', service,
        if(helper IS NOT NULL, 'family/' || family, if(cure, 'service/' || service, NULL)),
        if(helper IS NOT NULL, '{"fallback_families":["' || helper || '"]}',
            if(cure, '{"backlog_tasks_max":' || least(10000000, greatest(backlog_max * 2, 10)) || '}', NULL)), last_seen
    FROM (
        SELECT *, backlog_max IS NOT NULL AND service NOT IN (SELECT service FROM short) AS cure
        FROM day LEFT JOIN backlogs USING (service) LEFT JOIN refusing USING (service)
            LEFT JOIN helpers USING (service, family)
        WHERE overloaded > 0 AND overloaded * 100 >= tasks
    )
    UNION ALL
    SELECT 'warning', 'time_out_short', service, 'service/' || service,
        '{"timeout_ms":' || least(86400000, CAST(ceil(p999 * 2 / 1e9) AS BIGINT) * 1000) || '}', last_seen
    FROM day WHERE expired > 0 AND expired * 100 >= tasks AND late * 2 >= expired AND p999 > 0
    UNION ALL
    SELECT 'critical', 'no_worker', service, NULL, NULL, last_seen
    FROM day WHERE no_worker > 0 AND no_worker * 100 >= tasks
    UNION ALL
    SELECT if(sum(fast_minutes) > 0, 'critical', 'warning'), 'budget_burning', service, NULL, NULL, max("at")
    FROM objectives, newest WHERE "at" > newest - INTERVAL 24 HOURS AND fast_minutes + slow_minutes > 0
    GROUP BY service
    UNION ALL
    SELECT 'warning', 'budget_used_up', service, NULL, NULL, max("at")
    FROM objectives GROUP BY service HAVING max_by(burnt, "at") >= 1
    UNION ALL
    SELECT 'critical', 'broker_unstable', broker, 'broker_state/' || broker, '{"state":"draining"}', max(minute)
    FROM broker_minutes, newest WHERE dispatcher_deaths > 0 AND minute > newest - INTERVAL 24 HOURS
    GROUP BY broker HAVING sum(dispatcher_deaths) >= 3
    UNION ALL
    SELECT 'warning', 'crash_lost_tasks', broker, NULL, NULL, max("at")
    FROM audit, newest
    WHERE kind = 'crash_window' AND rows + coalesce(untold, 0) > 0 AND "at" > newest - INTERVAL 168 HOURS
    GROUP BY broker
    UNION ALL
    SELECT 'info', 'slow_recovery', concat_ws(' ', kind, lost), NULL, NULL, max(seen)
    FROM failovers, newest
    WHERE len(services) > 0 AND coalesce(recovery_s > 300, seen + INTERVAL 300 SECONDS < newest)
        AND seen > newest - INTERVAL 24 HOURS
    GROUP BY kind, lost
    UNION ALL
    SELECT 'warning', 'config_conflict', key, key, NULL, max(conflict_seen)
    FROM config_convergence WHERE conflict_seen IS NOT NULL AND conflict_resolved IS NULL GROUP BY key
    UNION ALL
    SELECT 'warning', 'edits_missing', broker, NULL, NULL, max(accepted)
    FROM (SELECT unnest(missing) AS broker, accepted FROM config_convergence) GROUP BY broker
    UNION ALL
    SELECT 'warning', 'edits_late', broker, NULL, NULL, max(arrived) FROM late GROUP BY broker
    UNION ALL
    SELECT 'warning', 'journal_gaps', broker, NULL, NULL, max("at")
    FROM audit, newest WHERE kind = 'gap' AND "at" > newest - INTERVAL 168 HOURS GROUP BY broker
    UNION ALL
    SELECT 'critical', 'audit', kind, NULL, NULL, max("at")
    FROM audit, newest WHERE NOT explained AND "at" > newest - INTERVAL 168 HOURS GROUP BY kind
    UNION ALL
    SELECT if(count(*) >= 10, 'warning', 'info'), 'unusual', concat_ws(' ', service, measure, direction), NULL, NULL,
        max(minute)
    FROM anomalies, newest WHERE minute > newest - INTERVAL 24 HOURS GROUP BY service, measure, direction
    HAVING measure != 'p99_ns' OR count(*) >= 2
    UNION ALL
    SELECT if(why = 'overload', 'info', 'warning'), 'refused_often', who || ' ' || why, NULL, NULL, max(last)
    FROM (SELECT *, coalesce(principal, key, nullif(address, '*')) AS who FROM refusals), newest
    WHERE who IS NOT NULL AND last > newest - INTERVAL 24 HOURS
    GROUP BY who, why HAVING sum(times) >= 100
    UNION ALL
    SELECT if(max(expires) <= max(newest), 'critical', 'warning'), 'keys_expire', replace(key, 'principal/', ''), key,
        NULL, max("at")
    FROM keys, newest WHERE expires > newest - INTERVAL 24 HOURS AND expires <= newest + INTERVAL 14 DAYS
    GROUP BY key
)
SELECT *, substr(sha256(kind || chr(10) || subject), 1, 12) AS id,
    CAST(row_number() OVER (ORDER BY urgency, kind, subject) AS INTEGER) AS rank
FROM (SELECT *, list_position(['critical', 'warning', 'info'], severity) AS urgency FROM found)
"""

WHOLE: Final = {
    "service_days": SERVICE_DAYS,
    "worker_health": WORKER_HEALTH,
    "failovers": FAILOVERS,
    "config_convergence": CONFIG_CONVERGENCE,
    "capacity": CAPACITY,
    "anomalies": ANOMALIES,
    "objectives": OBJECTIVES,
    "findings": FINDINGS,
}
