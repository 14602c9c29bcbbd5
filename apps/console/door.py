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
from apps.tenants.people import roles_of

logger = logging.getLogger(__name__)

RECHECK_SECONDS = 30.0
"""So long whoever is no longer a member, or has another role, may go on looking, whether anything happens or not."""
Pair = tuple[Any, str]
"""A person's key, and a tenant's slug."""


class _Door:
    """The sockets of one event loop, by whose they are."""

    def __init__(self) -> None:
        self._inside: dict[Hashable, tuple[Pair, Role, Callable[[], Coroutine[Any, Any, None]]]] = {}
        self._asking: asyncio.Task[None] | None = None

    def enter(self, key: Hashable, pair: Pair, role: Role, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._inside[key] = (pair, role, leave)
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
        roles = await database_sync_to_async(roles_of)({pair for _, (pair, _, _) in asked})
        for key, (pair, role, turn_away) in asked:
            if roles.get(pair) is not role and key in self._inside:
                # A task of its own: with the last one who leaves this one ends.
                going = asyncio.create_task(turn_away())
                _going.add(going)
                going.add_done_callback(_going.discard)


_doors: dict[int, _Door] = {}
_going: set[asyncio.Task[None]] = set()


@asynccontextmanager
async def inside(pair: Pair, role: Role, turn_away: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Look on, until `turn_away` is called because the person has not this role in the tenant any more."""
    door = _doors.setdefault(id(asyncio.get_running_loop()), _Door())
    key = object()
    door.enter(key, pair, role, turn_away)
    try:
        yield
    finally:
        door.leave(key)
