-- name: lock_open_executions
-- What has not ended of a run, locked before the run is: whoever ends an execution goes the same way.
SELECT e.id FROM {executions} e
WHERE e.dag_run_id = %(run)s AND e.status NOT IN {IN_RESTING}
ORDER BY e.scheduled_at, e.id
FOR UPDATE

-- name: lock_run_of_tenant
-- One run of a tenant, locked.
SELECT r.id, r.tenant_id, r.status, r.ending, r.failure_policy, r.paused_at IS NOT NULL AS paused, r.queued_since IS NOT NULL AS queued
FROM {dag_runs} r WHERE r.id = %(run)s AND r.tenant_id = %(tenant)s FOR UPDATE

-- name: graph_nodes
-- Every node of a run, and where it is.
SELECT n.node, n.node_id, n.state FROM {run_nodes} n WHERE n.run_id = %(run)s ORDER BY n.node

-- name: graph_edges
-- Every edge of a run, and what it has brought.
SELECT d.parent, d.child, d.outcome FROM {task_dependencies} d WHERE d.run_id = %(run)s AND d.item < 0

-- name: reopen_edges
-- These edges have brought nothing yet.
UPDATE {task_dependencies} d SET outcome = NULL, error = NULL
FROM unnest(%(parents)s, %(children)s) v(parent, child)
WHERE d.run_id = %(run)s AND d.parent = v.parent AND d.child = v.child AND d.item < 0

-- name: forget_items
-- Mapped nodes that will be sized anew: what they mapped over before does not count any more.
DELETE FROM {task_dependencies} d USING unnest(%(nodes)s) v(node)
WHERE d.run_id = %(run)s AND d.parent = v.node AND d.child = v.node AND d.item >= 0

-- name: reopen_nodes
-- Nodes that are to be decided anew: a generation of their own, whose executions alone count. `kept` ones are only
-- counted anew.
UPDATE {run_nodes} n SET
    revision = n.revision + 1,
    open = v.open, succeeded = v.succeeded, failed = v.failed, skipped = v.skipped, errors = v.errors,
    state = CASE WHEN v.kept THEN n.state ELSE {NODE_PENDING} END,
    generation = n.generation + CASE WHEN v.kept THEN 0 ELSE 1 END,
    execution_id = CASE WHEN v.kept THEN n.execution_id END,
    released_at = CASE WHEN v.kept THEN n.released_at END,
    finished_at = CASE WHEN v.kept THEN n.finished_at END,
    deadline_at = CASE WHEN v.kept THEN n.deadline_at END,
    error = CASE WHEN v.kept THEN n.error END,
    items = CASE WHEN v.kept THEN n.items END,
    items_open = CASE WHEN v.kept THEN n.items_open ELSE 0 END,
    items_succeeded = CASE WHEN v.kept THEN n.items_succeeded ELSE 0 END,
    items_failed = CASE WHEN v.kept THEN n.items_failed ELSE 0 END,
    items_skipped = CASE WHEN v.kept THEN n.items_skipped ELSE 0 END
FROM unnest(%(nodes)s, %(open)s, %(succeeded)s, %(failed)s, %(skipped)s, %(errors)s, %(kept)s::bool[])
    v(node, open, succeeded, failed, skipped, errors, kept)
WHERE n.run_id = %(run)s AND n.node = v.node

-- name: reopen_run
-- So many of its nodes are open again: it runs, with a time limit from now on, or when it has left the queue, into which it
-- goes if it had ended and its DAG has no place for it.
UPDATE {dag_runs} r SET status = {RUN_RUNNING}, ending = NULL, finished_at = NULL,
    open_nodes = r.open_nodes + %(count)s,
    queued_since = CASE WHEN %(queued)s THEN coalesce(r.queued_since, clock_timestamp()) END,
    deadline_at = CASE WHEN NOT %(queued)s
        THEN clock_timestamp() + r.timeout_seconds * interval '1 second' END,
    version = r.version + 1
WHERE r.id = %(run)s

-- name: lock_limited_dag
-- The DAG of a run, locked as by whoever triggers it, if only so many of its runs may be active.
SELECT d.id, d.max_active_runs FROM {dag_runs} r JOIN dags d ON d.id = r.dag_id
WHERE r.id = %(run)s AND d.max_active_runs IS NOT NULL
FOR UPDATE OF d

