-- name: overview_pulse
-- How a tenant fares now, from what was due last: at most `sample` rows of the last `seconds`, by the index of the
-- tenant's ids. Times in milliseconds. Of the last three columns: for each of `spans` equal spans of that time, up to
-- now, [span, begun, the p99 of how late]; how many succeeded; how many are dead letters.
WITH r AS MATERIALIZED (
    SELECT e.scheduled_at, e.run_at, e.created_at, e.started_at, e.finished_at, e.attempt, e.status, e.class
    FROM executions e
    WHERE e.tenant_id = %(tenant)s AND e.id < %(edge)s
      AND e.scheduled_at > %(now)s::timestamptz - %(seconds)s * interval '1 second' AND e.scheduled_at <= %(now)s
    ORDER BY e.id DESC LIMIT %(sample)s
), c AS (
    SELECT count(*) AS n, CASE WHEN count(*) < %(sample)s THEN %(seconds)s::float8
        ELSE greatest(extract(epoch FROM %(now)s - min(scheduled_at)), 0.001)::float8 END AS span
    FROM r
), s AS (
    SELECT greatest(extract(epoch FROM started_at - greatest(run_at, created_at)) * 1000, 0)::float8 AS late,
        least(%(spans)s - 1, greatest(0, floor(
            %(spans)s * (1 - extract(epoch FROM %(now)s - scheduled_at) / c.span))))::int AS part
    FROM r, c WHERE started_at IS NOT NULL AND attempt = 1 AND status <> {RETRYING}
), p AS (
    SELECT part, count(*) AS begun, percentile_disc(0.99) WITHIN GROUP (ORDER BY late) AS late FROM s GROUP BY part
), w AS (
    SELECT class FROM r WHERE status IN {IN_PENDING} AND run_at <= %(now)s
)
SELECT c.n, c.span,
    (SELECT count(*) FROM s), (SELECT count(*) FROM s WHERE late <= %(on_time_ms)s),
    (SELECT percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY late) FROM s),
    (SELECT count(*) FROM r WHERE finished_at > %(now)s::timestamptz - least(60, c.span) * interval '1 second'),
    (SELECT array[count(*) FILTER (WHERE class = 0), count(*) FILTER (WHERE class = 1),
        count(*) FILTER (WHERE class = 2)] FROM w),
    (SELECT coalesce(jsonb_agg(jsonb_build_array(part, begun, late)), '[]'::jsonb)::text FROM p),
    (SELECT count(*) FROM r WHERE status = {COMPLETED}), (SELECT count(*) FROM r WHERE status = {DEAD_LETTER})
FROM c

-- name: overview_few
-- A tenant's executions of a day by state, counted one by one as far as `most`.
SELECT status, count(*) FROM (
    SELECT e.status FROM {executions} e WHERE e.tenant_id = %(tenant)s LIMIT %(most)s
) x GROUP BY status

-- name: overview_pages
-- Pages of a day's partition.
SELECT pg_relation_size('{executions}') / current_setting('block_size')::int

-- name: overview_sample
-- The same from a part of the day's pages, always the same part while the day does not grow.
SELECT e.status, count(*) FROM {executions} e TABLESAMPLE SYSTEM (%(percent)s) REPEATABLE (1)
WHERE e.tenant_id = %(tenant)s GROUP BY e.status

-- name: overview_exact
-- A tenant's dead letters of a day, counted one by one as far as `most`.
SELECT count(*) FROM (
    SELECT 1 FROM dead_letters WHERE tenant_id = %(tenant)s AND execution_id >= %(first)s AND execution_id < %(last)s
    LIMIT %(most)s) d

-- name: overview_has_day
SELECT to_regclass('{executions}') IS NOT NULL

-- name: overview_planned
-- Executions that are in the ledger already and due within the hour, by the minute from now on: as planned, and with
-- jitter.
SELECT floor(extract(epoch FROM x.scheduled_at - %(now)s) / 60)::int,
    greatest(0, floor(extract(epoch FROM x.run_at - %(now)s) / 60))::int, count(*)
FROM (
    SELECT e.scheduled_at, e.run_at FROM executions e
    WHERE e.tenant_id = %(tenant)s AND e.id >= %(first)s
      AND e.scheduled_at > %(now)s AND e.scheduled_at < %(now)s::timestamptz + interval '1 hour'
      AND e.status IN {IN_PENDING}
    ORDER BY e.id LIMIT %(most)s
) x GROUP BY 1, 2

-- name: overview_planned_sample
-- The same of one day, from a part of its pages.
SELECT floor(extract(epoch FROM e.scheduled_at - %(now)s) / 60)::int,
    greatest(0, floor(extract(epoch FROM e.run_at - %(now)s) / 60))::int, count(*)
FROM {executions} e TABLESAMPLE SYSTEM (%(percent)s) REPEATABLE (1)
WHERE e.tenant_id = %(tenant)s AND e.status IN {IN_PENDING}
  AND e.scheduled_at > %(now)s AND e.scheduled_at < %(now)s::timestamptz + interval '1 hour'
GROUP BY 1, 2
