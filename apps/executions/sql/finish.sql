-- name: finish
-- End attempts: one fenced write of the row, its attempt, its slot, its place in outstanding, and, out of attempts,
-- its dead letter. What is tried again keeps its overlap slot, but not its key's place: nothing runs meanwhile. Another
-- attempt of what was asked to stop is not waited for. Zero rows for an id means that somebody else decides about it
-- now: read it again.
WITH v AS (
    SELECT * FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s, %(attempts)s, %(targets)s, %(outcomes)s, %(due)s,
        %(started)s, %(finished)s, %(delays)s, %(results)s, %(errors)s, %(fingerprints)s)
        v(id, s, token, attempt, target, outcome, due, started, finished, delay_us, result, error, fingerprint)
), u AS (
    UPDATE {executions} e SET
        status = CASE WHEN v.target = {RETRYING} AND e.cancel_requested_at IS NOT NULL
            THEN {CANCELLED} ELSE v.target END,
        started_at = v.started,
        finished_at = CASE WHEN v.target IN {IN_RESTING} OR e.cancel_requested_at IS NOT NULL THEN v.finished END,
        run_at = CASE WHEN v.target = {RETRYING}
            THEN clock_timestamp() + v.delay_us * interval '1 microsecond' ELSE e.run_at END,
        wake_at = CASE WHEN v.target = {RETRYING} AND e.cancel_requested_at IS NULL
            THEN clock_timestamp() + v.delay_us * interval '1 microsecond' END,
        result = v.result::jsonb,
        error = v.error::jsonb,
        version = e.version + 1
    FROM v
    WHERE e.scheduled_at = v.s AND e.id = v.id
      AND CASE WHEN e.token = v.token AND e.status = {RUNNING} AND e.worker_id = %(worker)s THEN true END
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.task_id, e.slot_key, e.concurrency_key, e.status, v.token,
        v.attempt, v.outcome, v.due, v.started, v.finished, v.error, v.fingerprint
), o AS (
    DELETE FROM outstanding o USING u WHERE o.execution_id = u.id
), s AS (
    DELETE FROM slots s USING u
    WHERE s.key = u.slot_key AND s.execution_id = u.id AND u.status <> {RETRYING}
), k AS (
    DELETE FROM slots s USING (SELECT id, concurrency_key FROM u WHERE concurrency_key IS NOT NULL) u
    WHERE s.key = u.concurrency_key AND s.execution_id = u.id
), d AS (
    INSERT INTO dead_letters (execution_id, scheduled_at, tenant_id, task_id, fingerprint, since)
    SELECT id, scheduled_at, tenant_id, task_id, fingerprint, clock_timestamp() FROM u
    WHERE status = {DEAD_LETTER}
    ON CONFLICT (execution_id) DO UPDATE SET fingerprint = excluded.fingerprint, since = excluded.since
), a AS (
    INSERT INTO {attempts} (scheduled_at, execution_id, attempt, token, tenant_id, worker_id, outcome, due_at,
        started_at, finished_at, error)
    SELECT scheduled_at, id, attempt, token, tenant_id, %(worker)s, outcome, due, started, finished, error::jsonb
    FROM u
)
SELECT id FROM u

-- name: attempts_written
-- Which of these attempts stand in the ledger as this worker ended them: a write whose answer was lost was done.
-- Who takes work away writes an attempt under the same token and worker, but at another moment.
SELECT a.execution_id, a.token FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s, %(finished)s) v(id, s, token, finished)
JOIN {attempts} a ON a.scheduled_at = v.s AND a.execution_id = v.id AND a.token = v.token
WHERE a.worker_id = %(worker)s AND a.finished_at = v.finished

-- name: note_started
-- Write the real start of what runs longer than a moment, so that people can see it while it runs.
UPDATE {executions} e SET started_at = v.started, version = e.version + 1
FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s, %(started)s) v(id, s, token, started)
WHERE e.scheduled_at = v.s AND e.id = v.id
  AND CASE WHEN e.token = v.token AND e.status = {RUNNING} AND e.worker_id = %(worker)s THEN true END

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