-- name: fence_executions
-- Executions of these nodes, of whatever generation, end here: what runs still can commit nothing any more. Its worker
-- finds it in outstanding and stops it. Dead letters need nobody any more.
WITH l AS (
    SELECT e.scheduled_at, e.id, e.status, e.token, e.attempt, e.run_at, e.started_at, e.worker_id
    FROM unnest(%(nodes)s) v(node)
    JOIN {executions} e ON e.dag_run_id = %(run)s AND e.dag_node = v.node
    WHERE e.status NOT IN ({COMPLETED}, {CANCELLED}, {SKIPPED})
    ORDER BY e.scheduled_at, e.id
    FOR UPDATE OF e
), u AS (
    UPDATE {executions} e SET status = {CANCELLED}, cancel_requested_at = clock_timestamp(),
        finished_at = clock_timestamp(), wake_at = NULL, version = e.version + 1
    FROM l WHERE e.scheduled_at = l.scheduled_at AND e.id = l.id
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.slot_key, e.concurrency_key, e.token, l.status AS was, l.attempt,
        l.run_at, l.started_at, l.worker_id
), o AS (
    DELETE FROM outstanding o USING u WHERE o.execution_id = u.id AND u.was = {DISPATCHED}
), s AS (
    DELETE FROM slots s USING u WHERE s.key IN (u.slot_key, u.concurrency_key) AND s.execution_id = u.id
), w AS (
    DELETE FROM slot_waiters w USING u
    WHERE w.key IN (u.slot_key, u.concurrency_key) AND w.scheduled_at = u.scheduled_at AND w.execution_id = u.id
), d AS (
    DELETE FROM dead_letters d USING u WHERE d.execution_id = u.id
), a AS (
    INSERT INTO {attempts} (scheduled_at, execution_id, attempt, token, tenant_id, worker_id, outcome, due_at,
        started_at, finished_at)
    SELECT scheduled_at, id, attempt, token, tenant_id, worker_id, {OUTCOME_CANCELLED}, run_at, started_at,
        clock_timestamp()
    FROM u WHERE was = {RUNNING}
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, was, {CANCELLED}, token, %(actor)s, %(reason)s FROM u
)
SELECT id, tenant_id FROM u

-- name: mark_completed
-- A person says that what ended otherwise counts as done.
WITH u AS (
    UPDATE {executions} e SET status = {COMPLETED}, version = e.version + 1
    FROM {run_nodes} n
    WHERE n.run_id = %(run)s AND n.node = %(node)s AND e.scheduled_at = n.scheduled_at AND e.id = n.execution_id
      AND e.status IN ({CANCELLED}, {SKIPPED}, {DEAD_LETTER})
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token
), d AS (
    DELETE FROM dead_letters d USING u WHERE d.execution_id = u.id
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, {COMPLETED}, token, %(actor)s, %(reason)s FROM u
)
SELECT id, tenant_id FROM u

-- name: pause_run
UPDATE {dag_runs} r SET paused_at = CASE WHEN %(paused)s THEN coalesce(r.paused_at, clock_timestamp()) END,
    version = r.version + 1
WHERE r.id = %(run)s

-- name: ready_nodes
-- Nodes of a run that wait for nothing but its being resumed.
SELECT n.run_id, n.node FROM {run_nodes} n WHERE n.run_id = %(run)s AND n.state = {NODE_PENDING} AND n.open = 0

-- name: answer_approval
-- Somebody, or the time limit, has answered an approval that waits.
WITH u AS (
    UPDATE {executions} e SET
        status = CASE WHEN %(approved)s THEN {COMPLETED} ELSE {CANCELLED} END,
        finished_at = clock_timestamp(),
        result = %(result)s::jsonb,
        error = %(error)s::jsonb,
        version = e.version + 1
    FROM {run_nodes} n
    WHERE n.run_id = %(run)s AND n.node = %(node)s AND e.scheduled_at = n.scheduled_at AND e.id = n.execution_id
      AND e.status = {WAITING}
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.status, e.token
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, {WAITING}, status, token, %(actor)s, %(reason)s FROM u
)
SELECT id, tenant_id FROM u

-- name: runs_over_time
-- Runs that are over their time limit.
SELECT r.id FROM dag_runs r WHERE r.deadline_at < clock_timestamp() ORDER BY r.deadline_at LIMIT %(limit)s

-- name: runs_stopping
-- Runs that were stopped and have not ended.
SELECT r.id FROM dag_runs r WHERE r.status = {RUN_RUNNING} AND r.ending IS NOT NULL LIMIT %(limit)s

-- name: approvals_over_time
-- Approvals that nobody has answered in time, and what then holds.
SELECT n.run_id, n.node, n.approval ->> 'default' FROM run_nodes n
WHERE n.deadline_at < clock_timestamp() ORDER BY n.deadline_at LIMIT %(limit)s

-- name: unheard_ends
-- Executions of nodes that rest, of which their run has not heard: whoever ended them died before it told.
SELECT e.id FROM run_nodes n JOIN executions e ON e.scheduled_at = n.scheduled_at AND e.id = n.execution_id
WHERE n.state = {NODE_ACTIVE} AND e.status IN {IN_RESTING}
  AND e.finished_at < clock_timestamp() - %(seconds)s * interval '1 second'
LIMIT %(limit)s

-- name: unheard_items
-- The same for items of mapped nodes.
SELECT e.id
FROM run_nodes n
JOIN task_dependencies d ON d.run_id = n.run_id AND d.parent = n.node AND d.child = n.node AND d.item >= 0
JOIN executions e ON e.dag_run_id = n.run_id AND e.dag_node = n.node AND e.dag_item = d.item
    AND e.scheduled_at = n.scheduled_at AND e.dag_generation = n.generation
WHERE n.state = {NODE_ACTIVE} AND n.items IS NOT NULL AND d.outcome IS NULL AND e.status IN {IN_RESTING}
  AND e.finished_at < clock_timestamp() - %(seconds)s * interval '1 second'
LIMIT %(limit)s
