-- name: enter_runs
-- Which of these executions belong to a run and rest, and their runs, locked in the order of their ids: whoever changes
-- nodes or edges holds this lock.
SELECT e.id, e.dag_run_id, e.dag_node, e.dag_item, e.dag_generation, e.status,
    r.tenant_id, r.status, r.ending, r.failure_policy, r.paused_at IS NOT NULL AS paused, r.queued_since IS NOT NULL AS queued
FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
JOIN {dag_runs} r ON r.id = e.dag_run_id AND r.scheduled_at = e.scheduled_at
WHERE CASE WHEN e.status IN {IN_RESTING} THEN true END
ORDER BY r.id, e.id
FOR UPDATE OF r

-- name: lock_runs
-- Runs, locked likewise.
SELECT r.id, r.tenant_id, r.status, r.ending, r.failure_policy, r.paused_at IS NOT NULL AS paused, r.queued_since IS NOT NULL AS queued
FROM {dag_runs} r WHERE r.id = ANY(%(runs)s) ORDER BY r.id FOR UPDATE

-- name: fresh_budget
-- Failure policy retry: what is out of attempts for the first time gets as many again. What a person must decide about,
-- for it may have been done, does not.
WITH u AS (
    UPDATE {executions} e SET
        status = {SCHEDULED},
        max_attempts = greatest(e.attempt, 1) + n.max_attempts,
        run_at = clock_timestamp(),
        wake_at = clock_timestamp(),
        finished_at = NULL,
        dispatched_at = NULL,
        version = e.version + 1
    FROM unnest(%(ids)s, %(scheduled)s, %(runs)s, %(nodes)s, %(generations)s) v(id, s, run, node, generation),
        {run_nodes} n
    WHERE e.scheduled_at = v.s AND e.id = v.id
      AND n.run_id = v.run AND n.node = v.node AND n.generation = v.generation AND n.state = {NODE_ACTIVE}
      AND e.status = {DEAD_LETTER} AND e.max_attempts <= n.max_attempts
      AND coalesce(e.error ->> 'message', '') NOT LIKE 'fate unknown%%'
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.token
), d AS (
    DELETE FROM dead_letters d USING u WHERE d.execution_id = u.id
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, source, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, {DEAD_LETTER}, {SCHEDULED}, token, 'dag',
        'failure policy retry: a fresh budget of attempts'
    FROM u
)
SELECT id FROM u

-- name: nodes_of
-- Nodes of runs, as the decision about them needs them.
SELECT n.run_id, n.node, n.kind, n.rule, n.state, n.generation, n.open, n.succeeded, n.failed, n.skipped, n.errors,
    n.items, n.items_open, n.items_succeeded, n.items_failed, n.items_skipped, n.map_over
FROM unnest(%(runs)s, %(nodes)s) v(run, node)
JOIN {run_nodes} n ON n.run_id = v.run AND n.node = v.node

-- name: edges_of
-- Edges that have brought nothing yet, out of these nodes, and the nodes that they lead to. OFFSET keeps the planner,
-- which thinks of every day as empty, from reading the run's nodes first.
SELECT d.parent, d.condition, d.run_id, d.child, n.kind, n.rule, n.state, n.generation, n.open,
    n.succeeded, n.failed, n.skipped, n.errors, n.items, n.items_open, n.items_succeeded, n.items_failed, n.items_skipped,
    n.map_over
FROM unnest(%(runs)s, %(nodes)s) v(run, node)
CROSS JOIN LATERAL (
    SELECT d.run_id, d.parent, d.child, d.condition FROM {task_dependencies} d
    WHERE d.run_id = v.run AND d.parent = v.node AND d.item < 0 AND d.outcome IS NULL
    OFFSET 0) d
JOIN {run_nodes} n ON n.run_id = d.run_id AND n.node = d.child

