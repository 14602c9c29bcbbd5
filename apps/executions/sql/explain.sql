-- name: explain
-- Everything that the ledger knows about why one execution of a tenant is not running. Cheap whatever is in it: small
-- tables, keys, and counts that end at a bound. What others run is counted for the platform alone (whole).
SELECT statement_timestamp() AS now, e.id, e.status, e.hold, e.origin, e.class, e.route_id, e.attempt, e.max_attempts,
    e.scheduled_at, e.run_at, e.wake_at, e.created_at, e.dispatched_at, e.started_at, e.finished_at,
    e.cancel_requested_at, e.worker_id, e.tenant_id, e.task_id, e.slot_key, e.concurrency_key, e.error, e.dag_run_id,
    e.dag_node, e.token > 0 AND e.attempt > 0 AND e.dispatched_at IS NOT NULL AS again, {LOT} AS lot,
    tv.circuit_key, tv.definition,
    (SELECT jsonb_agg(jsonb_build_object('target', h.target_id, 'reason', h.reason, 'note', h.note, 'actor', h.actor,
            'since', h.since) ORDER BY h.reason, h.target_id)
        FROM holds h WHERE h.target_id IN (e.task_id, e.tenant_id, '00000000-0000-0000-0000-000000000000')) AS holds,
    (SELECT jsonb_agg(jsonb_build_object('kind', q.kind, 'used', coalesce(u.used, 0), 'most', q.most,
            'until', q.until, 'told_at', u.told_at) ORDER BY q.kind)
        FROM (VALUES (1)) one CROSS JOIN LATERAL {QUOTAS}
        LEFT JOIN tenant_usage u ON u.tenant_id = t.id AND u.kind = q.kind AND u.window_start = q.since) AS quotas,
    t.max_concurrent_workers, t.rate_limit_rps,
    (SELECT count(*) FROM outstanding o WHERE o.tenant_id = e.tenant_id) AS tenant_outstanding,
    (SELECT count(*) FROM outstanding o WHERE o.class = e.class
        AND (%(whole)s OR o.tenant_id = e.tenant_id)) AS class_outstanding,
    (SELECT s.execution_id FROM slots s WHERE s.key = e.slot_key AND s.n = 0) AS slot_holder,
    (SELECT count(*) FROM slots s WHERE s.key = e.concurrency_key) AS places_taken,
    (SELECT min(h.started_at) FROM (
        SELECT s.scheduled_at, s.execution_id FROM slots s
        WHERE s.key IN (e.concurrency_key, e.slot_key) AND s.execution_id <> e.id LIMIT %(bound)s) s
        JOIN {executions} h ON h.scheduled_at = s.scheduled_at AND h.id = s.execution_id) AS held_since,
    (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM r.finished_at - r.started_at))::float8 FROM (
        SELECT x.status, x.started_at, x.finished_at FROM {executions} x
        WHERE x.task_id = e.task_id AND x.scheduled_at > e.scheduled_at - interval '7 days'
          AND x.scheduled_at <= e.scheduled_at AND x.id < coalesce((
            SELECT s.execution_id FROM slots s WHERE s.key IN (e.concurrency_key, e.slot_key) AND s.execution_id <> e.id
            ORDER BY s.execution_id LIMIT 1), e.id)
        ORDER BY x.id DESC LIMIT %(runs)s) r
        WHERE r.status = {COMPLETED} AND (e.concurrency_key IS NOT NULL OR e.slot_key IS NOT NULL)) AS run_seconds,
    e.hold = {HOLD_CIRCUIT} AND NOT EXISTS (
        SELECT 1 FROM circuit_waiters w JOIN circuit_breakers c ON c.id = w.circuit_id
        WHERE c.tenant_id = e.tenant_id AND c.key = tv.circuit_key AND w.lot < {LOT}) AS first_lot,
    (SELECT jsonb_agg(x.execution_id) FROM (
        SELECT s.execution_id FROM slots s WHERE s.key = e.concurrency_key ORDER BY s.n LIMIT %(shown)s) x) AS place_holders,
    (SELECT count(*) FROM (
        SELECT 1 FROM slot_waiters w WHERE w.key = coalesce(
            CASE WHEN e.hold = {HOLD_OVERLAP} THEN e.slot_key END, e.concurrency_key, e.slot_key)
        AND (w.scheduled_at, w.execution_id) < (e.scheduled_at, e.id) LIMIT %(bound)s) x) AS waiters_ahead,
    (SELECT jsonb_build_object('quarantine_until', c.quarantine_until, 'slow_start_until', c.slow_start_until,
            'admit_below', c.admit_below, 'opened_at', c.opened_at, 'last_error', c.last_error, 'id', c.id,
            'failures', (SELECT count(*) FROM jsonb_array_elements(c.recent) r WHERE r -> 1 = 'true'))
        FROM circuit_breakers c WHERE c.tenant_id = e.tenant_id AND c.key = tv.circuit_key) AS circuit,
    (SELECT r.labels FROM routes r WHERE r.id = e.route_id) AS labels,
    (SELECT jsonb_object_agg(l.role, l.expires_at) FROM leases l
        WHERE l.role IN ('preloader', 'dispatcher/' || (get_byte(uuid_send(e.id), 15) & 15))
          AND l.expires_at > clock_timestamp()) AS leases,
    (SELECT count(*) FROM (
        SELECT 1 FROM {executions} w WHERE w.class = e.class AND w.tenant_id = e.tenant_id AND w.route_id = e.route_id
        AND w.scheduled_at >= %(day_begins)s AND w.scheduled_at < %(day_ends)s
        AND w.wake_at IS NOT NULL AND w.wake_at < e.wake_at LIMIT %(bound)s) x) AS waiting_ahead,
    (SELECT sum(w.completed_last_minute) FROM workers w
        WHERE w.state = 'active' AND (%(whole)s OR w.tenant_id = e.tenant_id)
          AND w.heartbeat_at > clock_timestamp() - interval '1 minute') AS ended_last_minute,
    (SELECT jsonb_build_object('at', x.at, 'actor', x.actor, 'reason', x.reason, 'target', x.target)
        FROM {execution_events} x WHERE x.scheduled_at = %(scheduled)s AND x.execution_id = e.id
        ORDER BY x.event_id DESC LIMIT 1) AS event,
    (SELECT jsonb_build_object('node', n.node_id, 'deadline_at', n.deadline_at, 'released_at', n.released_at,
            'message', n.approval -> 'message')
        FROM {run_nodes} n WHERE n.scheduled_at = %(scheduled)s AND n.run_id = e.dag_run_id AND n.node = e.dag_node) AS node
