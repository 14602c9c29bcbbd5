"""What the API and the console answer about logs; they differ in who asks, not in what is told."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.executions.models import Execution
from apps.logs import live, reading
from apps.logs.records import BEGINNING, Batch, Position
from apps.logs.transport import LogTail, make_tail
from apps.logs.words import MOST_WANTED, Wanted
from apps.tenants.principal import Principal
from chronoweb.runtime import addresses
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import InvalidInput

PARAMETERS = ("cursor", "limit", "attempt", "stream", "search", "grouped")
DEFAULT_LIMIT, LARGEST_LIMIT = 200, 1000
PAGE_BYTES = 8 << 20
"""Lines read for one page; a search may need several pages to get through a long log."""
FORMATS = {"jsonl": "application/jsonl", "text": "text/plain; charset=utf-8"}


def tail_of(execution: Execution) -> LogTail:
    return make_tail(addresses.configured(), config(), execution.id.bytes)


def wants_events(request: HttpRequest) -> bool:
    return "text/event-stream" in request.headers.get("Accept", "")


def events(
    request: HttpRequest, principal: Principal, execution: Execution, *, may_look: Callable[[], bool]
) -> HttpResponseBase:
    """The live tail, behind Last-Event-ID or `cursor`, for as long as `may_look`. Raises InvalidInput."""
    text = request.headers.get("Last-Event-ID") or request.GET.get("cursor")
    after = _position("Last-Event-ID" if request.headers.get("Last-Event-ID") else "cursor", text)
    grouped = request.GET.get("grouped") == "true"
    return live.respond(principal, execution, tail_of(execution), after, may_look=may_look, grouped=grouped)


def page(request: HttpRequest, principal: Principal, execution: Execution) -> dict[str, Any]:
    """A page of lines by key: {items, next_cursor}. Raises InvalidInput."""
    tail = tail_of(execution)
    _position("Last-Event-ID", request.headers.get("Last-Event-ID"))  # means nothing here; a wrong one is wrong
    try:
        found = reading.page(
            principal,
            execution,
            tail,
            after=_position("cursor", request.GET.get("cursor")),
            which=_filter(request),
            limit=limit(request),
            most_bytes=PAGE_BYTES,
        )
    finally:
        async_to_sync(tail.close)()
    return {"items": found.lines, "next_cursor": None if found.after is None else str(found.after)}


def download(request: HttpRequest, principal: Principal, execution: Execution) -> HttpResponseBase:
    """All lines up to now, streamed. format: jsonl, or text, which is what was written and nothing else."""
    kind = request.GET.get("format", "jsonl")
    if kind not in FORMATS:
        raise query_error("format", kind, "is no format", list(FORMATS))
    which = reading.Filter(attempt=_number(request, "attempt"))
    answer = StreamingHttpResponse(_download(principal, execution, which, kind), content_type=FORMATS[kind])
    suffix = "jsonl" if kind == "jsonl" else "txt"
    answer["Content-Disposition"] = f'attachment; filename="log-{execution.id}.{suffix}"'
    answer["X-Accel-Buffering"] = "no"
    return answer


async def _download(
    principal: Principal, execution: Execution, which: reading.Filter, kind: str
) -> AsyncIterator[bytes]:
    tail = tail_of(execution)
    batches = reading.batches(principal, execution, tail, BEGINNING, which)
    try:
        while (batch := await live.in_thread(lambda: next(batches, None))) is not None:
            yield b"".join(_lines(batch, which, kind))
    finally:
        await tail.close()


def _lines(batch: Batch, which: reading.Filter, kind: str) -> Iterator[bytes]:
    if kind == "jsonl" and which.all:
        yield batch.lines
        return
    for _, data in batch.numbered():
        line = json.loads(data)
        if which.takes(line):
            yield data + b"\n" if kind == "jsonl" else line["text"].encode() + b"\n"


def query_error(name: str, value: Any, problem: str, legal: Any) -> InvalidInput:
    """A wrong parameter; the API answers 400 for what is wrong in a query."""
    return InvalidInput(f"query:{name}", value, problem, legal)


def wanted(text: str | None, *, needed: bool = False) -> Wanted:
    """The words of a search. Raises InvalidInput for one without any."""
    found = Wanted(text or "")
    if (text or needed) and not found:
        raise query_error("search", text, "has no word to look for", f"1 to {MOST_WANTED} words")
    return found


def _filter(request: HttpRequest) -> reading.Filter:
    names = [word for value in request.GET.getlist("stream") for word in value.split(",")]
    for name in names:
        if name not in reading.known_streams():
            raise query_error("stream", name, "is not a stream", reading.known_streams())
    return reading.Filter(_number(request, "attempt"), frozenset(names), wanted(request.GET.get("search")))


def limit(request: HttpRequest) -> int:
    found = _number(request, "limit", most=LARGEST_LIMIT)
    return DEFAULT_LIMIT if found is None else found


def _number(request: HttpRequest, name: str, most: int = 10**6) -> int | None:
    text = request.GET.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and 1 <= int(text) <= most):
        raise query_error(name, text, "is out of range", f"1 to {most}")
    return int(text)


def _position(name: str, text: str | None) -> Position:
    if not text:
        return BEGINNING
    try:
        return Position.parse(text)
    except ValueError as problem:
        raise query_error(name, text, str(problem), "the id of a line: TOKEN-SEQUENCE") from None
