"""What cannot be done is set aside for a minute, so that it stops nothing else of the pass."""

import logging
from collections.abc import Callable
from uuid import UUID

from chronoweb.runtime.away import is_away, is_deadlock
from chronoweb.runtime.clock import Clock
from chronoweb.runtime.errors import LeadershipLost

logger = logging.getLogger(__name__)

_SECONDS = 60.0


class SetAside:
    """what: of one kind, a word for the log."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._until: dict[UUID, float] = {}

    def now(self) -> list[UUID]:
        """Those that are not to be looked at now."""
        moment = self._clock.monotonic()
        self._until = {identity: until for identity, until in self._until.items() if until > moment}
        return list(self._until)

    def guarded(self, identity: UUID, act: Callable[[], int]) -> int:
        """What `act` returns; 0 if it fails by a fault of this one, or met somebody in opposite order: that is tried
        again at the next pass. Raises what is nobody's fault: LeadershipLost, and that PostgreSQL is away.
        """
        try:
            return act()
        except LeadershipLost:
            raise
        except Exception as error:
            if is_deadlock(error):
                extra = {"action": "preloader.deadlock", self._what: str(identity)}
                logger.warning("a %s is tried again", self._what, extra=extra)
                return 0
            if is_away(error):
                raise
            extra = {"action": "preloader.set_aside", self._what: str(identity)}
            logger.exception("a %s was set aside", self._what, extra=extra)
            self._until[identity] = self._clock.monotonic() + _SECONDS
            return 0
