"""Pages that are sent as pieces of HTML: which piece has changed is found here, what a piece is belongs to its page.

A piece is an element of the page with the id `f-NAME`. Messages: `snapshot` and `pieces`, both
{"version", "pieces": {name: html}}; the version grows, so what comes late is dropped by the page.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from django.http import HttpRequest
from django.template.loader import render_to_string

from apps.console import hub
from apps.console.sockets import LiveConsumer
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

Pieces = dict[str, str]
_COUNTED = re.compile(r'(?: title="[^"]*")?( data-(?:until|since)="[^"]*"[^>]*>)[^<]*')
"""What the page counts on or down by itself: no change that it has to be told of."""

_PIECE_SHARE = 100
"""Figures that cost the database more are asked for less often: at most a hundredth of the time is spent on a piece."""
_MOST_STRETCHED_SECONDS = 10.0


class Page(Protocol):
    """One page of one tenant, as its pieces. Asked in one thread."""

    look_seconds: float
    soonest_seconds: float
    """What changes sooner than this after the last reading is told at the next look."""

    def pieces(self) -> Pieces:
        """All of them, as they are now."""


class PacedPage:
    """A page whose pieces are read at paces of their own: what costs more less often; what nobody looks at, never.

    templates: the folder of `_NAME.html`.
    """

    look_seconds = 2.0
    soonest_seconds = 0.0
    templates: str

    def __init__(self, principal: Principal, clock: Clock = SYSTEM_CLOCK) -> None:
        self._principal = principal
        self._clock = clock
        self._kept: dict[str, tuple[float, str]] = {}
        """Until when, and the HTML."""

    def piece(self, name: str, seconds: float, read: Callable[[datetime], dict[str, Any]]) -> str:
        """Read again when what is kept is older than `seconds`; what took long to read is kept longer. 0: each time."""
        until, html = self._kept.get(name, (float("-inf"), ""))
        began = time.monotonic()
        if began >= until:
            context = {"tenant_slug": self._principal.tenant_slug, "may": may_act(self._principal)}
            html = render_to_string(f"{self.templates}/_{name}.html", context | read(self._clock.now())).strip()
            now = time.monotonic()
            keep = max(seconds, min(_MOST_STRETCHED_SECONDS, _PIECE_SHARE * (now - began))) if seconds else 0.0
            self._kept[name] = (now + keep, html)
        return html


@dataclass(frozen=True)
class Update:
    """The pieces that have changed."""

    version: int
    pieces: Pieces
    _messages: dict[str, dict[str, Any]] = field(default_factory=dict)

    def message(self, kind: str) -> dict[str, Any]:
        """The same one for all who are told."""
        made = {"type": kind, "version": self.version, "pieces": self.pieces}
        return self._messages.setdefault(kind, made)


class PiecesSource:
    """What viewers of one page are told."""

    minds_gaps = False

    def __init__(self, page: Page) -> None:
        self._page = page
        self.look_seconds = self.patience_seconds = page.look_seconds
        self.version = 0
        self.shown: Pieces = {}
        self._still: Pieces = {}
        self._read_at = float("-inf")

    def wants(self, identities: set[UUID]) -> set[UUID]:
        return identities

    def update(self, changed: set[UUID], *, looking: bool) -> Update | None:
        if not looking and time.monotonic() - self._read_at < self._page.soonest_seconds:
            return None
        self._read_at = time.monotonic()
        self.shown = self._page.pieces()
        before, self._still = self._still, {name: _COUNTED.sub(r"\1", html) for name, html in self.shown.items()}
        told = {name: self.shown[name] for name, html in self._still.items() if before.get(name) != html}
        if not told:
            return None
        self.version += 1
        return Update(self.version, told)

    def everything(self) -> Update:
        """What was read last: who comes again reads nothing."""
        return Update(self.version, self.shown)


class PiecesConsumer(LiveConsumer[Update]):
    """The socket of such a page. What operators and viewers see differs by buttons, so each kind has its own hub."""

    name: str

    def page(self) -> Page:
        raise NotImplementedError

    @property
    def origin(self) -> str:
        """Where the page is served, as its commands to copy name it."""
        return dict(self.scope["headers"]).get(b"origin", b"").decode("latin-1")

    def key(self) -> tuple[Any, ...]:
        """What else tells this page from others of its name."""
        return ()

    def source(self) -> PiecesSource:
        return PiecesSource(self.page())

    def joined(self) -> Any:
        tenant = self.principal.tenant_id
        key = (self.name, tenant, may_act(self.principal), *self.key())
        return hub.joined(key, tenant, self.source)

    async def snapshot(self, hub: hub.Hub[Update]) -> dict[str, Any]:
        source = hub.source
        assert isinstance(source, PiecesSource)
        return (await hub.shared("everything", source.everything)).message("snapshot")

    def message(self, update: Update) -> dict[str, Any] | None:
        return update.message("pieces")


def polled(page: Page) -> dict[str, Any]:
    """What a page is told whose socket does not open; its version is below every socket's."""
    return Update(0, page.pieces()).message("snapshot")


def origin_of(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"


def may_act(principal: Principal) -> bool:
    return principal.may(Role.OPERATOR)
