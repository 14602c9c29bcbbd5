-- name: dispatch
-- Send one day's popped executions to workers; those of a shard whose epoch is stale are left alone.
-- g keeps the shards that this process still holds; c has the circuits that hold something back (mostly none); l locks
-- in key order and judges (verdict -1: not due yet, -2: it has waited too long); b finds retries above their tenant's
-- budget; j is the whole verdict; r ranks the rivals for one slot; t takes slots; d decides; u is the only write of the
-- status. What another transaction holds is skipped and comes back at the next tick.
WITH g AS MATERIALIZED (
    SELECT h.shard, h.epoch FROM unnest(%(held_shards)s, %(held_epochs)s) h(shard, epoch)
    JOIN leases ON role = 'dispatcher/' || h.shard AND leases.epoch = h.epoch AND expires_at > clock_timestamp()
), c AS MATERIALIZED (
    SELECT id, tenant_id, key, CASE WHEN quarantine_until > clock_timestamp() THEN 0 ELSE admit_below END AS below
    FROM circuit_breakers WHERE slow_start_until > clock_timestamp()
), l AS (
    SELECT e.scheduled_at, e.id, v.worker_id, g.epoch, e.slot_key, e.overlap, e.tenant_id,
        -- What a person replays, or was taken from a lost worker, has tried before and is no retry.
        e.attempt > 0 AND e.dispatched_at IS NOT NULL AS again,
        CASE
            WHEN e.run_at > clock_timestamp() + %(window)s * interval '1 ms' THEN -1
            ELSE coalesce(
                (SELECT h.reason FROM holds h
                 WHERE h.target_id IN (e.task_id, e.tenant_id, '00000000-0000-0000-0000-000000000000')
                   AND NOT (h.reason = {HOLD_PAUSED} AND e.origin IN ({ORIGIN_MANUAL}, {ORIGIN_RERUN}))
                 ORDER BY h.reason DESC LIMIT 1),
                CASE WHEN e.run_at + e.queue_seconds * interval '1 second' < clock_timestamp() THEN -2 END,
                {HOLD_NONE})
        END AS verdict,
        (SELECT c.id FROM c
         WHERE c.tenant_id = e.tenant_id AND {LOT} >= c.below
           AND c.key = (SELECT tv.circuit_key FROM task_versions tv WHERE tv.id = e.task_version_id)) AS circuit_id,
        coalesce((SELECT s.execution_id = e.id FROM slots s WHERE s.key = e.slot_key AND s.n = 0), false) AS holds_slot
    FROM unnest(%(ids)s, %(scheduled)s, %(workers)s, %(shards)s) v(id, s, worker_id, shard)
    JOIN g ON g.shard = v.shard
    JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
    WHERE CASE WHEN e.status = {PRELOADED} THEN true END
    ORDER BY e.scheduled_at, e.id
    FOR UPDATE OF e SKIP LOCKED
), b AS MATERIALIZED (
    SELECT q.id, (q.nth - coalesce(a.room, %(budget_room)s)) * 60.0 / coalesce(a.rate, %(budget_rate)s) AS seconds
    FROM (SELECT id, tenant_id, row_number() OVER (PARTITION BY tenant_id ORDER BY scheduled_at, id) AS nth
          FROM l WHERE again AND verdict = 0 AND circuit_id IS NULL) q
    LEFT JOIN unnest(%(budget_tenants)s, %(budget_rooms)s, %(budget_rates)s) a(tenant_id, room, rate)
        ON a.tenant_id = q.tenant_id
    WHERE q.nth > coalesce(a.room, %(budget_room)s)
), j AS (
    SELECT scheduled_at, id, worker_id, epoch, slot_key, overlap, again, holds_slot, circuit_id,
        CASE
            WHEN verdict <> 0 THEN verdict
            WHEN circuit_id IS NOT NULL THEN {HOLD_CIRCUIT}
            WHEN id IN (SELECT id FROM b) THEN {HOLD_RETRY_BUDGET}
            ELSE 0
        END AS verdict
    FROM l
), r AS (
    -- What holds the slot already (a retry) comes first, whoever is older.
    SELECT j.*, row_number() OVER (
        PARTITION BY slot_key, verdict = 0 ORDER BY holds_slot DESC, scheduled_at, id) AS rank
    FROM j
), t AS (
    INSERT INTO slots (key, n, execution_id, scheduled_at)
    SELECT slot_key, 0, id, scheduled_at FROM r
    WHERE slot_key IS NOT NULL AND verdict = 0 AND rank = 1
    ORDER BY slot_key
    ON CONFLICT (key, n) DO UPDATE SET execution_id = excluded.execution_id
        WHERE slots.execution_id = excluded.execution_id
    RETURNING key, execution_id
), d AS MATERIALIZED (
    SELECT r.scheduled_at, r.id, r.worker_id, r.epoch, r.verdict, r.again, r.circuit_id,
        -- Above a minute their times are spread: they would meet again.
        CASE WHEN r.verdict = {HOLD_RETRY_BUDGET} THEN clock_timestamp() + interval '1 second' * (
            SELECT CASE WHEN seconds < 60 THEN seconds ELSE 30 + 30 * random() END FROM b WHERE b.id = r.id)
        END AS later,
        CASE
            WHEN r.verdict = {HOLD_DELETED} THEN {CANCELLED}
            WHEN r.verdict = -2 THEN {DEAD_LETTER}
            WHEN r.verdict <> 0 THEN {SCHEDULED}
            WHEN r.slot_key IS NULL OR r.id IN (SELECT execution_id FROM t) THEN {DISPATCHED}
            WHEN r.overlap = {OVERLAP_SKIP} THEN {SKIPPED}
            WHEN r.overlap = {OVERLAP_BUFFER_ONE} AND (
                r.rank > CASE WHEN r.slot_key IN (SELECT key FROM t) THEN 2 ELSE 1 END
                OR (SELECT true FROM slot_waiters w WHERE w.key = r.slot_key LIMIT 1)) THEN {SKIPPED}
            ELSE {SCHEDULED}
        END AS target
    FROM r
), u AS (
    UPDATE {executions} e SET
        status = d.target,
        hold = CASE
            WHEN d.target IN ({CANCELLED}, {DEAD_LETTER}) THEN {HOLD_NONE}
            WHEN d.verdict > 0 THEN d.verdict
            WHEN d.verdict = 0 AND d.target = {SCHEDULED} THEN {HOLD_OVERLAP}
            ELSE {HOLD_NONE} END,
        token = CASE WHEN d.target = {DISPATCHED}
            THEN greatest(e.token + 1, d.epoch << 32) ELSE e.token END,
        worker_id = CASE WHEN d.target = {DISPATCHED} THEN d.worker_id END,
        dispatched_at = CASE WHEN d.target = {DISPATCHED} THEN clock_timestamp() ELSE e.dispatched_at END,
        finished_at = CASE WHEN d.target IN {IN_RESTING} THEN clock_timestamp() END,
        run_at = coalesce(d.later, e.run_at),
        wake_at = CASE WHEN d.verdict = -1 THEN e.run_at ELSE d.later END,
        error = CASE WHEN d.target = {DEAD_LETTER} THEN jsonb_build_object('type', 'QueueTimeout', 'class', 'timeout',
            'message', 'not dispatched within queue_seconds (' || e.queue_seconds || ' s) of its time') ELSE e.error END,
        version = e.version + 1
    FROM d
    WHERE e.scheduled_at = d.scheduled_at AND e.id = d.id
    RETURNING e.id, e.scheduled_at, e.run_at, e.token, e.status, e.hold, e.worker_id, e.class, e.tenant_id,
        e.task_id, e.slot_key, e.overlap, d.again, d.circuit_id
), o AS (
    INSERT INTO outstanding (execution_id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at)
    SELECT id, scheduled_at, worker_id, class, tenant_id, token, clock_timestamp() FROM u
    WHERE status = {DISPATCHED}
    ON CONFLICT (execution_id) DO UPDATE SET worker_id = excluded.worker_id, token = excluded.token,
        dispatched_at = excluded.dispatched_at
), w AS (
    INSERT INTO slot_waiters (key, scheduled_at, execution_id)
    SELECT slot_key, scheduled_at, id FROM u WHERE status = {SCHEDULED} AND hold = {HOLD_OVERLAP}
    ON CONFLICT DO NOTHING
), cw AS (
    INSERT INTO circuit_waiters (circuit_id, lot, scheduled_at, execution_id)
    SELECT circuit_id, {LOT}, scheduled_at, id FROM u e WHERE status = {SCHEDULED} AND hold = {HOLD_CIRCUIT}
    ON CONFLICT DO NOTHING
), f AS (
    DELETE FROM slots s USING u
    WHERE u.status IN ({CANCELLED}, {DEAD_LETTER}) AND s.key = u.slot_key AND s.execution_id = u.id
), q AS (
    INSERT INTO dead_letters (execution_id, scheduled_at, tenant_id, task_id, fingerprint, since)
    SELECT id, scheduled_at, tenant_id, task_id, 'QueueTimeout', clock_timestamp() FROM u
    WHERE status = {DEAD_LETTER}
    ON CONFLICT (execution_id) DO NOTHING
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, {PRELOADED}, status, token, 'dispatcher',
        CASE status WHEN {SKIPPED} THEN 'overlap: an earlier execution of the task still runs'
                    WHEN {DEAD_LETTER} THEN 'queue timeout: it waited longer than queue_seconds'
                    ELSE 'the task was deleted' END
    FROM u WHERE status IN ({SKIPPED}, {CANCELLED}, {DEAD_LETTER})
)
SELECT id, token, status, worker_id, class, tenant_id, slot_key, overlap,
    (extract(epoch FROM run_at) * 1000000)::bigint AS run_at_us, hold, again