FROM {executions} e JOIN task_versions tv ON tv.id = e.task_version_id JOIN tenants t ON t.id = e.tenant_id
WHERE e.scheduled_at = %(scheduled)s AND e.id = %(id)s AND e.tenant_id = %(tenant)s

-- name: explain_node
-- The same of a node of a run that has no execution yet: what it waits for.
SELECT statement_timestamp() AS now, r.status, r.ending, r.paused_at, n.state, n.node_id, n.open, n.execution_id,
    n.released_at, n.finished_at, n.error, n.items, n.items_open, n.rule,
    (SELECT jsonb_agg(jsonb_build_object('node', p.node_id, 'state', p.state) ORDER BY p.node)
        FROM {task_dependencies} d
        JOIN {run_nodes} p ON p.scheduled_at = %(scheduled)s AND p.run_id = d.run_id AND p.node = d.parent
        WHERE d.scheduled_at = %(scheduled)s AND d.run_id = n.run_id AND d.child = n.node AND d.item < 0 AND d.outcome IS NULL) AS parents
FROM {dag_runs} r JOIN {run_nodes} n ON n.scheduled_at = %(scheduled)s AND n.run_id = r.id
WHERE r.id = %(run)s AND r.scheduled_at = %(scheduled)s AND r.tenant_id = %(tenant)s AND n.node_id = %(node)s

-- name: over_quota
-- Which quotas a tenant has used up, with figures: for the chips of a page of its executions.
SELECT q.kind, u.used, q.most, q.until FROM tenants t CROSS JOIN LATERAL {QUOTAS}
JOIN tenant_usage u ON u.tenant_id = t.id AND u.kind = q.kind AND u.window_start = q.since
WHERE t.id = %(tenant)s AND u.used >= q.most ORDER BY q.kind
