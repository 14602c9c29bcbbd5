-- name: dead_letter_groups
-- Dead letters of a tenant that failed alike, the largest group first, of the newest `most`. The last column is how many
-- those are.
WITH d AS (
    SELECT execution_id, task_id, fingerprint, since FROM dead_letters
    WHERE tenant_id = %(tenant)s
      AND (%(task)s::uuid IS NULL OR task_id = %(task)s)
      AND (%(fingerprint)s::text IS NULL OR fingerprint = %(fingerprint)s)
      AND (%(since)s::timestamptz IS NULL OR since >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR since < %(until)s)
    ORDER BY execution_id DESC LIMIT %(most)s
)
SELECT fingerprint, task_id, count(*), min(since), max(since),
    (array_agg(execution_id ORDER BY execution_id DESC))[1], (sum(count(*)) OVER ())::bigint, count(*) OVER ()
FROM d GROUP BY fingerprint, task_id ORDER BY count(*) DESC, max(since) DESC, fingerprint, task_id LIMIT %(groups)s
