-- name: outstanding_of_worker
-- What a lost worker was sent and has not ended.
SELECT execution_id, token FROM outstanding WHERE worker_id = %(worker)s
ORDER BY scheduled_at, execution_id LIMIT %(limit)s

-- name: outstanding_days
-- The days of what is sent and has not ended (worker NULL: of everybody's). Statements that look at the executions, too,
-- name one day of them: a join with all days is planned for each of them.
SELECT DISTINCT floor(extract(epoch FROM scheduled_at) / 86400)::int FROM outstanding
WHERE %(worker)s::bigint IS NULL OR worker_id = %(worker)s

-- name: outstanding_unread
-- What a worker that drains was sent of one day and will not begin: it claims no more.
SELECT o.execution_id, o.token
FROM outstanding o JOIN {executions} e ON e.scheduled_at = o.scheduled_at AND e.id = o.execution_id
WHERE o.worker_id = %(worker)s AND CASE WHEN e.status = {DISPATCHED} AND e.token = o.token THEN true END
ORDER BY o.scheduled_at, o.execution_id LIMIT %(limit)s

-- name: outstanding_of_the_gone
-- What workers were sent and have not ended that are lost or stopped: whoever gave them up died before he took it back,
-- they signed off without giving it back, or it was sent to them a moment too late. Also of workers without a row: one
-- that was pruned can be asked nothing any more.
SELECT o.execution_id, o.token FROM outstanding o
WHERE NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = o.worker_id AND w.state IN ('active', 'draining'))
ORDER BY o.scheduled_at, o.execution_id LIMIT %(limit)s

-- name: outstanding_unclaimed
-- What was sent of one day longer ago than the claim deadline and is not claimed.
SELECT o.execution_id, o.token
FROM outstanding o JOIN {executions} e ON e.scheduled_at = o.scheduled_at AND e.id = o.execution_id
WHERE o.dispatched_at < statement_timestamp() - %(seconds)s * interval '1 second'
  AND CASE WHEN e.status = {DISPATCHED} AND e.token = o.token THEN true END
ORDER BY o.scheduled_at, o.execution_id LIMIT %(limit)s

-- name: outstanding_orphans
-- Places in outstanding whose execution, of one day, is not active under that token any more.
DELETE FROM outstanding o USING {executions} e
WHERE e.scheduled_at = o.scheduled_at AND e.id = o.execution_id
  AND o.scheduled_at >= %(since)s AND o.scheduled_at < %(until)s
  AND o.dispatched_at < statement_timestamp() - %(seconds)s * interval '1 second'
  -- What was ended over its worker's head is left long enough for that one to see.
  AND CASE WHEN NOT (e.status IN {IN_ACTIVE} AND e.token = o.token)
    AND NOT (e.status = {CANCELLED} AND e.token = o.token
        AND e.finished_at > statement_timestamp() - %(seconds)s * interval '1 second') THEN true END
RETURNING o.execution_id

-- name: cancel_overdue
-- What was asked to stop of one day this long ago and runs still: the watchdog ends it with a new token.
SELECT o.execution_id, o.token
FROM outstanding o JOIN {executions} e ON e.scheduled_at = o.scheduled_at AND e.id = o.execution_id
WHERE CASE WHEN e.cancel_requested_at < statement_timestamp() - %(seconds)s * interval '1 second'
            AND e.status IN {IN_ACTIVE} THEN true END
ORDER BY o.scheduled_at, o.execution_id LIMIT %(limit)s

