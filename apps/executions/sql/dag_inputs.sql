-- name: parents_of
-- Which nodes stand before these nodes of runs.
SELECT n.run_id, n.node, p.parent
FROM unnest(%(runs)s, %(nodes)s) v(run, node)
JOIN {run_nodes} n ON n.run_id = v.run AND n.node = v.node
CROSS JOIN unnest(n.parents) p(parent)

-- name: answers_of
-- What nodes are called, where they are, and what they have come to.
SELECT n.run_id, n.node, n.node_id, n.state, CASE
    WHEN n.items IS NULL THEN
        (SELECT e.result FROM {executions} e WHERE e.scheduled_at = n.scheduled_at AND e.id = n.execution_id)
    ELSE (SELECT coalesce(jsonb_agg(e.result ORDER BY e.dag_item), '[]') FROM {executions} e
          WHERE e.dag_run_id = n.run_id AND e.dag_node = n.node AND e.dag_generation = n.generation)
    END AS result
FROM unnest(%(runs)s, %(nodes)s) v(run, node)
JOIN {run_nodes} n ON n.run_id = v.run AND n.node = v.node

-- name: lists_of
-- What mapped nodes map over.
SELECT n.run_id, n.node, n.map_over
FROM unnest(%(runs)s, %(nodes)s) v(run, node)
JOIN {run_nodes} n ON n.run_id = v.run AND n.node = v.node
WHERE n.map_over IS NOT NULL
