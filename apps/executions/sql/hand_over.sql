-- name: hand_over
-- Of executions that this transaction has made, begin some on the worker that ended the one before: what a dispatch and
-- a claim would have written. Only where nobody can forbid it: the worker is believed, no hold, no circuit that is not
-- closed, no slot or key, no label it lacks, no worker kept for the tenant. As many ended as begin, so what the tenant
-- has at once does not grow; of its rate a worker takes a part, and near its hour's quota dispatchers alone count. All
-- others wait for the preloader. f judges; n lets each run have as many as it has ended, the most urgent first; t keeps
-- within the rooms.
WITH c AS MATERIALIZED (
    SELECT tenant_id, key FROM circuit_breakers WHERE slow_start_until > clock_timestamp()
), f AS (
    SELECT e.scheduled_at, e.id, e.class, e.priority, v.token, v.most,
        row_number() OVER (PARTITION BY e.dag_run_id ORDER BY e.class, e.priority, e.dag_node, e.dag_item) AS nth
    FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s, %(most)s, %(recent)s) v(id, s, token, most, recent)
    JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
    WHERE CASE WHEN e.status = {SCHEDULED} AND e.hold = {HOLD_NONE} AND e.attempt = 0
                AND e.slot_key IS NULL AND e.concurrency_key IS NULL
                AND e.run_at <= clock_timestamp()
                AND (e.route_id = 0 OR EXISTS (
                    SELECT 1 FROM routes r WHERE r.id = e.route_id AND r.labels <@ %(labels)s::text[]))
                AND NOT EXISTS (
                    SELECT 1 FROM holds h
                    WHERE h.target_id IN (e.task_id, e.tenant_id, '00000000-0000-0000-0000-000000000000'))
                AND NOT EXISTS (
                    SELECT 1 FROM tenants t WHERE t.id = e.tenant_id
                    AND (v.recent >= t.rate_limit_rps / %(parts)s
                        OR CASE WHEN t.executions_per_hour IS NOT NULL THEN t.executions_per_hour - coalesce(
                            (SELECT u.used FROM tenant_usage u WHERE u.tenant_id = t.id
                             AND u.kind = {USE_EXECUTIONS} AND u.window_start = {THIS_HOUR}), 0) < %(reserve)s * greatest(
                            1, (SELECT count(*) FROM workers WHERE state = 'active') / %(parts)s::float8)
                            * greatest(1, t.rate_limit_rps / 500.0) END))
                AND NOT EXISTS (
                    SELECT 1 FROM c WHERE c.tenant_id = e.tenant_id
                    AND c.key = (SELECT tv.circuit_key FROM task_versions tv WHERE tv.id = e.task_version_id))
                AND EXISTS (
                    SELECT 1 FROM workers w WHERE w.id = %(worker)s AND w.state = 'active'
                    AND w.lease_expires_at > clock_timestamp()
                    AND (w.tenant_id = e.tenant_id OR w.tenant_id IS NULL AND NOT EXISTS (
                        SELECT 1 FROM workers o WHERE o.tenant_id = e.tenant_id AND o.state IN ('active', 'draining'))))
          THEN true END
), n AS (
    SELECT f.*, row_number() OVER (PARTITION BY class ORDER BY priority, id) AS of_class,
        row_number() OVER (ORDER BY class, priority, id) AS of_all
    FROM f WHERE nth <= most
), t AS (
    SELECT * FROM n WHERE of_class <= (%(rooms)s::int[])[class + 1] AND of_all <= %(most_of_all)s
), u AS (
    UPDATE {executions} e SET
        status = {RUNNING},
        token = greatest(e.token + 1, t.token),
        worker_id = %(worker)s,
        attempt = e.attempt + 1,
        wake_at = NULL,
        dispatched_at = clock_timestamp(),
        version = e.version + 1
    FROM t
    WHERE e.scheduled_at = t.scheduled_at AND e.id = t.id
    RETURNING e.*
), o AS (
    INSERT INTO outstanding (execution_id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at)
    SELECT id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at FROM u
)
SELECT id, token, attempt, max_attempts, task_version_id, tenant_id, slot_key,
    (extract(epoch FROM run_at) * 1000000)::bigint AS run_at_us,
    (extract(epoch FROM nominal_at) * 1000000)::bigint AS nominal_at_us,
    payload::text AS payload, idempotency_key, NULL AS left_behind, class, concurrency_key, dag_run_id, dag_node,
    dag_item, traceparent
FROM u
