-- name: claim
-- Begin what was sent to this worker, under the token that it was sent with. Asked twice (its first answer was
-- lost), it answers again without counting the attempt again. What is held or to be cancelled is not claimed, nor what
-- a circuit that has opened since the dispatch holds back.
-- left_behind: the checkpoint of an earlier attempt; empty when that left none but has said something.
WITH c AS MATERIALIZED (
    SELECT tenant_id, key, CASE WHEN quarantine_until > clock_timestamp() THEN 0 ELSE admit_below END AS below
    FROM circuit_breakers WHERE slow_start_until > clock_timestamp()
)
UPDATE {executions} e SET
    status = {RUNNING},
    worker_id = %(worker)s,
    attempt = e.attempt + CASE WHEN e.status = {DISPATCHED} THEN 1 ELSE 0 END,
    started_at = NULL,
    version = e.version + 1
FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s) v(id, s, token)
WHERE e.scheduled_at = v.s AND e.id = v.id
  AND CASE WHEN e.token = v.token AND e.cancel_requested_at IS NULL
            AND (e.status = {DISPATCHED} OR (e.status = {RUNNING} AND e.worker_id = %(worker)s))
            AND NOT EXISTS (
                SELECT 1 FROM holds h
                WHERE h.target_id IN (e.task_id, e.tenant_id, '00000000-0000-0000-0000-000000000000')
                  -- What was sent has been counted: it may run.
                  AND h.reason <> {HOLD_QUOTA}
                  AND NOT (h.reason = {HOLD_PAUSED} AND e.origin IN ({ORIGIN_MANUAL}, {ORIGIN_RERUN})))
            AND NOT EXISTS (
                SELECT 1 FROM c
                WHERE c.tenant_id = e.tenant_id AND {LOT} >= c.below
                  AND c.key = (SELECT tv.circuit_key FROM task_versions tv WHERE tv.id = e.task_version_id))
      THEN true END
RETURNING e.id, e.token, e.attempt, e.max_attempts, e.task_version_id, e.tenant_id, e.slot_key,
    (extract(epoch FROM e.run_at) * 1000000)::bigint AS run_at_us,
    (extract(epoch FROM e.nominal_at) * 1000000)::bigint AS nominal_at_us,
    e.payload::text AS payload, e.idempotency_key,
    (SELECT coalesce(p.checkpoint, '') FROM progress p WHERE p.execution_id = e.id) AS left_behind,
    e.class, e.concurrency_key, e.dag_run_id, e.dag_node, e.dag_item, e.traceparent

-- name: adopt
-- Messages that were sent to another worker's inbox have come to this one (a partition moved): what is reclaimed with
-- this worker from now on. Runs before the claim, so that a crash in between leaves nothing unclaimed for ever.
UPDATE outstanding o SET worker_id = %(worker)s FROM unnest(%(ids)s, %(tokens)s) v(id, token)
WHERE o.execution_id = v.id AND o.token = v.token

-- name: unfit
-- Which of these this worker may not run: it lacks a label, or is kept for another tenant.
SELECT e.id, e.token FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
JOIN executions e ON e.scheduled_at = v.s AND e.id = v.id
LEFT JOIN routes r ON r.id = e.route_id
WHERE NOT coalesce(r.labels <@ %(labels)s::text[], true) OR e.tenant_id <> %(tenant)s::uuid

-- name: versions_of
-- The task versions that executions name: what to run and how.
SELECT v.id, v.name, t.slug, v.definition, v.circuit_key
FROM task_versions v JOIN tenants t ON t.id = v.tenant_id
WHERE v.id = ANY(%(versions)s)

-- name: secrets_of
-- Tenants' secrets by name: sealed as they are kept, or where they are.
SELECT s.tenant_id, s.name, s.store, s.sealed, s.place, t.slug
FROM unnest(%(tenants)s, %(names)s) v(tenant_id, name)
JOIN tenants t ON t.id = v.tenant_id
JOIN tenant_secrets s ON s.tenant_id = v.tenant_id AND s.name = v.name
WHERE s.valid_until IS NULL OR s.valid_until > clock_timestamp()

-- name: release
-- Give back what this worker was sent or has begun: uncounted, under a new token, due as before.
WITH l AS (
    SELECT e.scheduled_at, e.id, e.status, e.token, e.attempt, e.run_at, e.started_at
    FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s) v(id, s, token)
    JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
    WHERE CASE WHEN e.token = v.token
                AND (e.status = {DISPATCHED} OR (e.status = {RUNNING} AND e.worker_id = %(worker)s)) THEN true END
    ORDER BY e.scheduled_at, e.id
    FOR UPDATE OF e
), u AS (
    UPDATE {executions} e SET
        status = CASE WHEN e.cancel_requested_at IS NULL THEN {PRELOADED} ELSE {CANCELLED} END,
        wake_at = CASE WHEN e.cancel_requested_at IS NULL THEN e.run_at END,
        finished_at = CASE WHEN e.cancel_requested_at IS NOT NULL THEN clock_timestamp() END,
        attempt = e.attempt - CASE WHEN l.status = {RUNNING} THEN 1 ELSE 0 END,
        token = e.token + 1,
        worker_id = NULL,
        version = e.version + 1
    FROM l WHERE e.scheduled_at = l.scheduled_at AND e.id = l.id
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.slot_key, e.concurrency_key, e.status,
        l.status AS was, l.token AS held_token, l.attempt AS held_attempt, l.run_at AS due_at, l.started_at AS began
), o AS (
    DELETE FROM outstanding o USING u WHERE o.execution_id = u.id
), s AS (
    DELETE FROM slots s USING u WHERE s.key IN (u.slot_key, u.concurrency_key) AND s.execution_id = u.id
), a AS (
    INSERT INTO {attempts} (scheduled_at, execution_id, attempt, token, tenant_id, worker_id, outcome, due_at,
        started_at, finished_at)
    SELECT scheduled_at, id, held_attempt, held_token, tenant_id, %(worker)s, {OUTCOME_RELEASED}, due_at, began,
        clock_timestamp()
    FROM u WHERE was = {RUNNING}
)
SELECT id, status FROM u

-- name: to_cancel
-- What this worker runs of one day and is asked to stop, or was ended over its head.
SELECT o.execution_id, o.scheduled_at, o.token
FROM outstanding o JOIN {executions} e ON e.scheduled_at = o.scheduled_at AND e.id = o.execution_id
WHERE o.worker_id = %(worker)s AND CASE WHEN e.cancel_requested_at IS NOT NULL
    AND (e.status = {RUNNING} OR e.status = {CANCELLED} AND e.token = o.token) THEN true END
