"""Cutting an attempt's lines into batches."""

from collections.abc import Sequence

from apps.logs.assembly import Numbered
from apps.logs.records import Batch

BATCH_BYTES = 192 * 1024
"""Of raw text that becomes one batch; a JSON line is longer than its text."""


def batches_of(
    execution: bytes, token: int, attempt: int, lines: Sequence[Numbered], *, last: int, ended: bool, now_us: int
) -> list[Batch]:
    """Batches of at most BATCH_BYTES, but at least one line each. last: number of the attempt's last line so far."""
    made: list[Batch] = []
    start = 0
    while start < len(lines):
        end, length = start, 0
        while end < len(lines) and (end == start or length + len(lines[end].data) <= BATCH_BYTES):
            length += len(lines[end].data)
            end += 1
        part = lines[start:end]
        head = (execution, token, attempt, part[0].sequence, part[-1].sequence, part[0].time_us, part[-1].time_us)
        made.append(Batch(*head, b"".join(line.data for line in part), ended and end == len(lines)))
        start = end
    if ended and not made:
        made.append(Batch(execution, token, attempt, last + 1, last, now_us, now_us, b"", True))
    return made