FROM u

-- name: still_preloaded
-- Which of these popped executions wait still: another transaction held them when they were to be dispatched.
SELECT e.id FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
WHERE CASE WHEN e.status = {PRELOADED} THEN true END

-- name: outstanding_by_worker
-- What each worker has been sent of each class and has not ended: what credits are counted from.
SELECT worker_id, class, count(*) FROM outstanding WHERE dispatched_at > %(since)s GROUP BY worker_id, class

-- name: routes
-- The labels of every route.
SELECT id, labels FROM routes

-- name: put_aside
-- One day's popped executions whose labels no live worker carries wait in the ledger until one does; those of a shard
-- whose epoch is stale are left alone.
WITH g AS MATERIALIZED (
    SELECT h.shard FROM unnest(%(held_shards)s, %(held_epochs)s) h(shard, epoch)
    JOIN leases ON role = 'dispatcher/' || h.shard AND leases.epoch = h.epoch AND expires_at > clock_timestamp()
), l AS (
    SELECT e.scheduled_at, e.id FROM unnest(%(ids)s, %(scheduled)s, %(shards)s) v(id, s, shard)
    JOIN g ON g.shard = v.shard
    JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
    WHERE CASE WHEN e.status = {PRELOADED} THEN true END
    ORDER BY e.scheduled_at, e.id
    FOR UPDATE OF e SKIP LOCKED
), u AS (
    UPDATE {executions} e SET status = {SCHEDULED}, hold = {HOLD_NO_WORKER}, wake_at = NULL, version = e.version + 1
    FROM l WHERE e.scheduled_at = l.scheduled_at AND e.id = l.id
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.route_id
), w AS (
    INSERT INTO route_waiters (route_id, tenant_id, scheduled_at, execution_id)
    SELECT route_id, tenant_id, scheduled_at, id FROM u
    ON CONFLICT DO NOTHING
)
SELECT id, tenant_id FROM u

