"""A live page's socket: whose it is, and the order of what it sends. Nothing that a page sends is listened to."""

import asyncio
import time
from typing import Any, Generic, TypeVar

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer, AsyncWebsocketConsumer
from django.contrib.auth import get_user_model

from apps.console.access import principal_of
from apps.console.hub import Hub, Viewer
from apps.tenants.principal import Principal
from apps.tenants.regions import WrongRegion
from chronoweb.runtime.errors import NotFound

RECHECK_SECONDS = 30.0
"""So long whoever is no longer a member may go on looking, whether anything happens or not."""
NOT_FOUND = 4404
"""Closes the socket of who is not, or no longer, a member of the tenant, and of what is not there."""
U = TypeVar("U")


def _principal_now(person_id: Any, slug: str) -> Principal:
    person = get_user_model().objects.filter(pk=person_id).first()
    if person is None:
        raise NotFound("nobody is logged in")
    try:
        return principal_of(person, slug)
    except WrongRegion as error:
        raise NotFound(str(error)) from error


class LiveConsumer(AsyncJsonWebsocketConsumer, Generic[U]):
    """One page's socket: a snapshot first, then what changes."""

    channel_layer_alias = "none"
    """No group is used: hubs hand out, and a layer would cost a Redis connection a socket."""

    principal: Principal
    _sending: asyncio.Task[None] | None = None

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
        if not await self._is_member():
            await self.close(NOT_FOUND)
            return
        await self.accept()
        self._sending = asyncio.create_task(self._send_updates())

    async def disconnect(self, code: int) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Pages have nothing to say here, so what they send is not even parsed."""

    async def _is_member(self) -> bool:
        """Asked of the database anew: memberships end, and accounts are closed, while pages stay open."""
        slug, person_id = self.scope["url_route"]["kwargs"]["slug"], self.scope["user"].pk
        try:
            self.principal = await database_sync_to_async(_principal_now)(person_id, slug)
            await database_sync_to_async(self.check)()
        except NotFound:
            return False
        return True

    async def _send_updates(self) -> None:
        async with self.joined() as (hub, viewer):
            try:
                await self.send_json(await self.snapshot(hub))
            except NotFound:
                await self.close(NOT_FOUND)
                return
            await self._follow(hub, viewer)

    async def _follow(self, hub: Hub[U], viewer: Viewer[U]) -> None:
        recheck_at = time.monotonic() + RECHECK_SECONDS
        while True:
            update = await _next(viewer, recheck_at - time.monotonic())
            if time.monotonic() >= recheck_at:
                recheck_at = time.monotonic() + RECHECK_SECONDS
                if not await self._is_member():
                    await self.close(NOT_FOUND)
                    return
            if viewer.fell_behind:
                viewer.forget_the_past()
                await self.send_json(await self.snapshot(hub))
            elif update is not None and (message := self.message(update)) is not None:
                await self.send_json(message)


async def _next(viewer: Viewer[U], seconds: float) -> U | None:
    """The next update; None where none comes within `seconds`."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            return await viewer.updates.get()
    except TimeoutError:
        return None


class NoSuchSocket(AsyncWebsocketConsumer):
    """Every other address: refused as a foreign tenant's is, and no fault of ours."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.close(NOT_FOUND)
