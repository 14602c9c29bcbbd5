"""From what waits to objects and rows of the index. Pure but for the storage."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from apps.executions import ids
from apps.logs import objects
from apps.logs.index import Attempt, End, NewChunk
from apps.logs.records import Batch, Position, joined
from apps.logs.transport.base import Load
from apps.logs.words import words_of_lines
from chronoweb.runtime import faults

CHUNK_BYTES = 1 << 20
"""Of JSON lines: of one chunk, and of one object, which small chunks of many executions share."""


def new_batches(loads: Sequence[Load], known: Mapping[Attempt, End]) -> list[Batch]:
    """What the index does not have yet, each attempt's batches in order and joined up to CHUNK_BYTES.

    A batch that does not follow the one before (Redis was emptied in between) begins a chunk of its own.
    """
    attempts: dict[Attempt, list[Batch]] = defaultdict(list)
    for load in loads:
        for batch in load.batches:
            attempts[batch.execution, batch.token].append(batch)
    found: list[Batch] = []
    for attempt, batches in attempts.items():
        end = known.get(attempt, End(0, False))
        if end.ended:
            continue
        found += _chunks(_behind(batches, Position(attempt[1], end.last)))
    return found


def _behind(batches: Sequence[Batch], position: Position) -> Iterator[Batch]:
    for batch in batches:
        rest = batch.behind(position)
        if rest is not None:
            yield rest
            position = rest.position


def _chunks(batches: Iterator[Batch]) -> Iterator[Batch]:
    group: list[Batch] = []
    size = 0
    for batch in batches:
        gap = bool(group) and batch.first != group[-1].last + 1
        if group and (gap or size + len(batch.lines) > CHUNK_BYTES):
            yield joined(group)
            group, size = [], 0
        group.append(batch)
        size += len(batch.lines)
    if group:
        yield joined(group)


def keep(batches: Sequence[Batch]) -> Iterator[tuple[int, list[NewChunk]]]:
    """Save objects of about CHUNK_BYTES; the day and the rows of each."""
    by_day: dict[int, list[Batch]] = defaultdict(list)
    for batch in batches:
        by_day[ids.day(batch.execution)].append(batch)
    for day, of_day in by_day.items():
        group: list[Batch] = []
        size = 0
        for batch in of_day:
            if group and size + len(batch.lines) > CHUNK_BYTES:
                yield day, _save(day, group)
                group, size = [], 0
            group.append(batch)
            size += len(batch.lines)
        yield day, _save(day, group)


def _save(day: int, batches: Sequence[Batch]) -> list[NewChunk]:
    members = [objects.member(batch.lines) if batch.lines else b"" for batch in batches]
    name = objects.save(day, members) if any(members) else ""
    faults.point("logshipper.saved")
    rows, start = [], 0
    for batch, packed in zip(batches, members, strict=True):
        words, whole = words_of_lines(batch.lines)
        head = (batch.execution, batch.token, batch.attempt, batch.first, batch.last, batch.first_us, batch.last_us)
        rows.append(NewChunk(*head, len(batch.lines), name, start, len(packed), batch.ended, words, whole))
        start += len(packed)
    return rows
