"""What one transport message says: which executions were dispatched to a worker, and under which tokens.

Body: records of 32 bytes, big-endian: execution id (16 bytes), fencing token (int64), run_at (int64,
microseconds since the epoch, UTC). Headers: `v` the version, `epoch` the dispatcher's leadership term. No payload, no
secret and no trace travels: the worker reads them from the ledger when it claims.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from chronoweb.runtime.errors import ChronowebError

VERSION = "1"

WORKER_HEADER = "worker"
"""Id of the worker that the executions were dispatched to: a partition may have moved to another since."""

Record = tuple[bytes, int, int]
"""(execution id, 16 bytes; fencing token; run_at in microseconds since the epoch)."""

_RECORD = struct.Struct(">16sqq")
_ID_BYTES = 16


class EnvelopeError(ChronowebError):
    """A message that this process cannot read, or records that cannot be written; log it and drop it.

    Dropping loses nothing: the ledger takes back what nobody claimed by its deadline.
    """


@dataclass(frozen=True, slots=True)
class Envelope:
    records: list[Record]
    epoch: int


def encode(records: Sequence[Record], *, epoch: int) -> tuple[bytes, dict[str, str]]:
    """(body, headers). Raises EnvelopeError for no records, an id not of 16 bytes, or a number beyond int64."""
    if not records:
        raise EnvelopeError("An envelope needs at least one execution")
    if any(len(record[0]) != _ID_BYTES for record in records):
        raise EnvelopeError(f"An execution id in an envelope has {_ID_BYTES} bytes")  # struct would pad or cut it
    try:
        body = struct.pack(">" + "16sqq" * len(records), *chain.from_iterable(records))
    except struct.error as error:
        raise EnvelopeError(f"The records cannot be written: {error}") from error
    return body, {"v": VERSION, "epoch": str(epoch)}


def decode(body: bytes, headers: Mapping[str, str]) -> Envelope:
    """The envelope that `encode` wrote. Raises EnvelopeError for another version or a torn message."""
    version = headers.get("v")
    if version != VERSION:
        raise EnvelopeError(f"Envelope version {version!r} is unknown here; this process reads {VERSION!r}")
    if not body or len(body) % _RECORD.size:
        raise EnvelopeError(f"A torn envelope: {len(body)} bytes are not whole records of {_RECORD.size}")
    try:
        epoch = int(headers["epoch"])
    except (KeyError, ValueError):
        raise EnvelopeError(f"The epoch {headers.get('epoch')!r} of an envelope is not a number") from None
    return Envelope(list(_RECORD.iter_unpack(body)), epoch)
