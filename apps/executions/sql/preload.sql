-- name: waiting_queues
-- Which (class, tenant, route) have executions of one day that wait for the preloader: one index probe each, however
-- many executions wait. Those of tenants that are frozen or have used up a quota are left where they are.
WITH RECURSIVE p AS (
    (SELECT class, tenant_id, route_id FROM {executions} WHERE wake_at IS NOT NULL
     ORDER BY class, tenant_id, route_id LIMIT 1)
    UNION ALL
    SELECT n.class, n.tenant_id, n.route_id FROM p CROSS JOIN LATERAL (
        SELECT e.class, e.tenant_id, e.route_id FROM {executions} e
        WHERE e.wake_at IS NOT NULL AND (e.class, e.tenant_id, e.route_id) > (p.class, p.tenant_id, p.route_id)
        ORDER BY e.class, e.tenant_id, e.route_id LIMIT 1) n
)
SELECT class, tenant_id, route_id FROM p
WHERE NOT EXISTS (SELECT 1 FROM holds h WHERE h.target_id = p.tenant_id AND h.reason IN {HOLDS_WIDE})
LIMIT %(limit)s

-- name: hydrate
-- Move what comes due within the lookahead to the hot tier's state: of each (class, tenant, route) its earliest, as many
-- as the hot tier has room for.
WITH c AS (
    SELECT x.scheduled_at, x.id
    FROM unnest(%(classes)s, %(tenants)s, %(routes)s, %(rooms)s) w(class, tenant_id, route_id, room)
    CROSS JOIN LATERAL (
        SELECT e.scheduled_at, e.id FROM {executions} e
        WHERE e.class = w.class AND e.tenant_id = w.tenant_id AND e.route_id = w.route_id AND e.wake_at IS NOT NULL
          AND e.wake_at < clock_timestamp() + %(lookahead)s * interval '1 second'
          AND CASE WHEN e.status IN ({SCHEDULED}, {RETRYING}, {PRELOADED}) AND e.hold IN ({HOLD_NONE}, {HOLD_RETRY_BUDGET}, {HOLD_FROZEN}, {HOLD_QUOTA})
                THEN true END
        ORDER BY e.wake_at LIMIT w.room
        FOR UPDATE SKIP LOCKED) x
)
UPDATE {executions} e SET status = {PRELOADED}, wake_at = NULL, version = e.version + 1,
    hold = CASE WHEN e.hold IN {HOLDS_WIDE} THEN {HOLD_NONE} ELSE e.hold END
FROM c
WHERE e.scheduled_at = c.scheduled_at AND e.id = c.id
  AND EXISTS (SELECT 1 FROM leases
              WHERE role = %(role)s AND epoch = %(epoch)s AND expires_at > clock_timestamp())
RETURNING e.id, (extract(epoch FROM e.run_at - statement_timestamp()) * 1000)::float8 AS due_in_ms, e.class,
    e.tenant_id, e.route_id

-- name: day_waits
-- Whether anything of the day waits for the preloader; the days' answers are joined by UNION ALL.
SELECT %(day)s::int AS day WHERE EXISTS (SELECT 1 FROM {executions} WHERE wake_at IS NOT NULL)

-- name: evict
-- Take executions out of the hot tier's state: they come back when they are nearer. Redis forgets them afterwards.
UPDATE {executions} e SET status = {SCHEDULED}, wake_at = e.run_at, version = e.version + 1
FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
WHERE e.scheduled_at = v.s AND e.id = v.id
  AND CASE WHEN e.status = {PRELOADED} AND e.wake_at IS NULL THEN true END
  AND EXISTS (SELECT 1 FROM leases
              WHERE role = %(role)s AND epoch = %(epoch)s AND expires_at > clock_timestamp())
RETURNING e.id

-- name: preloaded_of_day
-- Everything of one day that the hot tier should hold, due first first: what a new leader, or an emptied Redis, adds
-- again. Shards are the last four bits of the id.
SELECT id, (extract(epoch FROM run_at - statement_timestamp()) * 1000)::float8 AS due_in_ms, class, tenant_id,
    route_id
FROM {executions}
WHERE status = {PRELOADED} AND wake_at IS NULL
  AND (get_byte(uuid_send(id), 15) & 15) = ANY(%(shards)s)
ORDER BY run_at

-- name: insert_executions
-- Add executions; one that is there already (same tenant, key and scheduled_at) stays as it is.
INSERT INTO executions (id, scheduled_at, run_at, nominal_at, wake_at, finished_at, tenant_id, task_id, task_version_id,
    max_attempts, status, hold, class, priority, origin, overlap, slot_key, idempotency_key, payload, rerun_of,
    queue_seconds, route_id, concurrency_key, traceparent)
SELECT v.id, v.scheduled, v.run, v.nominal,
    CASE WHEN v.status = {SCHEDULED} AND v.hold = {HOLD_NONE} THEN v.run END,
    CASE WHEN v.status IN {IN_RESTING} THEN clock_timestamp() END,
    v.tenant, v.task, v.version_id, v.max_attempts, v.status, v.hold, v.class, v.priority, v.origin, v.overlap,
    v.slot_key, v.idempotency_key, v.payload::jsonb, v.rerun_of::uuid, v.queue_seconds, v.route, v.concurrency_key,
    v.trace
FROM unnest(%(ids)s, %(scheduled)s, %(run)s, %(nominal)s, %(tenants)s, %(tasks)s, %(versions)s, %(max_attempts)s,
    %(statuses)s, %(holds)s, %(classes)s, %(priorities)s, %(origins)s, %(overlaps)s, %(slot_keys)s, %(keys)s,
    %(payloads)s, %(rerun_of)s, %(queue_seconds)s, %(routes)s, %(concurrency_keys)s, %(traces)s)
    v(id, scheduled, run, nominal, tenant, task, version_id, max_attempts, status, hold, class, priority, origin,
      overlap, slot_key, idempotency_key, payload, rerun_of, queue_seconds, route, concurrency_key, trace)
ON CONFLICT (tenant_id, idempotency_key, scheduled_at) DO NOTHING
RETURNING id

-- name: record_events
-- Say why executions were moved, or made in an unusual state.
INSERT INTO execution_events (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
SELECT v.scheduled, v.id, v.tenant, v.source, v.target, 0, %(actor)s, v.reason
FROM unnest(%(ids)s, %(scheduled)s, %(tenants)s, %(sources)s, %(targets)s, %(reasons)s)
    v(id, scheduled, tenant, source, target, reason)