-- name: reclaim
-- Take work from a worker that will not do it, under a new token. What it had begun has cost an attempt; what it had
-- not is uncounted. Asked to be cancelled: cancelled. No attempt left: dead letter. Begun and not idempotent: nobody can
-- tell whether it was done, so a person decides.
WITH l AS (
    SELECT e.scheduled_at, e.id, e.status, e.token, e.attempt, e.max_attempts, e.run_at, e.started_at, e.worker_id,
        e.cancel_requested_at, e.status = {RUNNING} AND coalesce(
            (SELECT tv.definition -> 'idempotent' = 'false' FROM task_versions tv WHERE tv.id = e.task_version_id),
            false) AS for_a_person
    FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s) v(id, s, token)
    JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
    WHERE CASE WHEN e.token = v.token AND e.status IN {IN_ACTIVE}
                AND (%(only_unclaimed)s IS FALSE OR e.status = {DISPATCHED}) THEN true END
    ORDER BY e.scheduled_at, e.id
    FOR UPDATE OF e
), j AS (
    SELECT l.*, CASE
        WHEN cancel_requested_at IS NOT NULL THEN {CANCELLED}
        WHEN status = {RUNNING} AND (attempt >= max_attempts OR for_a_person) THEN {DEAD_LETTER}
        ELSE {PRELOADED}
    END AS target,
    jsonb_build_object('type', 'WorkerLost', 'class', 'crash', 'fate', 'unknown',
        'message', CASE WHEN for_a_person THEN 'fate unknown: ' ELSE '' END || %(reason)s::text) AS lost
    FROM l
), u AS (
    UPDATE {executions} e SET
        status = l.target,
        wake_at = CASE WHEN l.target = {PRELOADED} THEN e.run_at END,
        finished_at = CASE WHEN l.target IN {IN_RESTING} THEN clock_timestamp() END,
        dispatched_at = NULL,
        token = e.token + 1,
        worker_id = NULL,
        error = CASE WHEN l.status = {RUNNING} AND l.target <> {CANCELLED} THEN l.lost ELSE e.error END,
        version = e.version + 1
    FROM j l WHERE e.scheduled_at = l.scheduled_at AND e.id = l.id
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.task_id, e.slot_key, e.concurrency_key, e.status, e.error,
        e.token, l.status AS was, l.token AS held_token, l.attempt AS held_attempt, l.run_at AS due_at,
        l.started_at AS began, l.worker_id AS held_by, l.for_a_person
), o AS (
    DELETE FROM outstanding o USING u WHERE o.execution_id = u.id
), s AS (
    DELETE FROM slots s USING u WHERE s.key IN (u.slot_key, u.concurrency_key) AND s.execution_id = u.id
), d AS (
    INSERT INTO dead_letters (execution_id, scheduled_at, tenant_id, task_id, fingerprint, since)
    SELECT id, scheduled_at, tenant_id, task_id,
        CASE WHEN for_a_person THEN 'WorkerLost: fate unknown' ELSE 'WorkerLost' END, clock_timestamp()
    FROM u
    WHERE status = {DEAD_LETTER}
    ON CONFLICT (execution_id) DO NOTHING
), a AS (
    INSERT INTO {attempts} (scheduled_at, execution_id, attempt, token, tenant_id, worker_id, outcome, due_at,
        started_at, finished_at, error)
    SELECT scheduled_at, id, held_attempt, held_token, tenant_id, held_by,
        CASE WHEN status = {CANCELLED} THEN {OUTCOME_CANCELLED} ELSE {OUTCOME_CRASHED} END,
        due_at, began, clock_timestamp(), error
    FROM u WHERE was = {RUNNING}
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, was, status, token, %(actor)s, %(reason)s FROM u
)
SELECT id, status, tenant_id FROM u

-- name: overdue_preloaded
-- What should have been popped by now: the watchdog asks the hot tier whether it still has them.
SELECT id, class, tenant_id, route_id FROM executions
WHERE scheduled_at BETWEEN clock_timestamp() - %(oldest)s * interval '1 second'
                       AND clock_timestamp() - %(youngest)s * interval '1 second'
  AND run_at < clock_timestamp() - %(youngest)s * interval '1 second'
  AND status = {PRELOADED} AND wake_at IS NULL
LIMIT %(limit)s

-- name: walk
-- One stretch of the slow walk over everything: from a cursor on, what is PRELOADED and overdue, and where to go on.
WITH stretch AS (
    SELECT scheduled_at, id, class, tenant_id, route_id, status, wake_at, run_at FROM executions
    WHERE (scheduled_at, id) > (%(from_scheduled)s, %(from_id)s) AND scheduled_at < clock_timestamp()
    ORDER BY scheduled_at, id LIMIT %(limit)s
)
SELECT id, class, tenant_id, route_id,
    status = {PRELOADED} AND wake_at IS NULL
        AND run_at < clock_timestamp() - %(youngest)s * interval '1 second' AS lost
FROM stretch
WHERE status = {PRELOADED} OR id = (SELECT id FROM stretch ORDER BY scheduled_at DESC, id DESC LIMIT 1)
ORDER BY scheduled_at, id

-- name: wake_preloaded
-- The hot tier lost these: the preloader adds them again.
UPDATE {executions} e SET wake_at = e.run_at, version = e.version + 1
FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
WHERE e.scheduled_at = v.s AND e.id = v.id
  AND CASE WHEN e.status = {PRELOADED} AND e.wake_at IS NULL THEN true END
RETURNING e.id

-- name: forget_idempotency_keys
-- Keys older than they are remembered; a chunk at a time.
DELETE FROM idempotency_keys WHERE (tenant_id, key) IN (
    SELECT tenant_id, key FROM idempotency_keys
    WHERE created_at < clock_timestamp() - %(days)s * interval '1 day' LIMIT %(limit)s)
RETURNING key
