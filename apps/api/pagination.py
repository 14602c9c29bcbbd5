"""Pages by key: a cursor says behind which row to go on, so rows that come or go in between shift nothing."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from rest_framework.request import Request

from apps.api.openapi.shapes import Shape, many, one_of
from apps.api.problems import query_error

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 200
OWN_PARAMETERS = ("ordering", "limit", "cursor")
_SEAL = 10

Column = tuple[str, bool]
"""The path of a column, and whether it descends."""


class Ordering:
    """The orders that a list may be asked for: names of the API → columns. tie: a column that is unique.

    A column that orders as the tie does (creation and UUIDv7 ids) is given as the tie itself. Columns hold no NULL.
    """

    def __init__(self, columns: Mapping[str, str], *, default: str, tie: str = "id") -> None:
        self._columns = dict(columns)
        self._default = default
        self._tie = tie

    @property
    def legal(self) -> list[str]:
        return [sign + name for name in self._columns for sign in ("", "-")]

    def shape(self) -> Shape:
        about = 'several are separated by commas; "-" descends'
        return {**many(one_of(self.legal), least=1), "default": [self._default], "description": about}

    def read(self, text: str | None) -> tuple[Column, ...]:
        """The columns of `?ordering=name,-created_at`. Raises InvalidInput (400)."""
        columns: dict[str, bool] = {}
        for word in (text if text is not None else self._default).split(","):
            name = word.removeprefix("-")
            if name not in self._columns:
                raise query_error("ordering", word, "is not an order of this list", self.legal)
            if self._tie not in columns:  # behind a unique column nothing is left to order
                columns.setdefault(self._columns[name], word.startswith("-"))
        columns.setdefault(self._tie, next(iter(columns.values())))
        return tuple(columns.items())


@dataclass(frozen=True, slots=True)
class PageRequest:
    """limit: rows wanted. columns: their order. after: the last row's values in them; None for the first page."""

    limit: int
    columns: tuple[Column, ...]
    after: tuple[Any, ...] | None
    scope: bytes

    @property
    def descends(self) -> bool:
        """Whether the first column does."""
        return self.columns[0][1]

    @property
    def last(self) -> Any:
        """The tie of the last row of the page before; None for the first page."""
        return None if self.after is None else self.after[-1]

    def rows(self, rows: QuerySet[Any, Any]) -> list[Any]:
        """The page's rows, and one more where there are more."""
        if self.after is not None:
            rows = rows.filter(_behind(self.columns, self.after))
        return list(rows.order_by(*(f"-{path}" if down else path for path, down in self.columns))[: self.limit + 1])

    def answer(
        self, found: Sequence[Any], items: Sequence[dict[str, Any]], *, stopped: UUID | None = None
    ) -> dict[str, Any]:
        """The page's JSON. found: limit + 1 rows where there are more; items: the first `limit` of them, shown.

        stopped: behind which id a search goes on that ended before the page was full; of lists in the order of ids.
        """
        more = len(found) > self.limit
        cursor = None
        if more:
            last = found[self.limit - 1]
            cursor = _encode([_value(last, path) for path, _ in self.columns], self.scope)
        elif stopped is not None:
            cursor = _encode([stopped], self.scope)
        return {"items": list(items), "next_cursor": cursor}


def page_request(request: Request, *, filters: Sequence[str], ordering: Ordering) -> PageRequest:
    """Reads `limit`, `ordering` and `cursor`. A cursor belongs to the tenant, the route, the filters and the order that
    it was made for.

    Raises InvalidInput (400) for a limit out of range, an unknown order, and a cursor that was altered or is another
    list's.
    """
    columns = ordering.read(request.query_params.get("ordering"))
    scope = _scope(request, filters, columns)
    after = _decode(request.query_params.get("cursor"), scope)
    return PageRequest(limit=_limit(request), columns=columns, after=after, scope=scope)


def _behind(columns: Sequence[Column], values: Sequence[Any]) -> Q:
    """Rows that come after these values: (a > x) or (a = x and b < y) or …"""
    found, equal = Q(), Q()
    for (path, down), value in zip(columns, values, strict=True):
        found |= equal & Q(**{f"{path}__{'lt' if down else 'gt'}": value})
        equal &= Q(**{path: value})
    # The first column alone bounds the search: PostgreSQL sees no bound in a disjunction.
    first, down = columns[0]
    return Q(**{f"{first}__{'lte' if down else 'gte'}": values[0]}) & found


def _value(row: Any, path: str) -> Any:
    for name in path.split("__"):
        row = getattr(row, name)
    return row


def _scope(request: Request, filters: Sequence[str], columns: Sequence[Column]) -> bytes:
    values = [str(request.user.tenant_id), request.path, str(columns)]  # type: ignore[union-attr]
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


def _encode(values: Sequence[Any], scope: bytes) -> str:
    content = json.dumps([list(_tagged(value)) for value in values], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_seal(content, scope) + content).decode().rstrip("=")


def _tagged(value: Any) -> Iterator[Any]:
    if isinstance(value, UUID):
        yield from ("u", value.hex)
    elif isinstance(value, datetime):
        yield from ("t", value.isoformat())
    else:
        yield from ("", value)


_READ: dict[str, Callable[[Any], Any]] = {"u": UUID, "t": datetime.fromisoformat, "": lambda value: value}


def _decode(text: str | None, scope: bytes) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    seal, content = raw[:_SEAL], raw[_SEAL:]
    if not content or _seal(content, scope) != seal:
        legal = "a next_cursor of this very list, with the same filters and order"
        raise query_error("cursor", text, "is not a cursor of this list", legal)
    return tuple(_READ[tag](value) for tag, value in json.loads(content))


def _seal(content: bytes, scope: bytes) -> bytes:
    """What was not made here is no cursor: its values go into queries."""
    key = hashlib.sha256(settings.SECRET_KEY.encode()).digest()
    return hashlib.blake2b(content + b"\0" + scope, digest_size=_SEAL, key=key, person=b"chronoweb.cursor").digest()
