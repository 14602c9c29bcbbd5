-- name: finding_note
-- What the watchdog has found; the same as within the last minute is counted there.
WITH same AS (
    UPDATE findings SET count = count + %(count)s, last_at = clock_timestamp()
    WHERE id = (SELECT f.id FROM findings f
                WHERE f.kind = %(kind)s AND f.detail = %(detail)s AND f.last_at > clock_timestamp() - interval '1 minute'
                ORDER BY f.id DESC LIMIT 1)
    RETURNING id
)
INSERT INTO findings (first_at, last_at, kind, detail, count)
SELECT clock_timestamp(), clock_timestamp(), %(kind)s, %(detail)s, %(count)s WHERE NOT EXISTS (SELECT 1 FROM same)

-- name: findings_forget
DELETE FROM findings WHERE last_at < clock_timestamp() - %(days)s * interval '1 day'
