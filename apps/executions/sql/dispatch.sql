-- name: dispatch
-- Send one day's popped executions to workers; those of a shard whose epoch is stale are left alone.
-- g keeps the shards that this process still holds; c has the circuits that hold something back (mostly none); l locks
-- in key order and judges (verdict -1: not due yet, -2: it has waited too long); b finds retries above their tenant's
-- budget; j is the whole verdict; p sees which of those with a concurrency key fit into its places (mostly none has
-- one); r ranks the rivals for one overlap slot; k and t take places and slots: keys before slots, each in their order,
-- so that two dispatchers do not wait for each other; d decides; u is the only write of the status. What another
-- transaction holds, or another dispatcher was faster with, is left alone and comes back at the next tick.
WITH g AS MATERIALIZED (
    SELECT h.shard, h.epoch FROM unnest(%(held_shards)s, %(held_epochs)s) h(shard, epoch)
    JOIN leases ON role = 'dispatcher/' || h.shard AND leases.epoch = h.epoch AND expires_at > clock_timestamp()
), c AS MATERIALIZED (
    SELECT id, tenant_id, key, CASE WHEN quarantine_until > clock_timestamp() THEN 0 ELSE admit_below END AS below
    FROM circuit_breakers WHERE slow_start_until > clock_timestamp()
), l AS (
    SELECT e.scheduled_at, e.id, v.worker_id, g.epoch, e.slot_key, e.overlap, e.tenant_id, e.task_version_id,
        e.concurrency_key, e.token > 0 AS admitted,
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
        -- Whether it holds its overlap slot already (a retry); NULL: nobody does.
        (SELECT s.execution_id = e.id FROM slots s WHERE s.key = e.slot_key AND s.n = 0) AS is_holder
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
    SELECT scheduled_at, id, worker_id, epoch, slot_key, overlap, again, is_holder, circuit_id, task_version_id,
        concurrency_key, admitted,
        CASE
            WHEN verdict <> 0 THEN verdict
            WHEN circuit_id IS NOT NULL THEN {HOLD_CIRCUIT}
            WHEN id IN (SELECT id FROM b) THEN {HOLD_RETRY_BUDGET}
            ELSE 0
        END AS verdict
    FROM l
), p AS (
    -- places: how many the key has; held: how many of them are taken; queues: it stands behind somebody who waits.
    SELECT q.*, max(counted) OVER (PARTITION BY concurrency_key) AS held,
        row_number() OVER (PARTITION BY concurrency_key, queues ORDER BY scheduled_at, id) AS nth,
        count(*) OVER (PARTITION BY concurrency_key, queues) AS rivals
    FROM (
        SELECT f.*, CASE WHEN first THEN (SELECT count(*) FROM slots s WHERE s.key = concurrency_key) END AS counted,
            when_full = 'queue' AND EXISTS (
                SELECT 1 FROM slot_waiters w WHERE w.key = concurrency_key
                AND (w.scheduled_at, w.execution_id) < (f.scheduled_at, f.id)) AS queues
        FROM (
            SELECT j.*, coalesce((tv.definition -> 'concurrency' ->> 'limit')::int, 1) AS places,
                coalesce(tv.definition -> 'concurrency' ->> 'when_full', 'queue') AS when_full,
                row_number() OVER (PARTITION BY concurrency_key) = 1 AS first
            FROM j JOIN task_versions tv ON tv.id = j.task_version_id
            WHERE j.concurrency_key IS NOT NULL AND j.verdict = 0
        ) f
    ) q
), r AS (
    -- What holds the slot already comes first, whoever is older.
    SELECT x.*, row_number() OVER (
        PARTITION BY slot_key, verdict = 0 ORDER BY coalesce(is_holder, false) DESC, fits DESC, scheduled_at, id) AS rank
    FROM (
        SELECT j.*, NULL::int AS places, NULL::text AS when_full, 0::bigint AS held, false AS queues, true AS fits FROM j
        WHERE concurrency_key IS NULL OR verdict <> 0
        UNION ALL
        SELECT scheduled_at, id, worker_id, epoch, slot_key, overlap, again, is_holder, circuit_id, task_version_id,
            concurrency_key, admitted, verdict, places, when_full, held, queues,
            NOT queues AND CASE when_full WHEN 'cancel_oldest' THEN rivals - nth + 1 ELSE nth END <= places - held
        FROM p
    ) x
), k AS (
    -- The free numbers from 1 on: among as many as are held and wanted, enough are free.
    INSERT INTO slots (key, n, execution_id, scheduled_at)
    SELECT concurrency_key, CASE WHEN held = 0 THEN nth ELSE (
            SELECT i FROM generate_series(1, held + nth) i
            WHERE NOT EXISTS (SELECT 1 FROM slots s WHERE s.key = concurrency_key AND s.n = i)
            ORDER BY i OFFSET nth - 1 LIMIT 1) END AS n,
        id, scheduled_at
    FROM (SELECT r.*, row_number() OVER (PARTITION BY concurrency_key ORDER BY scheduled_at, id) AS nth FROM r
          WHERE concurrency_key IS NOT NULL AND verdict = 0 AND fits
            AND (slot_key IS NULL OR rank = 1 AND is_holder IS NOT false)) w
    ORDER BY concurrency_key, n
    ON CONFLICT (key, n) DO NOTHING
    RETURNING key, execution_id
), y AS (
    -- Counting waits for all of k, so that every dispatcher takes places first.
    SELECT * FROM r
    WHERE slot_key IS NOT NULL AND verdict = 0 AND fits AND rank = 1 AND is_holder IS NOT false
      AND (SELECT count(*) FROM k) >= 0 AND (concurrency_key IS NULL OR id IN (SELECT execution_id FROM k))
), t AS (
    INSERT INTO slots (key, n, execution_id, scheduled_at)
    SELECT slot_key, 0, id, scheduled_at FROM y ORDER BY slot_key
    ON CONFLICT (key, n) DO UPDATE SET execution_id = excluded.execution_id
        WHERE slots.execution_id = excluded.execution_id
    RETURNING key, execution_id
), d AS MATERIALIZED (
    SELECT z.*,
        -- Above a minute their times are spread: they would meet again.
        CASE WHEN verdict = {HOLD_RETRY_BUDGET} THEN clock_timestamp() + interval '1 second' * (
            SELECT CASE WHEN seconds < 60 THEN seconds ELSE 30 + 30 * random() END FROM b WHERE b.id = z.id)
        END AS later,
        CASE
            WHEN verdict = {HOLD_DELETED} THEN {CANCELLED}
            WHEN verdict = -2 THEN {DEAD_LETTER}
            WHEN verdict <> 0 THEN {SCHEDULED}
            WHEN NOT lacks_slot AND (concurrency_key IS NULL OR has_place) THEN {DISPATCHED}
            WHEN rival AND overlap = {OVERLAP_SKIP} THEN {SKIPPED}
            WHEN rival AND overlap = {OVERLAP_BUFFER_ONE} AND (
                rank > CASE WHEN slot_key IN (SELECT key FROM t) THEN 2 ELSE 1 END
                OR (SELECT true FROM slot_waiters w WHERE w.key = slot_key LIMIT 1)) THEN {SKIPPED}
            WHEN rival OR queues THEN {SCHEDULED}
            -- Places are free after all: who was to have them has not come by his slot, or lost a race.
            WHEN held + (SELECT count(*) FROM k WHERE k.key = concurrency_key) < places THEN NULL
            WHEN when_full = 'skip_newest' AND NOT admitted THEN {SKIPPED}
            ELSE {SCHEDULED}
        END AS target
    FROM (
        SELECT r.*, concurrency_key IS NOT NULL AND id IN (SELECT execution_id FROM k) AS has_place,
            slot_key IS NOT NULL AND id NOT IN (SELECT execution_id FROM t) AS lacks_slot,
            -- Somebody else has the overlap slot.
            slot_key IS NOT NULL AND id NOT IN (SELECT execution_id FROM t)
                AND (is_holder IS false OR slot_key IN (SELECT slot_key FROM y)) AS rival
        FROM r
    ) z
), u AS (
    UPDATE {executions} e SET
        status = d.target,
        hold = CASE
            WHEN d.target IN ({CANCELLED}, {DEAD_LETTER}) THEN {HOLD_NONE}
            WHEN d.verdict > 0 THEN d.verdict
            WHEN d.verdict = 0 AND d.target = {SCHEDULED}
                THEN CASE WHEN d.rival THEN {HOLD_OVERLAP} ELSE {HOLD_CONCURRENCY} END
            ELSE {HOLD_NONE} END,
        token = CASE WHEN d.target = {DISPATCHED}
            THEN greatest(e.token + 1, d.epoch << 32) ELSE e.token END,
        worker_id = CASE WHEN d.target = {DISPATCHED} THEN d.worker_id END,
        dispatched_at = CASE WHEN d.target = {DISPATCHED} THEN clock_timestamp() ELSE e.dispatched_at END,
        finished_at = CASE WHEN d.target IN {IN_RESTING} THEN clock_timestamp() END,
        run_at = coalesce(d.later, e.run_at),
        wake_at = CASE WHEN d.verdict = -1 OR d.verdict IN {HOLDS_WIDE} THEN e.run_at ELSE d.later END,
        error = CASE WHEN d.target = {DEAD_LETTER} THEN jsonb_build_object('type', 'QueueTimeout', 'class', 'timeout',
            'message', 'not dispatched within queue_seconds (' || e.queue_seconds || ' s) of its time') ELSE e.error END,
        version = e.version + 1
    FROM d
    WHERE e.scheduled_at = d.scheduled_at AND e.id = d.id AND d.target IS NOT NULL
    RETURNING e.id, e.scheduled_at, e.run_at, e.token, e.status, e.hold, e.worker_id, e.class, e.tenant_id,
        e.task_id, e.slot_key, e.concurrency_key, d.again, NOT d.admitted AS first, d.circuit_id, d.rival, d.places,
        CASE e.hold WHEN {HOLD_OVERLAP} THEN e.slot_key WHEN {HOLD_CONCURRENCY} THEN e.concurrency_key END AS waits_for,
        CASE e.hold WHEN {HOLD_OVERLAP} THEN d.overlap = {OVERLAP_CANCEL_OTHER}
                    WHEN {HOLD_CONCURRENCY} THEN d.when_full = 'cancel_oldest' END AS displaces,
        CASE WHEN d.has_place AND d.target <> {DISPATCHED} THEN e.concurrency_key END AS left_over
), o AS (
    INSERT INTO outstanding (execution_id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at)
    SELECT id, scheduled_at, worker_id, class, tenant_id, token, clock_timestamp() FROM u
    WHERE status = {DISPATCHED}
    ON CONFLICT (execution_id) DO UPDATE SET worker_id = excluded.worker_id, token = excluded.token,
        dispatched_at = excluded.dispatched_at
), w AS (
    INSERT INTO slot_waiters (key, scheduled_at, execution_id, places)
    SELECT waits_for, scheduled_at, id, CASE WHEN hold = {HOLD_CONCURRENCY} THEN places ELSE 1 END FROM u
    WHERE waits_for IS NOT NULL
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
        CASE WHEN status = {CANCELLED} THEN 'the task was deleted'
             WHEN status = {DEAD_LETTER} THEN 'queue timeout: it waited longer than queue_seconds'
             WHEN rival THEN 'overlap: an earlier execution of the task has not ended'
             ELSE format('concurrency: %%s of %%s running for %%s', places, places,
                regexp_replace(concurrency_key, '^key:[^:]*:', '')) END
    FROM u WHERE status IN ({SKIPPED}, {CANCELLED}, {DEAD_LETTER})
)
SELECT id, token, status, worker_id, class, tenant_id, waits_for, displaces,
    (extract(epoch FROM run_at) * 1000000)::bigint AS run_at_us, hold, again, left_over, first
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

-- name: outstanding_by_tenant
-- What each tenant has outstanding, for all of them at once: one look through it, however many tenants there are.
SELECT tenant_id, count(*) FROM outstanding GROUP BY tenant_id

-- name: tenant_terms
-- Weights and limits of tenants that were changed lately (or of all), the plain ones included: one index probe where
-- none was. What is changed may be committed a little later than it says.
SELECT id, weight, max_concurrent_workers, rate_limit_rps, executions_per_hour FROM tenants
WHERE changed_at > CASE WHEN %(all)s THEN '-infinity' ELSE statement_timestamp() - %(seconds)s * interval '1 second' END

-- name: wide_holds
-- Tenants that are frozen or have used up a quota, and (nil UUID) everything.
SELECT target_id, reason FROM holds WHERE reason IN {HOLDS_WIDE}

-- name: states_of
-- Where these executions are: a new owner of a shard decides from it what an in-flight entry has become.
SELECT e.id, e.status, e.token, e.worker_id, e.class, e.tenant_id,
    (extract(epoch FROM e.run_at - clock_timestamp()) * 1000)::float8 AS due_in_ms,
    e.route_id
FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
