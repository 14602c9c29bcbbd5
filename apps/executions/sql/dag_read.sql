-- name: latest_runs
-- The last runs of each of these DAGs, latest first: an index entry a run, and only days since `since`.
SELECT r.id, r.dag_id, r.status, r.version, r.run_at, r.created_at, r.finished_at
FROM unnest(%(dags)s::uuid[]) d(id)
CROSS JOIN LATERAL (
    SELECT * FROM dag_runs r
    WHERE r.dag_id = d.id AND r.tenant_id = %(tenant)s AND r.scheduled_at >= %(since)s
    ORDER BY r.id DESC LIMIT %(each)s) r
