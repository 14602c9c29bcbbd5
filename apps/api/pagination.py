"""Pages by key: a cursor says after which id to go on, so rows that come or go in between shift nothing."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rest_framework.request import Request

from apps.api.problems import query_error

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 200
_SEAL = 6


@dataclass(frozen=True, slots=True)
class PageRequest:
    """limit: rows wanted. below: the last id of the page before; None for the first page. scope: see `page_request`."""

    limit: int
    below: UUID | None
    scope: bytes

    def answer(self, rows: Sequence[Any], items: Sequence[dict[str, Any]], last: UUID | None) -> dict[str, Any]:
        """The page's JSON. rows: what was found with limit + 1; items: the first `limit` of them."""
        more = len(rows) > self.limit
        return {"items": list(items), "next_cursor": _encode(last, self.scope) if more and last else None}


def page_request(request: Request, *, filters: Sequence[str]) -> PageRequest:
    """Reads `limit` and `cursor`. A cursor belongs to the tenant, the route and the filters that it was made for.

    Raises InvalidInput (400) for a limit out of range and for a cursor that was altered or is another list's.
    """
    scope = _scope(request, filters)
    return PageRequest(limit=_limit(request), below=_decode(request.query_params.get("cursor"), scope), scope=scope)


def _scope(request: Request, filters: Sequence[str]) -> bytes:
    values = [str(request.user.tenant_id), request.path]  # type: ignore[union-attr]
    for name in filters:
        values += [name, *sorted(request.query_params.getlist(name))]
    return "\0".join(values).encode("utf-8", "replace")


def _limit(request: Request) -> int:
    text = request.query_params.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= LARGEST_LIMIT):
        raise query_error("limit", text, "is not a number of rows", f"1 to {LARGEST_LIMIT}")
    return int(text)


def _encode(last: UUID, scope: bytes) -> str:
    return base64.urlsafe_b64encode(last.bytes + _seal(last.bytes, scope)).decode().rstrip("=")


def _decode(text: str | None, scope: bytes) -> UUID | None:
    if text is None:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != 16 + _SEAL or _seal(raw[:16], scope) != raw[16:]:
        legal = "a next_cursor of this very list, with the same filters"
        raise query_error("cursor", text, "is not a cursor of this list", legal)
    return UUID(bytes=raw[:16])


def _seal(raw: bytes, scope: bytes) -> bytes:
    """Tells slips from cursors. It is no secret: a forged cursor shows nothing that the list does not show."""
    return hashlib.blake2b(raw + scope, digest_size=_SEAL, person=b"chronoweb.cursor").digest()
