-- name: database_now
SELECT clock_timestamp()

-- name: key_take
-- Use idempotency keys for the first time, or again after they have expired. What is missing from the answer is in
-- use; a transaction that has just taken one and not ended is waited for. Ordered, so that two batches cannot deadlock.
INSERT INTO idempotency_keys AS k (tenant_id, key, body_hash, response_status, response_body, created_at)
SELECT %(tenant)s, v.key, v.hash, v.status, v.body::jsonb, clock_timestamp()
FROM unnest(%(keys)s, %(hashes)s, %(statuses)s, %(bodies)s) v(key, hash, status, body)
ORDER BY v.key
ON CONFLICT (tenant_id, key) DO UPDATE SET body_hash = excluded.body_hash, created_at = excluded.created_at,
    response_status = excluded.response_status, response_body = excluded.response_body
    WHERE k.created_at < clock_timestamp() - %(days)s * interval '1 day'
RETURNING key

-- name: key_read
SELECT key, body_hash, response_status, response_body::text FROM idempotency_keys
WHERE tenant_id = %(tenant)s AND key = ANY(%(keys)s)

-- name: key_answer
-- Keep what was answered, so that the same question gets the same answer.
UPDATE idempotency_keys SET response_status = %(status)s, response_body = %(body)s::jsonb
WHERE tenant_id = %(tenant)s AND key = %(key)s

-- name: key_forget
DELETE FROM idempotency_keys WHERE tenant_id = %(tenant)s AND key = %(key)s

-- name: lock_pending
-- A task's executions that are not sent to a worker, locked in the order that everybody locks in.
SELECT e.id, (extract(epoch FROM e.scheduled_at) * 1000000)::bigint, e.nominal_at, e.run_at, e.status, e.hold,
    e.origin, e.attempt, e.slot_key, e.concurrency_key
FROM executions e
WHERE e.task_id = %(task)s AND e.scheduled_at >= %(since)s AND e.status IN {IN_PENDING}
ORDER BY e.scheduled_at, e.id
FOR UPDATE

-- name: lock_pending_of
-- The same of several tasks; the task's id comes last.
SELECT e.id, (extract(epoch FROM e.scheduled_at) * 1000000)::bigint, e.nominal_at, e.run_at, e.status, e.hold,
    e.origin, e.attempt, e.slot_key, e.concurrency_key, e.task_id
FROM executions e
WHERE e.task_id = ANY(%(tasks)s) AND e.scheduled_at >= %(since)s AND e.status IN {IN_PENDING}
ORDER BY e.scheduled_at, e.id
FOR UPDATE

-- name: lock_several
-- Executions of a tenant, whatever their state, locked in the order that everybody locks in.
SELECT e.id, (extract(epoch FROM e.scheduled_at) * 1000000)::bigint, e.nominal_at, e.run_at, e.status, e.hold,
    e.origin, e.attempt, e.slot_key, e.concurrency_key
FROM executions e
WHERE e.scheduled_at = ANY(%(scheduled)s) AND e.id = ANY(%(ids)s) AND e.tenant_id = %(tenant)s
ORDER BY e.scheduled_at, e.id
FOR UPDATE

-- name: lock_superseded
-- Occurrences that an edit of the task has cancelled and nobody has touched since.
SELECT e.id, (extract(epoch FROM e.scheduled_at) * 1000000)::bigint, e.nominal_at, e.run_at, e.status, e.hold,
    e.origin, e.attempt, e.slot_key, e.concurrency_key
FROM executions e
WHERE e.task_id = %(task)s AND e.scheduled_at > %(since)s AND e.status = {CANCELLED} AND e.attempt = 0
  AND e.origin = {ORIGIN_SCHEDULE}
  AND (SELECT x.reason FROM execution_events x
       WHERE x.scheduled_at = e.scheduled_at AND x.execution_id = e.id
       ORDER BY x.at DESC LIMIT 1) LIKE %(reason)s || '%%'
ORDER BY e.scheduled_at, e.id
FOR UPDATE OF e

