"""Which worker gets which of the executions that a tick has popped.

The one that last got the task's work, while it has free slots: it has the task's code and caches warm. Else in
proportion to what workers have left, those first that carry nothing special, so that rare ones stay free for what needs
them.
"""

from collections.abc import Sequence

from apps.dispatcher.credits import Credit
from apps.executions import ids


class Assigner:
    """Remembers who got a task's work last, by the mark that ids carry: some thousand small numbers, no look-ups."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def assign(self, identities: Sequence[bytes], class_index: int, able: Sequence[Credit]) -> dict[bytes, int]:
        """Execution → worker, and the credits spent. able: the workers that may run these, at least one.

        The caller asks for no more than all credits together; a remainder by rounding goes to the freest.
        """
        chosen, rest = self._sticky(identities, class_index, able)
        for tier in (False, True):
            workers = [credit for credit in able if credit.special is tier]
            if rest and workers:
                count = min(len(rest), sum(credit.left[class_index] for credit in workers))
                chosen.update(zip(rest, _share_out(count, class_index, workers), strict=False))
                rest = rest[count:]
        if rest:
            freest = max(able, key=lambda credit: credit.left[class_index])
            freest.left[class_index] = max(0, freest.left[class_index] - len(rest))
            chosen.update(dict.fromkeys(rest, freest.worker_id))
        for identity, worker in chosen.items():
            self._last[ids.task_mark(identity)] = worker
        return chosen

    def _sticky(
        self, identities: Sequence[bytes], class_index: int, able: Sequence[Credit]
    ) -> tuple[dict[bytes, int], list[bytes]]:
        """(those that go where their task went last, all others)."""
        chosen: dict[bytes, int] = {}
        rest: list[bytes] = []
        free = {c.worker_id: c for c in able if c.free[class_index] > 0 and c.left[class_index] > 0}
        for position, identity in enumerate(identities):
            if not free:
                rest += identities[position:]
                break
            credit = free.get(self._last.get(ids.task_mark(identity), -1))
            if credit is None:
                rest.append(identity)
                continue
            chosen[identity] = credit.worker_id
            credit.free[class_index] -= 1
            credit.left[class_index] -= 1
            if credit.free[class_index] <= 0 or credit.left[class_index] <= 0:
                del free[credit.worker_id]
        return chosen, rest


def _share_out(count: int, class_index: int, credits: Sequence[Credit]) -> list[int]:
    """A worker id for each of `count`, which is at most what they have left together; that is taken off."""
    total = sum(credit.left[class_index] for credit in credits)
    workers: list[int] = []
    for credit in sorted(credits, key=lambda credit: -credit.left[class_index]):
        left = credit.left[class_index]
        share = min(left, -(-count * left // total), count - len(workers)) if total else 0
        workers += [credit.worker_id] * share
        credit.left[class_index] -= share
        credit.free[class_index] = max(0, credit.free[class_index] - share)
    return workers
