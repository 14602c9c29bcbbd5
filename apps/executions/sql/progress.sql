-- name: note_progress
-- What running attempts say: how far they are, and what they leave for the next attempt. The fenced write of the
-- execution's version comes first: it waits for whoever takes the execution away at this moment, and then fails; and
-- it lets pages see that something is new. Zero rows for an id means that somebody else decides about it now.
WITH v AS (
    SELECT * FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s, %(done)s::float8[], %(total)s::float8[], %(checkpoints)s)
        v(id, s, token, done, total, checkpoint)
), u AS (
    UPDATE {executions} e SET version = e.version + 1
    FROM v
    WHERE e.scheduled_at = v.s AND e.id = v.id
      AND CASE WHEN e.token = v.token AND e.status = {RUNNING} AND e.worker_id = %(worker)s THEN true END
    RETURNING e.id, e.scheduled_at, e.tenant_id, v.token, v.done, v.total, v.checkpoint
)
INSERT INTO progress AS p (execution_id, scheduled_at, tenant_id, token, done, total, said_at, checkpoint,
    checkpointed_at)
SELECT id, scheduled_at, tenant_id, token, done, total, CASE WHEN done IS NOT NULL THEN clock_timestamp() END,
    checkpoint, CASE WHEN checkpoint IS NOT NULL THEN clock_timestamp() END
FROM u
ON CONFLICT (execution_id) DO UPDATE SET
    token = excluded.token,
    done = CASE WHEN excluded.done IS NULL THEN p.done ELSE excluded.done END,
    total = CASE WHEN excluded.done IS NULL THEN p.total ELSE excluded.total END,
    said_at = coalesce(excluded.said_at, p.said_at),
    checkpoint = coalesce(excluded.checkpoint, p.checkpoint),
    checkpointed_at = coalesce(excluded.checkpointed_at, p.checkpointed_at)
RETURNING p.execution_id

-- name: forget_progress
-- Drop what attempts of these executions said, once they rest for good. A dead letter keeps it: what a person replays
-- goes on behind its checkpoint.
DELETE FROM progress p USING unnest(%(ids)s, %(scheduled)s) v(id, s), {executions} e
WHERE p.execution_id = v.id AND e.scheduled_at = v.s AND e.id = v.id
  AND CASE WHEN e.status IN {IN_RESTING} AND e.status <> {DEAD_LETTER} THEN true END

-- name: forget_leaked_progress
-- The same for whatever rests of one day: ended by somebody else than a worker, or by one that died before it had
-- cleaned up; dead letters that a person has given up, too.
DELETE FROM progress p USING {executions} e
WHERE p.scheduled_at >= %(since)s AND p.scheduled_at < %(until)s
  AND e.scheduled_at = p.scheduled_at AND e.id = p.execution_id
  AND CASE WHEN e.status IN {IN_RESTING} AND e.status <> {DEAD_LETTER} THEN true END
RETURNING p.execution_id

-- name: progress_days
SELECT DISTINCT floor(extract(epoch FROM scheduled_at) / 86400)::int FROM progress

-- name: first_starts
-- When the first attempt began of executions that have a limit for all their attempts together; what was given back
-- before it began does not count, nor do attempts up to the one after which a person replayed the execution.
SELECT a.execution_id, (extract(epoch FROM min(coalesce(a.started_at, a.due_at))) * 1000000)::bigint
FROM unnest(%(ids)s, %(scheduled)s, %(after)s) v(id, s, after)
JOIN {attempts} a ON a.scheduled_at = v.s AND a.execution_id = v.id
WHERE a.attempt > v.after AND (a.started_at IS NOT NULL OR a.outcome <> {OUTCOME_RELEASED})
GROUP BY a.execution_id
