"""Jitter: a stable shift of each task that keeps a thousand nightly jobs from starting in one second."""

import hashlib
from datetime import timedelta
from uuid import UUID

MAXIMUM = timedelta(seconds=120)
_MILLISECOND = timedelta(milliseconds=1)


def jitter_offset(
    *, tenant_id: UUID, task_id: UUID, smallest_gap: timedelta | None, maximum: timedelta = MAXIMUM
) -> timedelta:
    """The shift of a task's run times: whole milliseconds, in ±min(maximum, smallest_gap / 4), ends included.

    The same for all its occurrences and on every machine, so the distance between two of them stays as scheduled.
    smallest_gap None: nothing follows, only `maximum` bounds. Raises ValueError for a negative bound.
    """
    bound = maximum if smallest_gap is None else min(maximum, smallest_gap / 4)
    bound_ms = bound // _MILLISECOND
    if bound_ms < 0:
        raise ValueError(f"jitter needs a bound that is not negative, got {bound}")
    digest = hashlib.blake2b(tenant_id.bytes + task_id.bytes, digest_size=8, person=b"chronoweb.jitter").digest()
    return (int.from_bytes(digest) % (2 * bound_ms + 1) - bound_ms) * _MILLISECOND
