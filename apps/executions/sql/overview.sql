-- name: overview_pulse
-- How a tenant fares now, from what was due last: at most `sample` rows of the last `seconds`, by the index of the
-- tenant's ids; of a longer backlog also as many of those before `frontier`, the id that goes next: they began last.
-- Times in milliseconds. Of the last three columns: for each of `spans` equal spans of that time, up to now, [span,
-- begun, the p99 of how late]; how many succeeded; how many are dead letters.
WITH newest AS MATERIALIZED (
    SELECT e.id, e.scheduled_at, e.run_at, e.created_at, e.started_at, e.finished_at, e.attempt, e.status, e.class
    FROM executions e
    WHERE e.tenant_id = %(tenant)s AND e.id < %(edge)s
      AND e.scheduled_at > %(now)s::timestamptz - %(seconds)s * interval '1 second' AND e.scheduled_at <= %(now)s
    ORDER BY e.id DESC LIMIT %(sample)s
), r AS MATERIALIZED (
    SELECT * FROM newest
    UNION ALL
    (SELECT e.id, e.scheduled_at, e.run_at, e.created_at, e.started_at, e.finished_at, e.attempt, e.status, e.class
     FROM executions e
     WHERE e.tenant_id = %(tenant)s
       AND e.id < least(%(frontier)s::uuid, (SELECT n.id FROM newest n ORDER BY n.id LIMIT 1))
       AND (SELECT count(*) FROM newest) = %(sample)s AND %(frontier)s::uuid < %(edge)s::uuid
       AND e.scheduled_at > %(since)s AND e.scheduled_at <= %(now)s
     ORDER BY e.id DESC LIMIT %(sample)s)
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
-- jitter. What is due by `due` is left out.
SELECT floor(extract(epoch FROM x.scheduled_at - %(now)s) / 60)::int,
    greatest(0, floor(extract(epoch FROM x.run_at - %(now)s) / 60))::int, count(*)
FROM (
    SELECT e.scheduled_at, e.run_at FROM executions e
    WHERE e.tenant_id = %(tenant)s AND e.id >= %(first)s
      AND e.scheduled_at > %(now)s AND e.scheduled_at < %(now)s::timestamptz + interval '1 hour'
      AND e.run_at > %(due)s
      AND e.status IN {IN_PENDING}
    ORDER BY e.id LIMIT %(most)s
) x GROUP BY 1, 2

-- name: overview_planned_sample
-- The same of one day, from a part of its pages.
SELECT floor(extract(epoch FROM e.scheduled_at - %(now)s) / 60)::int,
    greatest(0, floor(extract(epoch FROM e.run_at - %(now)s) / 60))::int, count(*)
FROM {executions} e TABLESAMPLE SYSTEM (%(percent)s) REPEATABLE (1)
WHERE e.tenant_id = %(tenant)s AND e.status IN {IN_PENDING}
  AND e.scheduled_at > %(now)s AND e.scheduled_at < %(now)s::timestamptz + interval '1 hour' AND e.run_at > %(due)s
GROUP BY 1, 2

-- name: overview_waiting
-- What is due of a tenant and not in the hot tier: by class what waits for the preloader, and since when the first; by
-- each of `holds` what is held; each count ends at `most`. And whether a preloader leads.
WITH u AS (
    SELECT c.class, x.n, x.oldest FROM generate_series(0, 2) c(class) CROSS JOIN LATERAL (
        SELECT count(*) AS n, min(y.wake_at) AS oldest FROM (
            SELECT e.wake_at FROM executions e
            WHERE e.class = c.class AND e.tenant_id = %(tenant)s AND e.wake_at IS NOT NULL AND e.wake_at <= %(now)s
              AND e.scheduled_at > %(since)s AND e.scheduled_at <= %(now)s
            LIMIT %(most)s) y) x
), h AS (
    SELECT v.nth, x.n FROM unnest(%(holds)s::smallint[]) WITH ORDINALITY v(hold, nth) CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT 1 FROM executions e
            WHERE e.tenant_id = %(tenant)s AND e.hold = v.hold AND e.hold <> 0 AND e.run_at <= %(now)s
              AND e.scheduled_at > %(since)s AND e.scheduled_at <= %(now)s
            LIMIT %(most)s) y) x
)
SELECT (SELECT array_agg(n ORDER BY class) FROM u), (SELECT min(oldest) FROM u),
    (SELECT array_agg(n ORDER BY nth) FROM h),
    EXISTS (SELECT 1 FROM leases WHERE role = 'preloader' AND expires_at > clock_timestamp())
