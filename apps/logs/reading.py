"""Reading an execution's lines: what is kept first, then what still waits in the transport, as one row of lines.

Whatever leaves the transport is in the index by then. So where the transport's next line does not follow what has been
read, the index is read once more, and no line is missed or shown twice.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q

from apps.executions import selectors
from apps.executions.models import Execution
from apps.executions.states import RESTING, Outcome, Status
from apps.logs import objects
from apps.logs.models import LogChunk
from apps.logs.records import BEGINNING, STREAMS, Batch, Position
from apps.logs.transport import LogTail
from apps.logs.words import Wanted
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

_ROWS = 16
GONE = "the object that these lines were kept in is gone"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which lines. attempt: its number. streams: none named means all."""

    attempt: int | None = None
    streams: frozenset[str] = field(default_factory=frozenset)
    wanted: Wanted = field(default_factory=lambda: Wanted(""))

    @property
    def all(self) -> bool:
        return self.attempt is None and not self.streams and not self.wanted

    def takes(self, line: dict[str, Any]) -> bool:
        if self.attempt is not None and line["attempt"] != self.attempt:
            return False
        if self.streams and line["stream"] not in self.streams:
            return False
        return not self.wanted or self.wanted.in_text(searched_text(line))


EVERYTHING = Filter()


def searched_text(line: dict[str, Any]) -> str:
    """What a search looks at: the text, the level, and the fields of `context.log`."""
    if "level" not in line:
        return str(line["text"])
    fields = json.dumps(line.get("fields") or {}, ensure_ascii=False)
    return f"{line['text']} {line['level']} {fields}"


def chunks(
    principal: Principal, execution: Execution, after: Position = BEGINNING, which: Filter = EVERYTHING
) -> Iterator[LogChunk]:
    """The index's rows behind `after`, in order; those that cannot hold a wanted line are left out."""
    while True:
        rows = scoped(LogChunk.objects.all(), principal).filter(
            scheduled_at=execution.scheduled_at, execution_id=execution.id
        )
        # A row without lines, which says the end, has a first number behind its last one.
        behind = Q(token__gt=after.token) | Q(last_seq__gt=after.sequence) | Q(first_seq__gt=after.sequence)
        rows = rows.filter(behind, token__gte=after.token)
        if which.attempt is not None:
            rows = rows.filter(attempt=which.attempt)
        if which.wanted:
            rows = rows.extra(where=["(words @@ %s::tsquery OR NOT searched_whole)"], params=[which.wanted.query])
        page = list(rows.defer("words").order_by("token", "first_seq")[:_ROWS])
        yield from page
        if len(page) < _ROWS:
            return
        after = Position(page[-1].token, max(page[-1].first_seq, page[-1].last_seq))


def load(chunk: LogChunk) -> Batch:
    """The lines of a row. Of an object that is gone, one line says so."""
    if not chunk.length:
        return _batch(chunk, b"", first=chunk.first_seq)
    try:
        lines = objects.read(chunk.storage_name, chunk.start, chunk.length)
    except FileNotFoundError:
        line = {"attempt": chunk.attempt, "seq": chunk.last_seq, "time": chunk.last_at.isoformat(), "stream": "system"}
        text = json.dumps({**line, "text": f"… lines {chunk.first_seq:,} to {chunk.last_seq:,}: {GONE}"})
        return _batch(chunk, text.encode() + b"\n", first=chunk.last_seq)
    return _batch(chunk, lines, first=chunk.first_seq)


def _batch(chunk: LogChunk, lines: bytes, *, first: int) -> Batch:
    return Batch(chunk.execution_id.bytes, chunk.token, chunk.attempt, first, chunk.last_seq, 0, 0, lines, chunk.ended)


def follows(after: Position, batch: Batch) -> bool:
    """Whether nothing can be missing between."""
    return batch.token == after.token and batch.first <= after.sequence + 1


def batches(
    principal: Principal,
    execution: Execution,
    tail: LogTail,
    after: Position = BEGINNING,
    which: Filter = EVERYTHING,
) -> Iterator[Batch]:
    """All lines behind `after`, in order, up to those that wait now. Of the kept ones only what may match `which`."""
    reader = _Reader(after)
    yield from reader.new(load(chunk) for chunk in chunks(principal, execution, after, which))
    passed = reader.after
    while waiting := tail.read(passed, ended=passed.token in reader.ended):
        if not follows(reader.after, waiting[0]):
            yield from reader.new(load(chunk) for chunk in chunks(principal, execution, reader.after, which))
        yield from reader.new(waiting)
        if passed == (passed := max(waiting[-1].position, reader.after)):
            return  # nothing but the end, again


class _Reader:
    """Passes on what is behind the last line, and remembers which attempts have said their end."""

    def __init__(self, after: Position) -> None:
        self.after = after
        self.ended: set[int] = set()

    def new(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if batch.ended:
                self.ended.add(batch.token)
            rest = batch.behind(self.after)
            if rest is not None:
                self.after = max(rest.position, self.after)
                yield rest


@dataclass(frozen=True, slots=True)
class Page:
    """Lines as the API shows them. after: where to go on; None at the end, for now."""

    lines: list[dict[str, Any]]
    after: Position | None


def page(
    principal: Principal,
    execution: Execution,
    tail: LogTail,
    *,
    after: Position,
    which: Filter,
    limit: int,
    most_bytes: int,
) -> Page:
    """Up to `limit` lines behind `after`. It also ends once it has read `most_bytes` of lines."""
    found: list[dict[str, Any]] = []
    read = 0
    for batch in batches(principal, execution, tail, after, which):
        for position, data in batch.numbered():
            line = json.loads(data)
            if which.takes(line):
                found.append({"id": str(position), **line})
                if len(found) >= limit:
                    return Page(found, position)
        read += len(batch.lines)
        after = batch.position
        if read >= most_bytes:
            return Page(found, after)
    return Page(found, None)


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether lines are still to come. token: of the attempt that was the last to begin; 0 before any did.

    over: no attempt runs or is about to. since_seconds: how long that has been so. silent: nobody will say the end of
    the last attempt, for its worker was lost.
    """

    status: Status
    attempt: int
    token: int
    over: bool
    since_seconds: float
    silent: bool


def standing(principal: Principal, execution_id: Any, *, now: datetime) -> Standing:
    """By the ledger. Raises NotFound."""
    execution = selectors.execution(principal, execution_id)
    tries = selectors.attempts_of(execution)
    last = tries[-1] if tries else None
    over = execution.state in RESTING or execution.state in (Status.RETRYING, Status.WAITING)
    ended_at = max([one.finished_at for one in tries] + [execution.finished_at or execution.created_at])
    return Standing(
        status=execution.state,
        attempt=last.attempt if last else execution.attempt,
        token=last.token if last else 0,
        over=over,
        since_seconds=max(0.0, (now - ended_at).total_seconds()),
        silent=last is not None and last.outcome == Outcome.CRASHED,
    )


def known_streams() -> list[str]:
    return sorted(STREAMS.values())
