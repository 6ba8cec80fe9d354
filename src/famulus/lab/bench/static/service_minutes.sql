-- The same counts and the same histograms as the pipeline's table.
-- Minutes as microseconds: for zones DuckDB would need an extension.
with rows as (
    select epoch_us(ended) // 60000000 * 60000000 as minute_us, *,
        outcome in ('OK', 'ERROR', 'REJECTED', 'UNKNOWN') as is_final,
        is_final and delegated_from is null as is_settled,
        worker is not null and assigned is not null and outcome <> 'LATE' as is_run
    from read_parquet('{journal}/tasks/**/*.parquet', hive_partitioning = false)
), counts as (
    select minute_us, service, family, broker,
        count(*) filter (where is_settled) as tasks,
        count(*) filter (where is_settled and outcome = 'OK') as ok,
        count(*) filter (where is_settled and outcome = 'ERROR') as errors,
        count(*) filter (where is_settled and outcome = 'REJECTED') as rejected,
        count(*) filter (where is_settled and outcome = 'UNKNOWN') as unknown,
        count(*) filter (where is_settled and outcome = 'REJECTED' and reason = 'overload') as overloaded,
        count(*) filter (where is_settled and outcome = 'REJECTED' and reason in ('no_worker', 'no_service'))
            as no_worker,
        count(*) filter (where is_settled and reason = 'expired') as expired,
        count(*) filter (where outcome = 'RETRY') as retries,
        count(*) filter (where outcome = 'LATE') as late,
        count(*) filter (where outcome <> 'LATE' and delegated_to is not null) as delegated_out,
        count(*) filter (where is_final and delegated_from is not null) as delegated_in,
        count(*) filter (where is_run) as runs,
        coalesce(sum(request_bytes) filter (where is_settled), 0)::bigint as request_bytes,
        coalesce(sum(response_bytes) filter (where is_settled), 0)::bigint as response_bytes,
        coalesce(sum(service_ns) filter (where is_run), 0)::bigint as busy_ns
    from rows group by all
), buckets as (
    select minute_us, service, family, broker, measure,
        floor(ln(greatest(ns, 0) + 1) * 16)::int as bucket, count(*) as count
    from (unpivot (select minute_us, service, family, broker, queue_ns, service_ns, total_ns from rows where is_settled)
          on queue_ns, service_ns, total_ns into name measure value ns)
    group by all
), histograms as (
    select minute_us, service, family, broker,
        list(entry order by bucket) filter (where measure = 'queue_ns') as queue_hist,
        list(entry order by bucket) filter (where measure = 'service_ns') as service_hist,
        list(entry order by bucket) filter (where measure = 'total_ns') as total_hist
    from (select *, {'bucket': bucket, 'count': count} as entry from buckets) group by all
)
select * from counts left join histograms using (minute_us, service, family, broker)
