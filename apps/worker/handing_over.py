"""What the completer offers to begin at once of the nodes that its ends release.

A chain keeps its slot for a moment only: a quarter of a second after it came here by way of the dispatcher it goes that
way again, where others stand in the queue, too. While anything of a class waits here, nothing of it is handed over.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client import Counter

from apps.executions.dags.handing_over import Offer, Share
from apps.executions.rows import Claimed, Finish
from apps.worker.claimer import Claimer
from apps.worker.tallies import Tallies
from chronoweb.runtime import faults
from chronoweb.runtime.database_clock import DatabaseClock

_LONGEST_US = 250_000
_CLOSE_SECONDS = 10.0

HANDED_OVER = Counter("chronoweb_handed_over_total", "Nodes begun by the worker that ended the node before")


@dataclass
class _Made:
    """An offer that has no answer yet. since: run → since when (microseconds) its chain has kept this worker."""

    offer: Offer
    since: dict[bytes, int] = field(default_factory=dict)


class HandingOver:
    """Used by the completer's thread; `close` by the one that drains. carried: the worker's labels."""

    def __init__(
        self, *, worker_id: int, claimer: Claimer, clock: DatabaseClock, carried: Callable[[], Sequence[str]]
    ) -> None:
        self._worker_id = worker_id
        self._claimer = claimer
        self._clock = clock
        self._carried = carried
        self._since: dict[tuple[bytes, int], int] = {}
        self._made: _Made | None = None
        self.tallies = Tallies()
        self._unanswered: list[tuple[bytes, int]] = []
        self._open = True
        self._busy = threading.Lock()

    def offer(self, batch: Sequence[tuple[Claimed, Finish]]) -> Offer | None:
        """What may be begun when these end; None: nothing. After it comes `answered`, or `failed`."""
        made = self._make(batch)
        if made is None:
            return None
        self._busy.acquire()
        rooms = self._claimer.promise(most=sum(share.most for share in made.offer.runs.values())) if self._open else ()
        if not any(rooms):
            self._busy.release()
            return None
        made.offer.rooms = rooms
        self._made = made
        return made.offer

    def _make(self, batch: Sequence[tuple[Claimed, Finish]]) -> _Made | None:
        made = _Made(Offer(self._worker_id, (), (), {}))
        now = self._clock.now_us()
        shares: dict[bytes, Share] = {}
        for claimed, finish in batch:
            assert claimed.dag_run is not None
            run = claimed.dag_run
            since = self._since.get((finish.id, finish.token), finish.started_us or now)
            if now - since > _LONGEST_US:
                continue
            # Under the epoch of what was dispatched last: a token is never lower than that.
            share = shares.get(run, Share(0, 1, self.tallies.recent(claimed.tenant_id)))
            shares[run] = share._replace(most=share.most + 1, token=max(share.token, finish.token >> 32 << 32))
            made.since[run] = min(since, made.since.get(run, since))
        shares = {run: share for run, share in shares.items() if share.recent is not None}
        if not shares:
            return None
        made.offer.runs, made.offer.labels = shares, self._carried()
        return made

    def answered(self, begun: Sequence[Claimed]) -> None:
        """The transaction is committed; `begun` is this worker's."""
        made = self._taken()
        if made is None:
            return
        if begun:
            faults.point("worker.handed")
        for claimed in begun:
            assert claimed.dag_run is not None
            self._since[claimed.id, claimed.token] = made.since[claimed.dag_run]
            self.tallies.add(claimed.tenant_id)
        self._claimer.begin(begun, promised=made.offer.rooms)
        HANDED_OVER.inc(len(begun))
        self._busy.release()

    def failed(self, *, unanswered: bool) -> None:
        """The transaction is rolled back, or nobody knows whether it is (unanswered)."""
        made = self._taken()
        if made is None:
            return
        if unanswered:
            self._unanswered += made.offer.asked
        self._claimer.begin((), promised=made.offer.rooms)
        self._busy.release()

    def _taken(self) -> _Made | None:
        made, self._made = self._made, None
        return made

    def ask_for_unanswered(self) -> None:
        """Everything is written now, so what was begun under a lost answer shows: the claim finds it."""
        if self._unanswered:
            self._claimer.ask_for(self._unanswered)
            self._unanswered = []

    def ended(self, claimed: Claimed) -> None:
        """An attempt is written."""
        self._since.pop((claimed.id, claimed.token), None)

    def close(self) -> None:
        """Begin nothing more; what is being begun at this moment has been when this returns."""
        self._open = False
        if self._busy.acquire(timeout=_CLOSE_SECONDS):
            self._busy.release()
