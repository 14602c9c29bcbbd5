"""What one attempt writes, on its way to the desk."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from apps.logs.assembly import Assembler
from apps.logs.records import Batch

if TYPE_CHECKING:
    from apps.logs.desk import LogDesk

ITEM_BYTES = 64
"""What a piece costs beside its bytes."""
TOO_SLOW = "the transport did not take them in time"


class End:
    """In an attempt's queue: nothing follows."""


class Missing:
    """In an attempt's queue: here lines were dropped."""

    __slots__ = ("count", "why")

    def __init__(self, count: int, why: str) -> None:
        self.count = count
        self.why = why


Item = tuple[int, int, bytes] | Missing | End
"""(stream, microseconds, bytes) or a mark."""


class AttemptLog:
    """What one attempt writes. Any thread may; the order is that of the calls."""

    __slots__ = (
        "_assembler", "_desk", "_secrets", "attempt", "batches", "ended", "execution", "given_up", "items", "spoke",
        "token", "waiting",
    )  # fmt: skip

    def __init__(
        self, desk: "LogDesk", execution: bytes, token: int, attempt: int, secrets: Callable[[], Iterable[str]]
    ) -> None:
        self._desk = desk
        self._secrets = secrets
        self._assembler: Assembler | None = None
        self.execution = execution
        self.token = token
        self.attempt = attempt
        self.items: deque[Item] = deque()
        self.waiting = 0
        """Bytes of it in the buffer."""
        self.batches: deque[tuple[Batch, int]] = deque()
        """What the transport has not taken yet, and the bytes of the buffer that it stands for; the desk's own."""
        self.spoke = False
        self.ended = False
        self.given_up = False
        """Whether somebody waited for room in vain, and there has been none since."""

    def write(self, stream: int, time_us: int, data: bytes, *, forced: bool = False) -> bool:
        """Take a piece of a stream; False if there is no room. forced: there is."""
        return self._desk.put(self, (stream, time_us, data), len(data) + ITEM_BYTES, forced=forced)

    def has_room(self, size: int) -> bool:
        """Whether a piece of `size` bytes would be taken now."""
        return self._desk.has_room(self, size + ITEM_BYTES)

    @property
    def patience_seconds(self) -> float:
        """How long who writes should wait for room."""
        return self._desk.block_seconds

    def write_patiently(self, stream: int, time_us: int, data: bytes) -> None:
        """Wait for room, for a while; then drop."""
        if not self._desk.put_patiently(self, (stream, time_us, data), len(data) + ITEM_BYTES):
            self.drop(max(1, data.count(b"\n")))

    def drop(self, count: int, why: str = TOO_SLOW) -> None:
        """Say in the log that lines are missing here."""
        self._desk.put_missing(self, count, why)

    def end(self) -> None:
        """The attempt has ended; what it writes from now on is nobody's."""
        if not self.ended and self.spoke:
            self._desk.put(self, End(), ITEM_BYTES, forced=True)
        self.ended = True

    def mask(self, text: str) -> str:
        """`text` without this attempt's secrets."""
        return self._desk.masker(self._secrets())(text)

    def assembler(self) -> Assembler:
        """The desk's thread only."""
        if self._assembler is None:
            self._assembler = Assembler(self.attempt, self._desk.masker(self._secrets()), self._desk.limits)
        return self._assembler
