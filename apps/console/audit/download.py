"""The audit log as a file: what a filter finds, latest first, read and sent piece by piece."""

import csv
import io
import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

from django.http import StreamingHttpResponse

from apps.console.audit.asked import Asked
from apps.logs.live import in_thread
from apps.tenants import audit_reading
from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import InvalidInput

MOST = 100_000
_AT_ONCE = 1000
_COLUMNS = ("id", "at", "actor", "action", "target_type", "target_id", "via", "address", "detail")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""With the full-width signs, which spreadsheets of East Asia take for the same."""


MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def respond(principal: Principal, asked: Asked, kind: str, *, now: datetime) -> StreamingHttpResponse:
    """kind: one of MEDIA_TYPES. Raises InvalidInput."""
    if kind not in MEDIA_TYPES:
        raise InvalidInput("/format", kind[:80], "is no format", tuple(MEDIA_TYPES))
    answer = StreamingHttpResponse(_sent(texts(principal, asked, kind, now=now)), content_type=MEDIA_TYPES[kind])
    answer["Content-Disposition"] = f'attachment; filename="audit-{principal.tenant_slug}.{kind}"'
    answer["X-Accel-Buffering"] = "no"
    return answer


def texts(principal: Principal, asked: Asked, kind: str, *, now: datetime) -> Iterator[str]:
    """The file, piece by piece; nothing is read before it is asked for."""
    batches = _batches(principal, asked, now)
    return _csv(batches) if kind == "csv" else _json(batches)


async def _sent(texts: Iterator[str]) -> AsyncIterator[bytes]:
    while (text := await in_thread(lambda: next(texts, None))) is not None:
        yield text.encode()


def _batches(principal: Principal, asked: Asked, now: datetime) -> Iterator[list[AuditEntry]]:
    """Each behind the last, so that what is written meanwhile moves nothing; MOST entries in all."""
    wanted, before, left = asked.wanted(now), asked.before, MOST
    while left > 0:
        found = list(audit_reading.entries(principal, wanted, before=before)[: min(_AT_ONCE, left)])
        if not found:
            return
        yield found
        before, left = found[-1].pk, left - len(found)


def _csv(batches: Iterator[list[AuditEntry]]) -> Iterator[str]:
    yield ",".join(_COLUMNS) + "\r\n"
    for batch in batches:
        text = io.StringIO()
        csv.writer(text).writerows([_cell(value) for value in _values(row)] for row in batch)
        yield text.getvalue()


def _json(batches: Iterator[list[AuditEntry]]) -> Iterator[str]:
    between = "[\n"
    for batch in batches:
        rows = (dict(zip(_COLUMNS, _values(row), strict=True)) for row in batch)
        yield between + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


def _values(row: AuditEntry) -> list[Any]:
    given = (row.pk, row.at.isoformat(), row.actor, row.action, row.target_type, row.target_id, row.via, row.address)
    return [*given, row.detail]


def _cell(value: Any) -> str:
    """Text that a spreadsheet takes for text: what would be a formula there gets a mark in front."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text
