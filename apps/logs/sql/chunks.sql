-- name: known_ends
-- How far the lines of these attempts are in the index, and whether nothing follows.
SELECT v.id, v.token, coalesce(c.last_seq, 0), coalesce(c.ended, false)
FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s) v(id, s, token)
LEFT JOIN LATERAL (
    SELECT max(last_seq) last_seq, bool_or(ended) ended FROM {log_chunks} c
    WHERE c.scheduled_at = v.s AND c.execution_id = v.id AND c.token = v.token
) c ON true

-- name: add_chunks
-- Note where lines are kept. Fenced: the token must be the execution's, or that of one of its attempts that have been
-- recorded, so nothing can be said in the name of an attempt that never was; the tenant is the ledger's word. Lines
-- that are in the index already are refused: another shipper was faster, and what it noted stands.
WITH v AS (
    SELECT * FROM unnest(%(ids)s, %(scheduled)s, %(tokens)s, %(attempts)s, %(first)s, %(last)s, %(first_at)s,
        %(last_at)s, %(bytes)s, %(names)s, %(starts)s, %(lengths)s, %(ended)s::boolean[], %(words)s,
        %(whole)s::boolean[])
        v(id, s, token, attempt, first_seq, last_seq, first_at, last_at, bytes, name, start, length, ended, words,
          whole)
)
INSERT INTO {log_chunks} (scheduled_at, execution_id, token, attempt, tenant_id, first_seq, last_seq, first_at,
    last_at, bytes, storage_name, start, length, ended, words, searched_whole)
SELECT v.s, v.id, v.token, v.attempt, e.tenant_id, v.first_seq, v.last_seq, v.first_at, v.last_at, v.bytes, v.name,
    v.start, v.length, v.ended, array_to_tsvector(string_to_array(v.words, ' ')), v.whole
FROM v JOIN {executions} e ON e.scheduled_at = v.s AND e.id = v.id
WHERE (e.token = v.token OR EXISTS (
        SELECT FROM {attempts} a WHERE a.scheduled_at = v.s AND a.execution_id = v.id AND a.token = v.token))
  AND NOT EXISTS (
        SELECT FROM {log_chunks} c WHERE c.scheduled_at = v.s AND c.execution_id = v.id AND c.token = v.token
          AND (c.last_seq >= v.first_seq OR c.ended))
ON CONFLICT DO NOTHING
RETURNING execution_id, token, first_seq, tenant_id