-- name: routes_waited_for
-- Which (route, tenant) work waits for: one index probe each, however much waits.
WITH RECURSIVE p AS (
    (SELECT route_id, tenant_id FROM route_waiters ORDER BY route_id, tenant_id LIMIT 1)
    UNION ALL
    SELECT n.route_id, n.tenant_id FROM p CROSS JOIN LATERAL (
        SELECT w.route_id, w.tenant_id FROM route_waiters w
        WHERE (w.route_id, w.tenant_id) > (p.route_id, p.tenant_id)
        ORDER BY w.route_id, w.tenant_id LIMIT 1) n
)
SELECT route_id, tenant_id FROM p LIMIT %(limit)s

-- name: forget_gone_waiters
-- Of the oldest that wait for a route, those that do not any more: cancelled, edited, paused.
DELETE FROM route_waiters w USING (
    SELECT q.route_id, q.tenant_id, q.scheduled_at, q.execution_id FROM (
        SELECT * FROM route_waiters WHERE route_id = %(route)s AND tenant_id = %(tenant)s
        ORDER BY scheduled_at, execution_id LIMIT %(limit)s) q
    LEFT JOIN executions e ON e.scheduled_at = q.scheduled_at AND e.id = q.execution_id
    WHERE CASE WHEN e.status = {SCHEDULED} AND e.hold = {HOLD_NO_WORKER} THEN true END IS NULL
) f
WHERE w.route_id = f.route_id AND w.tenant_id = f.tenant_id AND w.scheduled_at = f.scheduled_at
  AND w.execution_id = f.execution_id