-- name: move_pending
-- Change state or hold of executions that the caller has locked. One that rests gives up its slot and its place among
-- those that wait for it.
WITH u AS (
    UPDATE {executions} e SET
        status = v.target,
        hold = v.hold,
        wake_at = CASE WHEN v.target NOT IN {IN_RESTING} AND v.hold = {HOLD_NONE} THEN e.run_at END,
        finished_at = CASE WHEN v.target IN {IN_RESTING} THEN clock_timestamp() END,
        version = e.version + 1
    FROM unnest(%(ids)s, %(scheduled)s, %(sources)s, %(targets)s, %(holds)s, %(reasons)s)
        v(id, s, source, target, hold, reason)
    WHERE e.scheduled_at = v.s AND e.id = v.id AND CASE WHEN e.status = v.source THEN true END
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.slot_key, e.concurrency_key, e.status, e.token, v.source, v.reason
), w AS (
    DELETE FROM slot_waiters w USING u
    WHERE w.key IN (u.slot_key, u.concurrency_key) AND w.scheduled_at = u.scheduled_at AND w.execution_id = u.id
      AND u.status IN {IN_RESTING}
), s AS (
    DELETE FROM slots s USING u
    WHERE s.key IN (u.slot_key, u.concurrency_key) AND s.execution_id = u.id AND u.status IN {IN_RESTING}
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, source, status, token, %(actor)s, reason FROM u WHERE reason IS NOT NULL
)
SELECT id FROM u

-- name: rewrite_pending
-- Give locked executions of one task, which no worker has, the terms of its new version. The preloader adds them
-- to the hot tier again, at their new time; those that waited for a slot (waits: its key) are judged anew. tried: they
-- have had attempts, which go on counting.
WITH u AS (
    UPDATE {executions} e SET
        status = {SCHEDULED},
        hold = v.hold,
        run_at = v.run,
        wake_at = CASE WHEN v.hold = {HOLD_NONE} THEN v.run END,
        finished_at = NULL,
        task_version_id = %(version_id)s,
        max_attempts = %(max_attempts)s + CASE WHEN %(tried)s THEN e.attempt ELSE 0 END,
        class = %(class)s,
        priority = %(priority)s,
        overlap = %(overlap)s,
        slot_key = %(slot_key)s,
        concurrency_key = v.key,
        queue_seconds = %(queue_seconds)s,
        route_id = %(route_id)s,
        version = e.version + 1
    FROM unnest(%(ids)s, %(scheduled)s, %(sources)s, %(runs)s, %(holds)s, %(reasons)s, %(waits)s,
        %(keys)s) v(id, s, source, run, hold, reason, waits, key)
    WHERE e.scheduled_at = v.s AND e.id = v.id AND CASE WHEN e.status = v.source THEN true END
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token, v.source, v.reason, v.waits
), w AS (
    DELETE FROM slot_waiters w USING u
    WHERE w.key = u.waits AND w.scheduled_at = u.scheduled_at AND w.execution_id = u.id
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, source, {SCHEDULED}, token, %(actor)s, reason FROM u WHERE reason IS NOT NULL
)
SELECT id FROM u

-- name: lock_one
-- One execution of a tenant, whatever its state, locked.
SELECT e.id, (extract(epoch FROM e.scheduled_at) * 1000000)::bigint, e.nominal_at, e.run_at, e.status, e.hold,
    e.origin, e.attempt, e.slot_key, e.concurrency_key
FROM executions e
WHERE e.scheduled_at = %(scheduled)s AND e.id = %(id)s AND e.tenant_id = %(tenant)s
FOR UPDATE

