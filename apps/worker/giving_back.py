"""Gives back what this worker was sent and will not run: uncounted, and elsewhere at once."""

import logging

from apps.executions import store
from apps.executions.dags.completion import settle_ended
from chronoweb.runtime import faults, postgres, wakeup
from chronoweb.runtime.away import AWAY

logger = logging.getLogger(__name__)

_MESSAGES = 200


class GivingBack:
    """Used by the thread that drains."""

    def __init__(self, *, worker_id: int, url: str) -> None:
        self._worker_id = worker_id
        self._url = url
        self._left: list[tuple[bytes, int]] = []

    def now(self, give_back: list[tuple[bytes, int]], *, unread: bool = False) -> None:
        """Give (id, token) back; where PostgreSQL is away, `rest` does. unread: what waits in the inbox, too."""
        try:
            self._release(give_back)
            if unread:
                self._release_sent(unread=True)
        except AWAY as error:
            self._left += give_back
            logger.warning("not given back yet", extra={"action": "worker.ledger_away", "error": str(error)})

    def rest(self) -> None:
        """What could not be given back before, and whatever the ledger says was sent here and has not ended: nobody
        need wait for the claim deadline. Where PostgreSQL is away still, the watchdog takes it from who is gone.
        """
        try:
            self._release(self._left)
            self._release_sent(unread=False)
        except AWAY as error:
            logger.warning("not given back", extra={"action": "worker.ledger_away", "error": str(error)})

    def _release(self, give_back: list[tuple[bytes, int]]) -> None:
        if not give_back:
            return
        ordered = sorted(give_back)
        with postgres.connect("worker-release", url=self._url) as connection:
            identities, tokens = [i for i, _ in ordered], [t for _, t in ordered]
            settle_ended(connection, store.release(connection, identities, tokens, worker_id=self._worker_id))
        faults.point("worker.released")
        wakeup.preloader.wake()
        logger.info("given back", extra={"action": "worker.released", "executions": len(give_back)})

    def _release_sent(self, *, unread: bool) -> None:
        find, query = (store.sent_by_day, "outstanding_unread") if unread else (store.sent, "outstanding_of_worker")
        with postgres.connect("worker-release", url=self._url) as connection:
            while left := find(connection, query, worker=self._worker_id, limit=_MESSAGES):
                identities, tokens = [i for i, _ in left], [t for _, t in left]
                released = store.release(connection, identities, tokens, worker_id=self._worker_id)
                if not released:
                    break
                settle_ended(connection, released)
                wakeup.preloader.wake()