-- name: edges_below
-- The same of these nodes and of what is below them, so many levels deep.
WITH RECURSIVE down(run, node, depth) AS (
    SELECT v.run, v.node, 0 FROM unnest(%(runs)s, %(nodes)s) v(run, node)
    UNION
    SELECT d.run_id, d.child::bigint, down.depth + 1
    FROM down JOIN {task_dependencies} d ON d.run_id = down.run AND d.parent = down.node
    WHERE down.depth < %(depth)s AND d.item < 0
)
SELECT DISTINCT ON (d.run_id, d.parent, d.child) d.parent, d.condition, d.run_id, d.child, n.kind, n.rule, n.state, n.generation, n.open,
    n.succeeded, n.failed, n.skipped, n.errors, n.items, n.items_open, n.items_succeeded, n.items_failed, n.items_skipped,
    n.map_over
FROM down
CROSS JOIN LATERAL (
    SELECT d.run_id, d.parent, d.child, d.condition FROM {task_dependencies} d
    WHERE d.run_id = down.run AND d.parent = down.node AND d.item < 0 AND d.outcome IS NULL
    OFFSET 0) d
JOIN {run_nodes} n ON n.run_id = d.run_id AND n.node = d.child

-- name: open_items
-- Which of these items of mapped nodes have not been counted yet.
SELECT d.run_id, d.parent, d.item
FROM unnest(%(runs)s, %(nodes)s, %(items)s) v(run, node, item)
JOIN {task_dependencies} d ON d.run_id = v.run AND d.parent = v.node AND d.child = v.node AND d.item = v.item
WHERE d.outcome IS NULL

-- name: results_of
-- What nodes have come to: the result of their execution, or the list of their items' results.
SELECT n.run_id, n.node, CASE
    WHEN n.items IS NULL THEN
        (SELECT e.result FROM {executions} e WHERE e.scheduled_at = n.scheduled_at AND e.id = n.execution_id)
    ELSE (SELECT coalesce(jsonb_agg(e.result ORDER BY e.dag_item), '[]') FROM {executions} e
          WHERE e.dag_run_id = n.run_id AND e.dag_node = n.node AND e.dag_generation = n.generation)
    END AS result
FROM unnest(%(runs)s, %(nodes)s) v(run, node)
JOIN {run_nodes} n ON n.run_id = v.run AND n.node = v.node

