-- name: usage_add
-- Add to what tenants have used in the windows that are open now. Answers with their new sums and what they may have
-- (NULL: any).
WITH u AS (
    INSERT INTO tenant_usage AS u (tenant_id, kind, window_start, used)
    SELECT v.tenant, v.kind, {USE_WINDOW}, v.amount FROM unnest(%(tenants)s, %(kinds)s, %(amounts)s) v(tenant, kind, amount)
    ORDER BY v.tenant, v.kind
    ON CONFLICT (tenant_id, kind, window_start) DO UPDATE SET used = u.used + excluded.used
    RETURNING u.tenant_id, u.kind, u.used
)
SELECT u.tenant_id, u.kind, u.used, q.most
FROM u JOIN tenants t ON t.id = u.tenant_id JOIN LATERAL {QUOTAS} ON q.kind = u.kind

-- name: usage_add_logs
-- The same for logs that were kept: they count until their day is dropped, so the sum of each day is kept, too.
INSERT INTO tenant_usage AS u (tenant_id, kind, window_start, used)
SELECT v.tenant, {USE_LOGS_OF_DAY}, to_timestamp(%(day)s::bigint * 86400), v.amount
FROM unnest(%(tenants)s, %(amounts)s) v(tenant, amount)
ORDER BY v.tenant
ON CONFLICT (tenant_id, kind, window_start) DO UPDATE SET used = u.used + excluded.used

-- name: usage_drop_logs
-- Logs of the days before this one are gone.
WITH d AS (
    DELETE FROM tenant_usage WHERE kind = {USE_LOGS_OF_DAY} AND window_start < to_timestamp(%(day)s::bigint * 86400)
    RETURNING tenant_id, used
)
UPDATE tenant_usage u SET used = greatest(0, u.used - s.used)
FROM (SELECT tenant_id, sum(used) AS used FROM d GROUP BY tenant_id) s
WHERE u.tenant_id = s.tenant_id AND u.kind = {USE_LOGS}

-- name: usage_of
-- What tenants have used in the windows that are open now, and what they may have.
SELECT t.id, q.kind, coalesce(u.used, 0), q.most, q.since, q.until, u.told_at
FROM tenants t CROSS JOIN LATERAL {QUOTAS}
LEFT JOIN tenant_usage u ON u.tenant_id = t.id AND u.kind = q.kind AND u.window_start = q.since
WHERE t.id = ANY(%(tenants)s::uuid[])
ORDER BY t.id, q.kind

-- name: usage_of_hour
-- How many executions of limited tenants have been dispatched in this hour.
SELECT u.tenant_id, u.used FROM tenant_usage u JOIN tenants t ON t.id = u.tenant_id
WHERE u.kind = {USE_EXECUTIONS} AND u.window_start = {THIS_HOUR}
  AND t.executions_per_hour IS NOT NULL

-- name: quota_judge
-- Which of these tenants have used up a quota: nothing more of them is dispatched. Their owners are told by an audit
-- entry, once a window.
WITH over AS (
    SELECT t.id, q.kind, q.name, q.shown, u.used, q.most, q.since, q.until
    FROM tenants t CROSS JOIN LATERAL {QUOTAS}
    JOIN tenant_usage u ON u.tenant_id = t.id AND u.kind = q.kind AND u.window_start = q.since
    WHERE t.id = ANY(%(tenants)s::uuid[]) AND u.used >= q.most
), o AS (
    UPDATE tenant_usage u SET told_at = clock_timestamp() FROM over
    WHERE u.tenant_id = over.id AND u.kind = over.kind AND u.window_start = over.since AND u.told_at IS NULL
    RETURNING over.id, over.name, over.shown, over.since, over.until
), a AS (
    INSERT INTO audit_log (tenant_id, at, actor, action, target_type, target_id, detail)
    SELECT o.id, clock_timestamp(), 'chronoweb', 'quota.reached', 'tenant', o.id::text, jsonb_build_object(
        'quota', o.name, 'limit', o.shown, 'window_start', o.since, 'window_end', o.until)
    FROM o
)
INSERT INTO holds (target_id, reason, note, actor, since)
SELECT DISTINCT ON (id) id, {HOLD_QUOTA}, name, 'chronoweb', clock_timestamp() FROM over ORDER BY id, kind
ON CONFLICT (target_id, reason) DO NOTHING
RETURNING target_id

-- name: quota_clear
-- Tenants that may go on: the window has moved, or the quota was raised.
DELETE FROM holds h WHERE h.reason = {HOLD_QUOTA} AND NOT EXISTS (
    SELECT 1 FROM tenants t CROSS JOIN LATERAL {QUOTAS}
    JOIN tenant_usage u ON u.tenant_id = t.id AND u.kind = q.kind AND u.window_start = q.since
    WHERE t.id = h.target_id AND u.used >= q.most)
RETURNING h.target_id

-- name: usage_forget
-- Windows that are long closed.
DELETE FROM tenant_usage
WHERE kind = {USE_EXECUTIONS} AND window_start < statement_timestamp() - interval '2 days'
   OR kind = {USE_COMPUTE} AND window_start < statement_timestamp() - interval '400 days'
