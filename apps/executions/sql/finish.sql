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
