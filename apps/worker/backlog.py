"""What this worker has received and not claimed yet, critical first, each class by due time.

Claiming is put off until an execution can start within moments: what waits here costs no attempt when the worker
dies, and is still subject to cancel, pause and edit, which the claim looks at.
"""

import heapq
import threading
from collections.abc import Iterable, Sequence

from apps.worker.envelope import Record

Waiting = tuple[int, bytes, int]
"""(run_at in microseconds, execution id, token)."""


class Backlog:
    """Thread-safe; filled by the receiver, emptied by the claimer."""

    def __init__(self) -> None:
        self._classes: tuple[list[Waiting], ...] = ([], [], [])
        self._known: set[tuple[bytes, int]] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, class_index: int, records: Iterable[Record]) -> None:
        """Take in received records; one that waits already (delivered twice) is dropped."""
        with self._lock:
            heap = self._classes[class_index]
            for identity, token, run_at_us in records:
                if (identity, token) not in self._known:
                    self._known.add((identity, token))
                    heapq.heappush(heap, (run_at_us, identity, token))

    def take(self, until_us: int, rooms: Sequence[int]) -> list[Waiting]:
        """What is due by `until_us`, of each class at most its room."""
        taken: list[Waiting] = []
        with self._lock:
            for heap, room in zip(self._classes, rooms, strict=True):
                for _ in range(room):
                    if not heap or heap[0][0] > until_us:
                        break
                    taken.append(heapq.heappop(heap))
            self._known.difference_update((identity, token) for _, identity, token in taken)
        return taken

    def next_due_us(self, rooms: Sequence[int]) -> int | None:
        """When the first of them is due whose class has room; None when there is none."""
        with self._lock:
            heads = [heap[0][0] for heap, room in zip(self._classes, rooms, strict=True) if heap and room > 0]
        return min(heads) if heads else None

    def waiting(self, class_index: int) -> int:
        """How many of a class there are, due or not."""
        return len(self._classes[class_index])

    def clear(self) -> list[Waiting]:
        """Everything, to be given back."""
        with self._lock:
            everything = [waiting for heap in self._classes for waiting in heap]
            for heap in self._classes:
                heap.clear()
            self._known.clear()
        return everything