-- name: replay
-- A person sends a dead letter round again: due now, with a fresh budget of attempts after those it has had, behind the
-- checkpoint that it left, unless it is to begin from the start. payload: other parameters (edited), with their key.
WITH u AS (
    UPDATE {executions} e SET
        status = {SCHEDULED},
        hold = {HOLD_NONE},
        run_at = statement_timestamp(),  -- one instant for both
        wake_at = statement_timestamp(),
        finished_at = NULL,
        dispatched_at = NULL,
        cancel_requested_at = NULL,
        max_attempts = e.attempt + %(attempts)s,
        payload = CASE WHEN %(edited)s THEN %(payload)s::jsonb ELSE e.payload END,
        concurrency_key = CASE WHEN %(edited)s THEN %(concurrency_key)s ELSE e.concurrency_key END,
        version = e.version + 1
    WHERE e.scheduled_at = %(scheduled)s AND e.id = %(id)s AND e.status = {DEAD_LETTER}
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token
), d AS (
    DELETE FROM dead_letters d USING u WHERE d.execution_id = u.id
), p AS (
    DELETE FROM progress p USING u WHERE %(from_start)s AND p.execution_id = u.id
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, {DEAD_LETTER}, {SCHEDULED}, token, %(actor)s, %(reason)s FROM u
)
SELECT id FROM u

-- name: discard
-- A person gives a dead letter up.
WITH u AS (
    UPDATE {executions} e SET status = {CANCELLED}, finished_at = clock_timestamp(), version = e.version + 1
    WHERE e.scheduled_at = %(scheduled)s AND e.id = %(id)s AND e.status = {DEAD_LETTER}
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token
), d AS (
    DELETE FROM dead_letters d USING u WHERE d.execution_id = u.id
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, {DEAD_LETTER}, {CANCELLED}, token, %(actor)s, %(reason)s FROM u
)
SELECT id FROM u

-- name: request_cancel
-- Ask the worker that has it to stop; its worker, or the watchdog, ends it.
WITH u AS (
    UPDATE {executions} e SET cancel_requested_at = clock_timestamp(), version = e.version + 1
    WHERE e.scheduled_at = %(scheduled)s AND e.id = %(id)s AND e.status IN {IN_ACTIVE}
      AND e.cancel_requested_at IS NULL
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token, e.status
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, status, status, token, %(actor)s, %(reason)s FROM u
)
SELECT id FROM u

-- name: request_cancels
-- The same of several executions of one day.
WITH u AS (
    UPDATE {executions} e SET cancel_requested_at = clock_timestamp(), version = e.version + 1
    FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
    WHERE e.scheduled_at = v.s AND e.id = v.id AND CASE WHEN e.status IN {IN_ACTIVE} THEN true END
      AND e.cancel_requested_at IS NULL
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token, e.status
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, status, status, token, %(actor)s, %(reason)s FROM u
)
SELECT id FROM u

-- name: task_is_deleted
SELECT EXISTS (SELECT 1 FROM holds WHERE target_id = %(task)s AND reason = {HOLD_DELETED})

-- name: replay_many
-- The same for dead letters of one day that are no nodes of runs, each with the attempts of its version. Those that
-- somebody else has seen to, and those of deleted tasks, are left out.
WITH l AS (
    SELECT e.scheduled_at, e.id, e.attempt, (tv.definition -> 'retry_policy' ->> 'max_attempts')::int AS attempts
    FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
    JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
    JOIN task_versions tv ON tv.id = e.task_version_id
    WHERE CASE WHEN e.status = {DEAD_LETTER} AND e.dag_run_id IS NULL THEN true END
      AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.target_id = e.task_id AND h.reason = {HOLD_DELETED})
    ORDER BY e.scheduled_at, e.id
    FOR UPDATE OF e
), u AS (
    UPDATE {executions} e SET
        status = {SCHEDULED},
        hold = {HOLD_NONE},
        run_at = statement_timestamp(),  -- one instant for both
        wake_at = statement_timestamp(),
        finished_at = NULL,
        dispatched_at = NULL,
        cancel_requested_at = NULL,
        max_attempts = e.attempt + coalesce(l.attempts, 1),
        version = e.version + 1
    FROM l WHERE e.scheduled_at = l.scheduled_at AND e.id = l.id
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token
), d AS (
    DELETE FROM dead_letters d USING u WHERE d.execution_id = u.id
), p AS (
    DELETE FROM progress p USING u WHERE %(from_start)s AND p.execution_id = u.id
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, {DEAD_LETTER}, {SCHEDULED}, token, %(actor)s, %(reason)s FROM u
)
SELECT id FROM u
