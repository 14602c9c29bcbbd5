"""A live page's socket: whose it is, and the order of what it sends. Nothing that a page sends is listened to."""

import asyncio
from typing import Any, Generic, TypeVar

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer, AsyncWebsocketConsumer

from apps.console import door
from apps.console.access import principal_of
from apps.console.hub import Hub, Unread
from apps.tenants.onlookers import NoPlace, Onlooker, onlooker, place
from apps.tenants.principal import Principal
from apps.tenants.regions import WrongRegion
from chronoweb.runtime.errors import NotFound

NOT_FOUND = 4404
"""Closes the socket of who is not, or no longer, a member of the tenant in this role, of who has logged out, and of
what is not there. Pages open another one, which is of the role that the person has then.
"""
PACKED = "chronoweb.zlib"
"""Subprotocol of pages that unpack: a binary message is JSON packed by zlib. One packing serves all sockets, as the
extension permessage-deflate, which packs for each, does not.
"""
NO_PLACE = 4429
"""Closes the socket of who has as many pages open as one may have live; the page says so, and asks now and then."""
NOT_ASKED = 4400
"""Closes the socket of who sends something: no page does."""
U = TypeVar("U")


class LiveConsumer(AsyncJsonWebsocketConsumer, Generic[U]):
    """One page's socket: a snapshot first, then what changes."""

    channel_layer_alias = "none"
    """No group is used: hubs hand out, and a layer would cost a Redis connection a socket."""

    principal: Principal
    onlooker: Onlooker
    _sending: asyncio.Task[None] | None = None
    _unpacks = False

    def check(self) -> None:
        """Raises NotFound where the page is of something that is not there; may ask the database."""

    def joined(self) -> Any:
        """A place in the page's hub (`hub.joined`)."""
        raise NotImplementedError

    async def snapshot(self, hub: Hub[U]) -> dict[str, Any]:
        """All that the page shows, as a message. Raises NotFound."""
        raise NotImplementedError

    def message(self, update: U) -> dict[str, Any] | None:
        """What this page is told of an update; None: it does not concern it."""
        raise NotImplementedError

    @property
    def query(self) -> str:
        """The URL's query string."""
        return self.scope["query_string"].decode("utf-8", "replace")

    async def connect(self) -> None:
        if not await database_sync_to_async(self._enter)():
            await self.close(NOT_FOUND)
            return
        self._unpacks = PACKED in self.scope["subprotocols"]
        await self.accept(PACKED if self._unpacks else None)
        self._sending = asyncio.create_task(self._look_on())

    async def disconnect(self, code: int) -> None:
        await self._stop_sending()

    async def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
            self._sending = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Pages have nothing to say here: what sends is none, and its next message is not waited for."""
        await self._turn_away(NOT_ASKED)

    def _enter(self) -> bool:
        """Whether who opens the page is a member, and the page is there; the session's person has just been read."""
        person, slug = self.scope["user"], self.scope["url_route"]["kwargs"]["slug"]
        try:
            self.principal = principal_of(person, slug)
            self.onlooker = onlooker(person, self.scope["session"], slug)
            self.check()
        except (NotFound, WrongRegion):
            return False
        return True

    async def _look_on(self) -> None:
        try:
            with place(self.principal):
                await self._follow()
        except NoPlace as full:
            await self.close(NO_PLACE, str(full))

    async def _follow(self) -> None:
        async with door.inside(self.onlooker, self.principal.role, self._turn_away), self.joined() as (hub, viewer):
            try:
                await self.send_message(hub, await self.snapshot(hub))
                while True:
                    update = await viewer.updates.get()
                    if viewer.fell_behind:
                        viewer.forget_the_past()
                        await self.send_message(hub, await self.snapshot(hub))
                    elif isinstance(update, Unread):
                        await self.send_json({"type": update.value})
                    elif (message := self.message(update)) is not None:
                        await self.send_message(hub, message)
            except NotFound:
                await self.close(NOT_FOUND)

    async def _turn_away(self, code: int = NOT_FOUND) -> None:
        await self._stop_sending()
        await self.close(code)

    async def send_message(self, hub: Hub[U], message: dict[str, Any]) -> None:
        """Send it; what many are sent alike is written once."""
        written = hub.written(message)
        if self._unpacks and written.packed is not None:
            await self.send(bytes_data=written.packed)
        else:
            await self.send(text_data=written.text)


class NoSuchSocket(AsyncWebsocketConsumer):
    """Every other address: refused as a foreign tenant's is, and no fault of ours."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.close(NOT_FOUND)
