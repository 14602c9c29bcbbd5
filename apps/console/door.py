"""Whether those who look may go on looking, as what: asked of the database for all sockets of a process at once.

Each socket's own question would be the one thing that costs the database more the more people look.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from typing import Any

from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError

from apps.tenants.models import Role
from apps.tenants.onlookers import RECHECK_SECONDS, Onlooker, roles_of

logger = logging.getLogger(__name__)

TurnAway = Callable[[], Coroutine[Any, Any, None]]


class _Door:
    """The sockets of one event loop, by whose they are."""

    def __init__(self) -> None:
        self._inside: dict[Hashable, tuple[Onlooker, Role, TurnAway]] = {}
        self._asking: asyncio.Task[None] | None = None

    def enter(self, key: Hashable, who: Onlooker, role: Role, turn_away: TurnAway) -> None:
        self._inside[key] = (who, role, turn_away)
        if self._asking is None:
            self._asking = asyncio.create_task(self._keep())

    def leave(self, key: Hashable) -> None:
        self._inside.pop(key, None)
        if not self._inside and self._asking is not None:
            self._asking.cancel()
            self._asking = None
            _doors.pop(id(asyncio.get_running_loop()), None)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await self.ask()
            except (DatabaseError, InterfaceError) as error:
                logger.warning("who may look is unknown", extra={"action": "console.unread", "error": str(error)})

    async def ask(self) -> None:
        """Ask once, and turn away who may not look any more, or not at this: each role has pieces of its own."""
        asked = list(self._inside.items())
        roles = await database_sync_to_async(roles_of)({who for _, (who, _, _) in asked})
        for key, (who, role, turn_away) in asked:
            if roles.get(who) is not role and key in self._inside:
                # A task of its own: with the last one who leaves this one ends.
                going = asyncio.create_task(turn_away())
                _going.add(going)
                going.add_done_callback(_going.discard)


_doors: dict[int, _Door] = {}
_going: set[asyncio.Task[None]] = set()


@asynccontextmanager
async def inside(who: Onlooker, role: Role, turn_away: TurnAway) -> AsyncIterator[None]:
    """Look on, until `turn_away` is called: the session is over, or the person has not this role in the tenant."""
    door = _doors.setdefault(id(asyncio.get_running_loop()), _Door())
    key = object()
    door.enter(key, who, role, turn_away)
    try:
        yield
    finally:
        door.leave(key)
