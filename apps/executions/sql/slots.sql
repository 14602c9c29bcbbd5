-- name: waited_for
-- Who may go now: of those that wait for these slots the oldest, as many as there are free places. Mostly nobody waits.
SELECT k.key, x.execution_id
FROM unnest(%(keys)s::text[]) k(key)
CROSS JOIN LATERAL (
    SELECT places FROM slot_waiters w WHERE w.key = k.key ORDER BY w.scheduled_at, w.execution_id LIMIT 1) m
CROSS JOIN LATERAL (
    SELECT w.execution_id FROM slot_waiters w WHERE w.key = k.key ORDER BY w.scheduled_at, w.execution_id
    LIMIT greatest(0, m.places - (SELECT count(*) FROM slots s WHERE s.key = k.key))) x

-- name: wake_waiters
-- Let these be dispatched, each of which waits for that slot.
WITH w AS (
    DELETE FROM slot_waiters w USING unnest(%(ids)s, %(scheduled)s, %(keys)s) v(id, s, key)
    WHERE w.key = v.key AND w.scheduled_at = v.s AND w.execution_id = v.id
    RETURNING w.scheduled_at, w.execution_id
)
UPDATE {executions} e SET hold = {HOLD_NONE}, wake_at = e.run_at, version = e.version + 1
FROM w
WHERE e.scheduled_at = w.scheduled_at AND e.id = w.execution_id
  AND CASE WHEN e.status = {SCHEDULED} AND e.hold IN ({HOLD_OVERLAP}, {HOLD_CONCURRENCY}) THEN true END
RETURNING e.id

-- name: free_slots_with_waiters
-- Slots of which somebody may go who waits: his wake-up was lost. One index probe a key, however many wait for it.
WITH RECURSIVE w AS (
    (SELECT key, places FROM slot_waiters ORDER BY key, scheduled_at, execution_id LIMIT 1)
    UNION ALL
    SELECT n.key, n.places FROM w CROSS JOIN LATERAL (
        SELECT q.key, q.places FROM slot_waiters q WHERE q.key > w.key
        ORDER BY q.key, q.scheduled_at, q.execution_id LIMIT 1) n
)
SELECT key FROM w WHERE (SELECT count(*) FROM slots s WHERE s.key = w.key) < places LIMIT %(limit)s

-- name: slot_days
SELECT DISTINCT floor(extract(epoch FROM scheduled_at) / 86400)::int FROM slots

-- name: remove_leaked_slots
-- Slots of executions of one day that have ended: whoever ended them did not give the slot back. A place of a key
-- belongs to what a worker has, and to nothing else.
DELETE FROM slots s USING {executions} e
WHERE s.scheduled_at >= %(since)s AND s.scheduled_at < %(until)s
  AND e.scheduled_at = s.scheduled_at AND e.id = s.execution_id
  AND CASE WHEN e.status IN {IN_RESTING} OR s.n > 0 AND e.status NOT IN {IN_ACTIVE} THEN true END
RETURNING s.key

-- name: slot_holders
-- Overlap policy cancel_other: what holds these slots makes room.
SELECT execution_id FROM slots WHERE key = ANY(%(keys)s) AND n = 0

-- name: beyond_the_places
-- When full, cancel the oldest: of all that hold a place of these keys or wait for one, those that make room, so that as
-- many as there are places remain, the latest. How many there are is told by the latest that waits.
SELECT x.execution_id
FROM unnest(%(keys)s::text[]) k(key)
CROSS JOIN LATERAL (
    SELECT places FROM slot_waiters w WHERE w.key = k.key ORDER BY w.scheduled_at DESC, w.execution_id DESC LIMIT 1) m
CROSS JOIN LATERAL (
    SELECT execution_id, scheduled_at FROM slots s WHERE s.key = k.key
    UNION
    SELECT execution_id, scheduled_at FROM slot_waiters w WHERE w.key = k.key
    ORDER BY scheduled_at DESC, execution_id DESC OFFSET m.places) x

-- name: displace
-- Have executions make room for later ones. What a worker has is asked to stop; its worker, or the watchdog, ends it.
-- What is with no worker (it waits, or for its next attempt) ends here.
WITH u AS (
    UPDATE {executions} e SET
        status = CASE WHEN e.status IN {IN_ACTIVE} THEN e.status ELSE {CANCELLED} END,
        cancel_requested_at = coalesce(e.cancel_requested_at, clock_timestamp()),
        finished_at = CASE WHEN e.status IN {IN_PENDING} THEN clock_timestamp() END,
        wake_at = CASE WHEN e.status NOT IN {IN_PENDING} THEN e.wake_at END,
        hold = CASE WHEN e.status IN {IN_PENDING} THEN {HOLD_NONE} ELSE e.hold END,
        version = e.version + 1
    FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
    WHERE e.scheduled_at = v.s AND e.id = v.id
      AND CASE WHEN e.status IN {IN_PENDING} OR e.status IN {IN_ACTIVE} AND e.cancel_requested_at IS NULL
            THEN true END
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.slot_key, e.concurrency_key, e.status, e.token
), f AS (
    DELETE FROM slots s USING u
    WHERE u.status = {CANCELLED} AND s.key IN (u.slot_key, u.concurrency_key) AND s.execution_id = u.id
), w AS (
    DELETE FROM slot_waiters w USING u
    WHERE u.status = {CANCELLED} AND w.key IN (u.slot_key, u.concurrency_key) AND w.scheduled_at = u.scheduled_at
      AND w.execution_id = u.id
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, status, token, 'dispatcher', %(reason)s
    FROM u WHERE status = {CANCELLED}
)
SELECT tenant_id, id FROM u

-- name: give_back_places
-- Places that were taken for nothing in one tick: another dispatcher was faster with the overlap slot.
DELETE FROM slots s USING unnest(%(ids)s, %(keys)s) v(id, key) WHERE s.key = v.key AND s.execution_id = v.id
