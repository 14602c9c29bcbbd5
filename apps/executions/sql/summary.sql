-- name: summary
-- The installation in figures. The sample is what was due last and has begun: the primary key is walked backwards.
WITH w AS (
    SELECT count(*) AS alive, coalesce(sum(slots), 0) AS slots, coalesce(sum(completed_last_minute), 0) AS completed,
        coalesce(sum(errors_last_minute), 0) AS errors
    FROM workers WHERE state IN ('active', 'draining')
), s AS (
    SELECT extract(epoch FROM e.started_at - greatest(e.run_at, e.created_at)) * 1000 AS late,
        extract(epoch FROM e.finished_at - e.started_at) * 1000 AS ran
    FROM (SELECT * FROM executions
          WHERE scheduled_at <= statement_timestamp()
            AND scheduled_at > statement_timestamp() - %(minutes)s * interval '1 minute'
          ORDER BY scheduled_at DESC, id DESC LIMIT %(sample)s) e
    WHERE e.started_at IS NOT NULL AND e.attempt = 1
)
SELECT w.alive, w.slots, w.completed, w.errors,
    (SELECT count(*) FROM outstanding),
    (SELECT count(*) FROM (SELECT 1 FROM dead_letters LIMIT %(most)s) d),
    (SELECT coalesce(sum(used), 0)::bigint FROM tenant_usage
     WHERE kind = {USE_EXECUTIONS} AND window_start = {THIS_HOUR}),
    (SELECT (percentile_cont(0.5) WITHIN GROUP (ORDER BY greatest(late, 0)))::float8 FROM s),
    (SELECT (percentile_cont(0.99) WITHIN GROUP (ORDER BY greatest(late, 0)))::float8 FROM s),
    (SELECT (percentile_cont(0.5) WITHIN GROUP (ORDER BY ran))::float8 FROM s),
    (SELECT (percentile_cont(0.99) WITHIN GROUP (ORDER BY ran))::float8 FROM s),
    (SELECT count(*) FROM s)
FROM w

-- name: summary_outstanding
SELECT class, count(*) FROM outstanding GROUP BY class

-- name: summary_holds
-- How many tasks are paused, and tenants frozen or over a quota.
SELECT reason, count(*) FROM holds GROUP BY reason
