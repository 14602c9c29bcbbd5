-- name: latest_runs
-- The last runs of each of these DAGs, latest first: an index entry a run, and only days since `since`.
SELECT r.id, r.dag_id, r.status, r.version, r.run_at, r.created_at, r.finished_at, r.queued_since,
    r.ending
FROM unnest(%(dags)s::uuid[]) d(id)
CROSS JOIN LATERAL (
    SELECT * FROM dag_runs r
    WHERE r.dag_id = d.id AND r.tenant_id = %(tenant)s AND r.scheduled_at >= %(since)s
    ORDER BY r.id DESC LIMIT %(each)s) r

-- name: place_in_queue
-- Where a run stands among those of its DAG that wait and whose time has come, in the order in which they will begin; how
-- many these are; how many runs of the DAG have begun and not ended, and the oldest of these.
SELECT q.place, q.waiting, a.active, a.first
FROM (
    SELECT id, row_number() OVER (ORDER BY greatest(queued_since, run_at), id) AS place, count(*) OVER () AS waiting
    FROM dag_runs
    WHERE dag_id = %(dag)s AND tenant_id = %(tenant)s AND queued_since IS NOT NULL AND ending IS NULL
        AND run_at <= clock_timestamp() + %(lead)s) q,
    (SELECT count(*) AS active, coalesce((array_agg(id ORDER BY id))[:%(shown)s], ARRAY[]::uuid[]) AS first FROM dag_runs
     WHERE dag_id = %(dag)s AND tenant_id = %(tenant)s AND status = {RUN_RUNNING} AND queued_since IS NULL) a
WHERE q.id = %(run)s
