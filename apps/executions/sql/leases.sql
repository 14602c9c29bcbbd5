-- name: lease_take
-- Become the holder: when the lease has run out, or when this session holds the role's lock, which its last holder's
-- death or silence has freed. The very first holder needs the lock: others may stand at the same moment.
INSERT INTO leases (role, holder, epoch, expires_at, acquired_at)
SELECT %(role)s, %(holder)s, 1, clock_timestamp() + %(ttl)s * interval '1 second', clock_timestamp()
WHERE %(locked)s OR EXISTS (SELECT 1 FROM leases WHERE role = %(role)s)
ON CONFLICT (role) DO UPDATE SET holder = excluded.holder, epoch = leases.epoch + 1,
    expires_at = excluded.expires_at, acquired_at = excluded.acquired_at
    WHERE %(locked)s OR leases.expires_at < clock_timestamp()
RETURNING epoch

-- name: lease_renew
UPDATE leases SET expires_at = clock_timestamp() + %(ttl)s * interval '1 second'
WHERE role = %(role)s AND holder = %(holder)s AND epoch = %(epoch)s
RETURNING epoch

-- name: lease_release
UPDATE leases SET expires_at = clock_timestamp()
WHERE role = %(role)s AND holder = %(holder)s AND epoch = %(epoch)s

-- name: lease_depose
-- Forced failover: the holder finds its epoch gone and stands back; a standby takes over.
UPDATE leases SET epoch = epoch + 1, expires_at = clock_timestamp(), holder = '00000000-0000-0000-0000-000000000000'
WHERE role = ANY(%(roles)s)
RETURNING role, epoch

-- name: member_join
-- Stand for the shards: one lease a member, which renews with its shards; a lock (class MEMBER) shows its death.
INSERT INTO leases (role, holder, epoch, expires_at, acquired_at)
VALUES (%(role)s, %(holder)s, 1, clock_timestamp() + %(ttl)s * interval '1 second', clock_timestamp())
ON CONFLICT (role) DO UPDATE SET expires_at = excluded.expires_at

-- name: members
-- Who stands for the shards and lives: its lease stands and its lock is held. Ordered, so that all see one ranking.
SELECT l.holder FROM leases l
WHERE l.role LIKE %(prefix)s AND l.expires_at > clock_timestamp() AND EXISTS (
    SELECT 1 FROM pg_locks k
    WHERE k.locktype = 'advisory' AND k.classid = %(lock_class)s AND k.granted
      AND k.objid::bigint = (('x' || right(l.holder::text, 8))::bit(32)::bigint & 2147483647)
      AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
ORDER BY l.holder

-- name: members_forget
DELETE FROM leases WHERE role LIKE %(prefix)s
  AND (holder = %(holder)s OR expires_at < clock_timestamp() - interval '1 minute')

-- name: shards_take
-- Take shards that nobody holds: never held, run out, given back, or of a holder that lives no more.
INSERT INTO leases (role, holder, epoch, expires_at, acquired_at)
SELECT w.role, %(holder)s, 1, clock_timestamp() + %(ttl)s * interval '1 second', clock_timestamp()
FROM unnest(%(roles)s::text[]) w(role) ORDER BY w.role
ON CONFLICT (role) DO UPDATE SET holder = excluded.holder, epoch = leases.epoch + 1,
    expires_at = excluded.expires_at, acquired_at = excluded.acquired_at
    WHERE leases.expires_at < clock_timestamp() OR NOT (leases.holder = ANY(%(living)s))
RETURNING role, epoch

-- name: holder_renew
-- One statement renews everything that a holder holds.
UPDATE leases SET expires_at = clock_timestamp() + %(ttl)s * interval '1 second'
WHERE holder = %(holder)s AND expires_at > clock_timestamp()
RETURNING role, epoch

-- name: shards_give_back
UPDATE leases SET expires_at = clock_timestamp() - interval '1 millisecond'
WHERE role = ANY(%(roles)s::text[]) AND holder = %(holder)s

-- name: worker_register
INSERT INTO workers (state, host, process_id, slots, started_at, heartbeat_at, lease_expires_at, cpu_percent,
    memory_bytes, active, completed_last_minute, errors_last_minute, class_slots, class_used, labels, tenant_id, version)
VALUES ('active', %(host)s, %(process_id)s, %(slots)s, clock_timestamp(), clock_timestamp(),
    clock_timestamp() + %(lease)s * interval '1 second', 0, 0, 0, 0, 0, %(class_slots)s::int[], ARRAY[]::int[],
    %(labels)s::text[], %(tenant)s, %(version)s)
RETURNING id

-- name: tenant_of_slug
SELECT id FROM tenants WHERE slug = %(slug)s

-- name: worker_look
-- The database's time in microseconds, and whether somebody has asked this worker to drain.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    EXISTS (SELECT 1 FROM workers WHERE id = %(worker)s AND drain_requested_at IS NOT NULL)

-- name: worker_ask_to_drain
-- No row: it has ended, or has been asked before.
UPDATE workers SET drain_requested_at = clock_timestamp(), drain_requested_by = %(actor)s
WHERE id = %(worker)s AND state = 'active' AND drain_requested_at IS NULL
RETURNING id

-- name: worker_heartbeat
-- Renew a worker's lease; no row means that it has been given up for lost and must stop.
UPDATE workers SET heartbeat_at = clock_timestamp(), state = %(state)s, cpu_percent = %(cpu_percent)s,
    memory_bytes = %(memory_bytes)s, active = %(active)s, completed_last_minute = %(completed)s,
    errors_last_minute = %(errors)s, class_used = %(class_used)s::int[], labels = %(labels)s::text[],
    lease_expires_at = clock_timestamp() + %(lease)s * interval '1 second'
WHERE id = %(worker)s AND state IN ('active', 'draining')
RETURNING id

-- name: worker_stop
UPDATE workers SET state = 'stopped', heartbeat_at = clock_timestamp(), lease_expires_at = clock_timestamp()
WHERE id = %(worker)s AND state IN ('active', 'draining')

-- name: workers_alive
-- Workers that have not ended, whether their lock is held, and how long they have been silent. Locks are those of
-- executions/locks.py: class WORKER, the worker's id.
SELECT w.id, w.lease_expires_at < clock_timestamp() AS lease_over,
    (extract(epoch FROM w.heartbeat_at))::float8 AS heartbeat, l.objid IS NOT NULL AS lock_held,
    (extract(epoch FROM pg_postmaster_start_time()))::float8 AS postmaster_start
FROM workers w
LEFT JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid = %(lock_class)s AND l.objid = w.id::oid AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
WHERE w.state IN ('active', 'draining')
ORDER BY w.id

-- name: worker_lost
UPDATE workers SET state = 'lost' WHERE id = %(worker)s AND state IN ('active', 'draining')
  AND (extract(epoch FROM heartbeat_at))::float8 = %(heartbeat)s
RETURNING id
