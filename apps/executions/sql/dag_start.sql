-- name: insert_run
-- Begin a run, or let it wait (queued), in which time its limit does not run; one of the same DAG, key and time that is
-- there already stays as it is.
INSERT INTO {dag_runs} (id, scheduled_at, run_at, nominal_at, deadline_at, queued_since, tenant_id, dag_id, dag_version_id,
    timeout_seconds, nodes, open_nodes, failure_policy, origin, actor, idempotency_key, parameters,
    traceparent)
SELECT %(id)s::uuid, %(scheduled)s, v.run_at, %(nominal)s,
    CASE WHEN NOT %(queued)s THEN greatest(v.run_at, clock_timestamp()) + %(timeout)s::int * interval '1 second' END,
    CASE WHEN %(queued)s THEN clock_timestamp() END,
    %(tenant)s, %(dag)s, %(version)s, %(timeout)s, %(nodes)s, %(nodes)s, %(policy)s, %(origin)s, %(actor)s, %(key)s,
    %(parameters)s::jsonb, %(trace)s
FROM (SELECT %(run)s::timestamptz AS run_at) v
ON CONFLICT (dag_id, idempotency_key, scheduled_at) DO NOTHING
RETURNING id

-- name: find_run
SELECT id FROM {dag_runs} WHERE dag_id = %(dag)s AND idempotency_key = %(key)s AND scheduled_at = %(scheduled)s

-- name: insert_nodes
-- The nodes of a run: all that they need is copied, so later edits of the DAG or its tasks do not touch the run.
INSERT INTO {run_nodes} (scheduled_at, run_id, node, node_id, task_id, version_id, kind, rule, priority, max_attempts,
    queue_seconds, open, parents, map_over, approval, route_id, concurrency_key)
SELECT %(scheduled)s, %(run)s::uuid, v.node, v.node_id, v.task_id, v.version_id, v.kind, v.rule, v.priority,
    v.max_attempts, v.queue_seconds, cardinality(v.parents::int[]), v.parents::int[], v.map_over, v.approval::jsonb,
    v.route_id, v.concurrency_key
FROM unnest(%(nodes)s, %(names)s, %(tasks)s, %(versions)s, %(kinds)s, %(rules)s, %(priorities)s, %(max_attempts)s,
    %(queue_seconds)s, %(parents)s, %(map_over)s, %(approvals)s, %(routes)s, %(concurrency_keys)s)
    v(node, node_id, task_id, version_id, kind, rule, priority, max_attempts, queue_seconds, parents, map_over, approval,
      route_id, concurrency_key)

-- name: insert_edges
INSERT INTO {task_dependencies} (scheduled_at, run_id, parent, child, condition)
SELECT %(scheduled)s, %(run)s::uuid, v.parent, v.child, v.condition::jsonb
FROM unnest(%(parents)s, %(children)s, %(conditions)s) v(parent, child, condition)

-- name: active_runs
-- How many runs of a DAG have begun and not ended, how many wait to begin, and how many wait for their time, which take
-- nobody's place before it.
SELECT count(*) FILTER (WHERE queued_since IS NULL AND due), count(queued_since) FILTER (WHERE due),
    count(*) FILTER (WHERE NOT due)
FROM (
    SELECT queued_since, run_at <= clock_timestamp() + %(lead)s AS due
    FROM dag_runs WHERE dag_id = %(dag)s AND status = {RUN_RUNNING}
) r

-- name: dags_with_queued_runs
-- DAGs of which runs wait to begin, their time having come, and how many of each have begun and not ended; first the one
-- whose oldest run has waited longest.
SELECT q.dag_id, q.begun
FROM (
    SELECT w.dag_id, min(w.since) AS since, (
        SELECT count(*) FROM dag_runs r
        WHERE r.dag_id = w.dag_id AND r.status = {RUN_RUNNING} AND r.queued_since IS NULL) AS begun
    FROM (
        SELECT dag_id, greatest(queued_since, run_at) AS since FROM dag_runs
        WHERE queued_since IS NOT NULL AND run_at <= clock_timestamp() + %(lead)s) w
    GROUP BY w.dag_id) q
ORDER BY q.since, q.dag_id LIMIT %(limit)s

-- name: queued_runs
-- The oldest runs of a DAG that wait to begin: since they were asked for, or for which time, or asked to run again.
SELECT id FROM dag_runs
WHERE dag_id = %(dag)s AND queued_since IS NOT NULL AND run_at <= clock_timestamp() + %(lead)s
ORDER BY greatest(queued_since, run_at), id LIMIT %(limit)s

-- name: leave_queue
-- A run begins now, and its time limit with it.
UPDATE {dag_runs} r SET
    queued_since = NULL,
    run_at = greatest(r.run_at, clock_timestamp()),
    deadline_at = greatest(r.run_at, clock_timestamp()) + r.timeout_seconds * interval '1 second',
    version = r.version + 1
WHERE r.id = %(run)s