-- name: take_route_waiters
-- The oldest that wait for a route: a worker that carries its labels has come.
DELETE FROM route_waiters w USING (
    SELECT route_id, tenant_id, scheduled_at, execution_id FROM route_waiters
    WHERE route_id = %(route)s AND tenant_id = %(tenant)s
    ORDER BY scheduled_at, execution_id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) f
WHERE w.route_id = f.route_id AND w.tenant_id = f.tenant_id AND w.scheduled_at = f.scheduled_at
  AND w.execution_id = f.execution_id
RETURNING w.execution_id

-- name: wake_route_waiters
-- Executions of one day that waited for such a worker may be dispatched.
UPDATE {executions} e SET hold = {HOLD_NONE}, wake_at = e.run_at, version = e.version + 1
FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
WHERE e.scheduled_at = v.s AND e.id = v.id
  AND CASE WHEN e.status = {SCHEDULED} AND e.hold = {HOLD_NO_WORKER} THEN true END
RETURNING e.id, e.tenant_id

-- name: lock_tenants
-- Nobody else dispatches for these tenants until the transaction ends; in one order, so that nobody waits in a circle.
SELECT pg_advisory_xact_lock(%(class)s, o) FROM (SELECT unnest(%(objects)s::int[]) AS o ORDER BY 1) k

-- name: outstanding_of_tenants
-- What each tenant has outstanding; counted after its lock was taken, in a statement of its own that sees all of it.
SELECT tenant_id, count(*) FROM outstanding WHERE tenant_id = ANY(%(tenants)s::uuid[]) GROUP BY tenant_id

-- name: limited_tenants
-- Tenants that differ from the plain ones: their weight and limits, and what they have outstanding.
SELECT t.id, t.weight, t.max_concurrent_workers, t.rate_limit_rps,
    (SELECT count(*) FROM outstanding o WHERE o.tenant_id = t.id)
FROM tenants t
WHERE t.weight <> %(plain)s OR t.max_concurrent_workers IS NOT NULL OR t.rate_limit_rps IS NOT NULL

-- name: states_of
-- Where these executions are: a new owner of a shard decides from it what an in-flight entry has become.
SELECT e.id, e.status, e.token, e.worker_id, e.class, e.tenant_id,
    (extract(epoch FROM e.run_at - clock_timestamp()) * 1000)::float8 AS due_in_ms,
    e.route_id
FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id

-- name: request_cancel_of_slot_holders
-- Overlap policy cancel_other: ask what holds the slot to stop; its worker, or the watchdog, ends it. A holder that
-- waits for its next attempt is with no worker: it ends here.
WITH u AS (
    UPDATE executions e SET
        status = CASE WHEN e.status IN {IN_ACTIVE} THEN e.status ELSE {CANCELLED} END,
        cancel_requested_at = coalesce(e.cancel_requested_at, clock_timestamp()),
        finished_at = CASE WHEN e.status IN {IN_PENDING} THEN clock_timestamp() END,
        wake_at = CASE WHEN e.status NOT IN {IN_PENDING} THEN e.wake_at END,
        version = e.version + 1
    FROM slots s
    WHERE s.key = ANY(%(keys)s) AND e.scheduled_at = s.scheduled_at AND e.id = s.execution_id
      AND (e.status IN {IN_PENDING} OR e.status IN {IN_ACTIVE} AND e.cancel_requested_at IS NULL)
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.slot_key, e.status, e.token
), f AS (
    DELETE FROM slots s USING u WHERE u.status = {CANCELLED} AND s.key = u.slot_key AND s.execution_id = u.id
), x AS (
    INSERT INTO execution_events (scheduled_at, execution_id, tenant_id, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, status, token, 'dispatcher',
        'overlap: a later execution of the task takes its place'
    FROM u WHERE status = {CANCELLED}
)
SELECT id FROM u