-- name: write_runs
-- All that a transaction has decided about runs that it has locked. e: what edges have brought, of which only the first
-- word counts; n: counts and states of nodes; x: executions of released nodes: all that they are is in their node and
-- their run (OFFSET: not by way of all nodes of the run). Answers with how many nodes of each run are not final.
WITH e AS (
    UPDATE {task_dependencies} d SET outcome = v.outcome, error = v.error::jsonb
    FROM unnest(%(edge_runs)s, %(parents)s, %(children)s, %(edge_items)s, %(outcomes)s, %(edge_errors)s)
        v(run, parent, child, item, outcome, error)
    WHERE d.run_id = v.run AND d.parent = v.parent AND d.child = v.child AND d.item = v.item AND d.outcome IS NULL
), n AS (
    UPDATE {run_nodes} n SET
        state = v.state,
        revision = n.revision + 1,
        open = v.open, succeeded = v.succeeded, failed = v.failed, skipped = v.skipped, errors = v.errors,
        items = v.items, items_open = v.items_open, items_succeeded = v.items_succeeded,
        items_failed = v.items_failed, items_skipped = v.items_skipped,
        execution_id = coalesce(v.execution::uuid, n.execution_id),
        released_at = CASE WHEN v.released
            THEN (SELECT greatest(r.run_at, clock_timestamp()) FROM {dag_runs} r WHERE r.id = v.run)
            ELSE n.released_at END,
        finished_at = CASE WHEN v.finished THEN clock_timestamp() ELSE n.finished_at END,
        deadline_at = CASE
            WHEN v.finished THEN NULL
            WHEN v.released THEN clock_timestamp() + (n.approval ->> 'timeout_seconds')::float8 * interval '1 second'
            ELSE n.deadline_at END,
        error = coalesce(v.error::jsonb, n.error)
    FROM unnest(%(runs)s, %(nodes)s, %(states)s, %(open)s, %(succeeded)s, %(failed)s, %(skipped)s, %(errors)s,
        %(items)s, %(items_open)s, %(items_succeeded)s, %(items_failed)s, %(items_skipped)s, %(executions)s,
        %(released)s::bool[], %(finished)s::bool[], %(told)s)
        v(run, node, state, open, succeeded, failed, skipped, errors, items, items_open, items_succeeded,
          items_failed, items_skipped, execution, released, finished, error)
    WHERE n.run_id = v.run AND n.node = v.node
), x AS (
    INSERT INTO {executions} (id, scheduled_at, run_at, wake_at, nominal_at, tenant_id, task_id, task_version_id,
        max_attempts, status, hold, class, priority, origin, overlap, idempotency_key, queue_seconds, dag_run_id,
        dag_node, dag_item, dag_generation, route_id, concurrency_key, traceparent)
    SELECT v.id, r.scheduled_at, greatest(r.run_at, clock_timestamp()),
        CASE WHEN n.approval IS NULL THEN greatest(r.run_at, clock_timestamp()) END,
        r.nominal_at, r.tenant_id, n.task_id, n.version_id, n.max_attempts,
        CASE WHEN n.approval IS NULL THEN {SCHEDULED} ELSE {WAITING} END, {HOLD_NONE},
        CASE WHEN n.priority <= 3 THEN 0 WHEN n.priority <= 7 THEN 1 ELSE 2 END, n.priority, {ORIGIN_DAG},
        {OVERLAP_ALLOW_ALL},
        r.id || '/' || n.node_id || coalesce('[' || v.item || ']', '')
            || CASE WHEN n.generation > 1 THEN '#' || n.generation ELSE '' END,
        n.queue_seconds, r.id, n.node, v.item, n.generation, n.route_id, n.concurrency_key, r.traceparent
    FROM unnest(%(made)s, %(made_runs)s, %(made_nodes)s, %(made_items)s) v(id, run, node, item)
    CROSS JOIN LATERAL (SELECT * FROM {run_nodes} n WHERE n.run_id = v.run AND n.node = v.node OFFSET 0) n
    JOIN {dag_runs} r ON r.id = v.run
)
UPDATE {dag_runs} r SET open_nodes = r.open_nodes - v.count, version = r.version + 1
FROM unnest(%(closed_runs)s, %(closed)s) v(run, count)
WHERE r.id = v.run
RETURNING r.id, r.open_nodes

-- name: insert_items
-- The items of mapped nodes that have been sized: each is an edge of its node to itself, counted once when it ends.
INSERT INTO task_dependencies (scheduled_at, run_id, parent, child, item)
SELECT n.scheduled_at, n.run_id, n.node, n.node, i
FROM unnest(%(runs)s, %(nodes)s, %(counts)s) v(run, node, count)
JOIN {run_nodes} n ON n.run_id = v.run AND n.node = v.node
CROSS JOIN generate_series(0, v.count - 1) i

-- name: end_runs
-- Runs of which every node is final end as their nodes did, or as whoever stopped them said; and whether others of their
-- DAG wait to begin.
UPDATE {dag_runs} r SET
    status = coalesce(r.ending, CASE
        WHEN NOT n.bad THEN {RUN_SUCCEEDED}
        WHEN n.good THEN {RUN_PARTIALLY_COMPLETED}
        ELSE {RUN_FAILED} END),
    finished_at = clock_timestamp(), deadline_at = NULL, queued_since = NULL, version = r.version + 1
