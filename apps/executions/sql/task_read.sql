-- name: latest_of_tasks
-- The last executions of each of these tasks that were due, latest first: an index entry each, and only days since
-- `since`. An id begins with scheduled_at, so `edge` bounds the index's walk where the future begins.
SELECT e.task_id, e.id, e.status, e.version, e.attempt, e.scheduled_at, e.run_at, e.created_at, e.started_at, e.finished_at
FROM unnest(%(tasks)s::uuid[]) t(id)
CROSS JOIN LATERAL (
    SELECT * FROM executions e
    WHERE e.task_id = t.id AND e.tenant_id = %(tenant)s AND e.id < %(edge)s
        AND e.scheduled_at >= %(since)s AND e.scheduled_at <= %(now)s
    ORDER BY e.id DESC LIMIT %(each)s) e

-- name: faults_of
-- The attempts of these executions that did not succeed, by error type: how many, when last, and what it said then.
SELECT a.type, count(*), count(DISTINCT a.execution_id), min(a.finished_at), max(a.finished_at),
    coalesce((array_agg(a.message ORDER BY a.finished_at DESC, a.execution_id DESC))[1], ''),
    (array_agg(a.execution_id ORDER BY a.finished_at DESC, a.execution_id DESC))[1]
FROM (SELECT coalesce(nullif(a.error ->> 'type', ''), '') AS type, left(a.error ->> 'message', 300) AS message,
          a.execution_id, a.finished_at
      FROM attempts a
      WHERE a.scheduled_at = ANY(%(instants)s) AND a.execution_id = ANY(%(executions)s) AND a.tenant_id = %(tenant)s
          AND a.outcome IN ({OUTCOME_FAILED}, {OUTCOME_TIMED_OUT}, {OUTCOME_CRASHED})) a
GROUP BY a.type
ORDER BY 2 DESC, 5 DESC
