"""Idempotency keys: a tenant's key, once used, stands for one question and its answer for some days.

The key's row is written in the transaction of what it guards, so either both are there or neither. A second user
of the key waits for the first one's transaction, up to WAIT_SECONDS, and then reads its answer.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from apps.executions.store import named_sql
from chronoweb.runtime.errors import Conflict
from chronoweb.runtime.postgres import int2s, texts

WAIT_SECONDS = 5
LONGEST_KEY = 255


class Used(NamedTuple):
    """What a key stands for. status and body are None while the first answer is not known."""

    body_hash: str
    status: int | None
    body: Any


def digest(*parts: bytes) -> str:
    """SHA-256 of the parts, hexadecimal; their borders count."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()


def take(
    connection: psycopg.Connection,
    *,
    tenant_id: UUID,
    keys: Mapping[str, str],
    answers: Sequence[tuple[int | None, Any]] | None = None,
    days: int,
) -> dict[str, Used]:
    """Use each key (key → hash of its question) in this transaction; returns those that were used before.

    answers: (status, body) of each key, where they are known already. Raises Conflict when another transaction holds
    one of the keys for longer than WAIT_SECONDS.
    """
    if not keys:
        return {}
    known = answers or [(None, None) for _ in keys]
    parameters = {
        "tenant": tenant_id,
        "keys": texts([key.encode() for key in keys]),
        "hashes": texts([hash_.encode() for hash_ in keys.values()]),
        "statuses": int2s([status for status, _ in known]),
        "bodies": texts([None if status is None else json.dumps(body).encode() for status, body in known]),
        "days": days,
    }
    try:
        connection.execute(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")
        fresh = {row[0] for row in connection.execute(named_sql("key_take"), parameters)}
        connection.execute("SET LOCAL lock_timeout = 0")
    except psycopg.errors.LockNotAvailable:
        raise Conflict("another request with this idempotency key is in progress; ask again in a moment") from None
    used = [key for key in keys if key not in fresh]
    if not used:
        return {}
    rows = connection.execute(named_sql("key_read"), {"tenant": tenant_id, "keys": used})
    return {key: Used(hash_, status, None if body is None else json.loads(body)) for key, hash_, status, body in rows}


def answer(connection: psycopg.Connection, *, tenant_id: UUID, key: str, status: int, body: Any) -> None:
    """Keep the answer of a key that `take` has taken in this transaction."""
    parameters = {"tenant": tenant_id, "key": key, "status": status, "body": json.dumps(body)}
    connection.execute(named_sql("key_answer"), parameters)


def forget(connection: psycopg.Connection, *, tenant_id: UUID, key: str) -> None:
    """What the key guards did not come about: it may be used again."""
    connection.execute(named_sql("key_forget"), {"tenant": tenant_id, "key": key})
