-- name: circuits_ensure
-- Rows for circuits that begin to fail.
INSERT INTO circuit_breakers (tenant_id, key, changed_at)
SELECT v.tenant, v.key, clock_timestamp() FROM unnest(%(tenants)s, %(keys)s) v(tenant, key)
WHERE NOT EXISTS (SELECT 1 FROM circuit_breakers c WHERE c.tenant_id = v.tenant AND c.key = v.key)
ORDER BY v.tenant, v.key
ON CONFLICT (tenant_id, key) DO NOTHING

-- name: circuits_lock
-- These circuits as they stand, locked in key order, and the clock that decides.
SELECT c.id, c.tenant_id, c.key, c.recent, c.trips,
    (extract(epoch FROM c.quarantine_until) * 1000000)::bigint, (extract(epoch FROM c.slow_start_until) * 1000000)::bigint,
    c.proven, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM unnest(%(tenants)s, %(keys)s) v(tenant, key)
JOIN circuit_breakers c ON c.tenant_id = v.tenant AND c.key = v.key
ORDER BY c.tenant_id, c.key
FOR UPDATE OF c

-- name: circuit_write
-- What has become of one locked circuit. One that has just opened draws its lots when the quarantine ends.
UPDATE circuit_breakers SET
    recent = %(recent)s::jsonb,
    trips = %(trips)s,
    quarantine_until = to_timestamp(%(quarantine_us)s / 1000000.0),
    slow_start_until = to_timestamp(%(slow_us)s / 1000000.0),
    proven = %(proven)s,
    settled = %(settled)s,
    opened_at = CASE WHEN %(opened)s THEN clock_timestamp() ELSE opened_at END,
    lots_drawn = lots_drawn AND NOT %(opened)s,
    admit_below = CASE WHEN %(opened)s THEN %(admit_below)s ELSE admit_below END,
    last_error = coalesce(%(last_error)s, last_error),
    changed_at = clock_timestamp()
WHERE id = %(id)s

-- name: circuits_unsettled
-- Circuits of which the next success is news.
SELECT tenant_id, key FROM circuit_breakers WHERE NOT settled

-- name: circuits_to_wake
-- Circuits that something waits for and that let something through again: (id, seconds of slow start left; 0 when it
-- is closed, whether its lots are drawn, the lot below which executions may go).
SELECT c.id, greatest(0, coalesce(extract(epoch FROM c.slow_start_until - clock_timestamp()), 0))::float8,
    c.lots_drawn, c.admit_below
FROM circuit_breakers c
WHERE EXISTS (SELECT 1 FROM circuit_waiters w WHERE w.circuit_id = c.id)
  AND (c.quarantine_until IS NULL OR c.quarantine_until <= clock_timestamp())

-- name: circuit_draw_lots
-- The slow start begins: as many of those that wait may go as the share allows, at least one. Strictly below the
-- first lot that may not, so that equal lots never exceed the share.
UPDATE circuit_breakers c SET
    lots_drawn = true,
    admit_below = coalesce(
        (SELECT w.lot FROM circuit_waiters w WHERE w.circuit_id = c.id
         ORDER BY w.lot LIMIT 1
         OFFSET (SELECT greatest(1, count(*) * %(percent)s / 100) FROM circuit_waiters x WHERE x.circuit_id = %(circuit)s)),
        (SELECT max(w.lot) + 1 FROM circuit_waiters w WHERE w.circuit_id = c.id),
        c.admit_below)
WHERE c.id = %(circuit)s
RETURNING admit_below

-- name: circuit_admitted
-- How many wait that may go.
SELECT count(*) FROM circuit_waiters WHERE circuit_id = %(circuit)s AND lot < %(below)s

-- name: circuit_take_waiters
-- Those that go next.
DELETE FROM circuit_waiters w USING (
    SELECT circuit_id, lot, scheduled_at, execution_id FROM circuit_waiters
    WHERE circuit_id = %(circuit)s AND lot < %(below)s
    ORDER BY lot, scheduled_at, execution_id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) f
WHERE w.circuit_id = f.circuit_id AND w.lot = f.lot AND w.scheduled_at = f.scheduled_at
  AND w.execution_id = f.execution_id
RETURNING w.execution_id

-- name: circuit_wake
-- Executions that waited for a circuit may be dispatched: due from now on, so that the wait does not count as ours.
UPDATE {executions} e SET hold = {HOLD_NONE}, run_at = greatest(e.run_at, statement_timestamp()),
    wake_at = greatest(e.run_at, statement_timestamp()), version = e.version + 1
FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
WHERE e.scheduled_at = v.s AND e.id = v.id
  AND CASE WHEN e.status = {SCHEDULED} AND e.hold = {HOLD_CIRCUIT} THEN true END
RETURNING e.id, e.tenant_id

-- name: circuit_reset
-- A person closes a circuit; the watchdog wakes what waits for it.
UPDATE circuit_breakers SET recent = '[]', trips = 0, quarantine_until = NULL, slow_start_until = NULL, proven = false,
    settled = true, lots_drawn = false, changed_at = clock_timestamp()
WHERE id = %(circuit)s AND tenant_id = %(tenant)s
RETURNING key

-- name: circuits_forget
-- Closed circuits of which nothing was heard for this long.
DELETE FROM circuit_breakers c
WHERE c.changed_at < clock_timestamp() - %(seconds)s * interval '1 second'
  AND (c.slow_start_until IS NULL OR c.slow_start_until < clock_timestamp())
  AND NOT EXISTS (SELECT 1 FROM circuit_waiters w WHERE w.circuit_id = c.id)