FROM (
    SELECT m.run_id, bool_or(m.state IN ({NODE_FAILED}, {NODE_UPSTREAM_FAILED}, {NODE_CANCELLED})) AS bad,
        bool_or(m.state = {NODE_SUCCEEDED}) AS good
    FROM {run_nodes} m WHERE m.run_id = ANY(%(runs)s) GROUP BY m.run_id
) n
WHERE r.id = n.run_id AND r.open_nodes = 0 AND r.status = {RUN_RUNNING}
RETURNING r.id, EXISTS (SELECT 1 FROM dag_runs q WHERE q.dag_id = r.dag_id AND q.queued_since IS NOT NULL)

-- name: stop_runs
-- Nothing more of these runs begins; they end as `ending` once what runs has stopped.
UPDATE {dag_runs} r SET ending = %(ending)s, deadline_at = NULL, queued_since = NULL, version = r.version + 1
WHERE r.id = ANY(%(runs)s) AND r.status = {RUN_RUNNING} AND r.ending IS NULL
RETURNING r.id

-- name: end_pending_nodes
-- Nodes of stopped runs that were never released.
UPDATE {run_nodes} n SET state = %(state)s, error = %(error)s::jsonb, finished_at = clock_timestamp(),
    revision = n.revision + 1
WHERE n.run_id = ANY(%(runs)s) AND n.state = {NODE_PENDING}
RETURNING n.run_id

-- name: stop_executions
-- Ask what runs of stopped runs to stop; what no worker has ends here. What another transaction holds is ending just
-- now, or is asked by the watchdog a moment later.
WITH l AS (
    SELECT e.scheduled_at, e.id FROM {executions} e
    WHERE e.dag_run_id = ANY(%(runs)s) AND e.status NOT IN {IN_RESTING}
      AND (e.status NOT IN {IN_ACTIVE} OR e.cancel_requested_at IS NULL)
    ORDER BY e.scheduled_at, e.id
    FOR UPDATE SKIP LOCKED
), u AS (
    UPDATE {executions} e SET
        status = CASE WHEN e.status IN {IN_ACTIVE} THEN e.status ELSE {CANCELLED} END,
        cancel_requested_at = clock_timestamp(),
        finished_at = CASE WHEN e.status NOT IN {IN_ACTIVE} THEN clock_timestamp() END,
        wake_at = NULL,
        version = e.version + 1
    FROM l WHERE e.scheduled_at = l.scheduled_at AND e.id = l.id
    RETURNING e.id, e.scheduled_at, e.tenant_id, e.slot_key, e.concurrency_key, e.status, e.token
), w AS (
    DELETE FROM slot_waiters w USING u
    WHERE w.key IN (u.slot_key, u.concurrency_key) AND w.scheduled_at = u.scheduled_at AND w.execution_id = u.id
      AND u.status = {CANCELLED}
), s AS (
    DELETE FROM slots s USING u
    WHERE s.key IN (u.slot_key, u.concurrency_key) AND s.execution_id = u.id AND u.status = {CANCELLED}
), x AS (
    INSERT INTO {execution_events} (scheduled_at, execution_id, tenant_id, target, token, actor, reason)
    SELECT scheduled_at, id, tenant_id, status, token, %(actor)s, %(reason)s FROM u
)
SELECT id, status, tenant_id FROM u

-- name: results_by_name
-- What nodes that are known by name have come to.
SELECT n.run_id, n.node_id, n.state, CASE
    WHEN n.items IS NULL THEN
        (SELECT e.result FROM {executions} e WHERE e.scheduled_at = n.scheduled_at AND e.id = n.execution_id)
    ELSE (SELECT coalesce(jsonb_agg(e.result ORDER BY e.dag_item), '[]') FROM {executions} e
          WHERE e.dag_run_id = n.run_id AND e.dag_node = n.node AND e.dag_generation = n.generation)
    END AS result
FROM unnest(%(runs)s, %(names)s) v(run, name)
JOIN {run_nodes} n ON n.run_id = v.run AND n.node_id = v.name

-- name: runs_for_references
-- What references to a run itself may ask for.
SELECT r.id, r.parameters, r.nominal_at FROM {dag_runs} r WHERE r.id = ANY(%(runs)s)
