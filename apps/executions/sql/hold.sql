-- name: hold_set
-- Forbid dispatch of a task, a tenant, or (nil UUID) everything, from the next dispatch statement on.
INSERT INTO holds (target_id, reason, note, actor, since)
VALUES (%(target)s, %(reason)s, %(note)s, %(actor)s, clock_timestamp())
ON CONFLICT (target_id, reason) DO UPDATE SET note = excluded.note, actor = excluded.actor

-- name: holds_set
-- The same for several targets.
INSERT INTO holds (target_id, reason, note, actor, since)
SELECT target, %(reason)s, %(note)s, %(actor)s, clock_timestamp() FROM unnest(%(targets)s::uuid[]) target
ON CONFLICT (target_id, reason) DO UPDATE SET note = excluded.note, actor = excluded.actor

-- name: holds_clear
DELETE FROM holds WHERE target_id = ANY(%(targets)s) AND reason = %(reason)s

-- name: hold_clear
DELETE FROM holds WHERE target_id = %(target)s AND reason = %(reason)s

-- name: pending_of_task
-- A task's executions of its schedule that are not sent to a worker yet, in lock order.
SELECT e.id, e.scheduled_at, e.nominal_at, e.status, e.hold, e.run_at FROM executions e
WHERE e.task_id = %(task)s AND e.id >= %(from_id)s AND e.scheduled_at >= %(from_scheduled)s
  AND e.status IN {IN_PENDING}
ORDER BY e.scheduled_at, e.id
FOR UPDATE
LIMIT %(limit)s
