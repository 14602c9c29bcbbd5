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
