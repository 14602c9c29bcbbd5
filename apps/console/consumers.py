"""The live page's socket: a snapshot first, then rows as they change.

Messages to the page: `snapshot` and `rows`, both {"type", "rows": [{id, version, state, insert, html}], "summary"}.
Nothing that a page sends is listened to.
"""

import asyncio
import time
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer, AsyncWebsocketConsumer
from django.contrib.auth import get_user_model

from apps.console import live, rows, summary
from apps.console.access import principal_of
from apps.executions.states import Status
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import NotFound

RECHECK_SECONDS = 30.0
NOT_A_MEMBER = 4404


def state_of(query: str) -> Status | None:
    """The state filter of a URL's query string; None for all, and for what is no state."""
    return parse_state(parse_qs(query).get("state", [""])[0])


def parse_state(word: str) -> Status | None:
    try:
        return Status.from_word(word)
    except KeyError:
        return None


def _principal_now(person_id: Any, slug: str) -> Principal:
    person = get_user_model().objects.filter(pk=person_id).first()
    if person is None:
        raise NotFound("nobody is logged in")
    return principal_of(person, slug)


class ExecutionsConsumer(AsyncJsonWebsocketConsumer):
    """One page's socket; closed with 4404 when its person is not, or no longer, a member of the tenant."""

    channel_layer_alias = "none"
    """No group is used: the feed's hub hands out, and a layer would cost a Redis connection a socket."""

    principal: Principal
    _sending: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        if not await self._is_member():
            await self.close(NOT_A_MEMBER)
            return
        await self.accept()
        self._state = state_of(self.scope["query_string"].decode("utf-8", "replace"))
        self._last_summary: str | None = None
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
        except NotFound:
            return False
        return True

    async def _send_updates(self) -> None:
        async with live.joined(self.principal) as (hub, viewer):
            await self._send_snapshot(hub)
            recheck_at = time.monotonic() + RECHECK_SECONDS
            while True:
                update = await viewer.updates.get()
                if time.monotonic() >= recheck_at:
                    recheck_at = time.monotonic() + RECHECK_SECONDS
                    if not await self._is_member():
                        await self.close(NOT_A_MEMBER)
                        return
                if viewer.fell_behind:
                    viewer.forget_the_past()
                    await self._send_snapshot(hub)
                else:
                    await self._send_update(update)

    async def _send_snapshot(self, hub: live.Hub) -> None:
        read = partial(rows.page, self.principal, now=SYSTEM_CLOCK.now(), state=self._state)
        index, presented = await hub.read(read)
        slug = self.principal.tenant_slug
        self._last_summary = summary.render(index, tenant_slug=slug, chosen=self._state)
        messages = [rows.message(row, slug, insert=True) for row in presented]
        await self.send_json({"type": "snapshot", "rows": messages, "summary": self._last_summary})

    async def _send_update(self, update: live.Update) -> None:
        strip = update.summary(self._state)
        if strip == self._last_summary:
            strip = None
        if strip is None and not update.rows:
            return
        self._last_summary = strip or self._last_summary
        wanted = None if self._state is None else self._state.word
        messages = [row | {"insert": row["insert"] and wanted in (None, row["state"])} for row in update.rows]
        await self.send_json({"type": "rows", "rows": messages, "summary": strip})


class NoSuchSocket(AsyncWebsocketConsumer):
    """Every other address: refused as a foreign tenant's is, and no fault of ours."""

    channel_layer_alias = "none"

    async def connect(self) -> None:
        await self.close(NOT_A_MEMBER)
