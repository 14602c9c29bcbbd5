"""The page of one execution as pieces, and its socket."""

from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from apps.console.executions import one
from apps.console.fragments import Pieces, PiecesConsumer, PiecesSource, Update
from apps.executions import selectors
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

NAMES = ("head", "why", "fault", "attempts", "data", "story", "lineage")
_LOOK_SECONDS = 2.0
_RESTING_LOOK_SECONDS = 15.0
_PATIENCE_SECONDS = 0.5


class OnePage:
    """rests: whether it had ended when it was read last."""

    look_seconds = _LOOK_SECONDS
    soonest_seconds = 0.0

    def __init__(self, principal: Principal, identity: UUID, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._principal = principal
        self._clock = clock
        self.identity = identity
        self.rests = False
        self.detail: one.Detail | None = None

    def pieces(self) -> Pieces:
        """Raises NotFound."""
        self.detail = one.read(self._principal, self.identity, now=self._clock.now())
        self.rests = self.detail.rests
        context = {"detail": self.detail, "tenant_slug": self._principal.tenant_slug}
        return {name: render_to_string(f"console/executions/_{name}.html", context).strip() for name in NAMES}


class OneSource(PiecesSource):
    """Told at once of its own execution; by itself it looks for what moves without it: its place, who holds its key."""

    def __init__(self, page: OnePage) -> None:
        super().__init__(page)
        self._one = page
        self.patience_seconds = _PATIENCE_SECONDS

    def wants(self, identities: set[UUID]) -> set[UUID]:
        return identities & {self._one.identity}

    def update(self, changed: set[UUID], *, looking: bool) -> Update | None:
        found = super().update(changed, looking=looking)
        self.look_seconds = _RESTING_LOOK_SECONDS if self._one.rests else _LOOK_SECONDS
        return found


class OneConsumer(PiecesConsumer):
    name = "execution"

    @property
    def identity(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["identity"]

    def check(self) -> None:
        selectors.execution(self.principal, self.identity)

    def source(self) -> PiecesSource:
        return OneSource(OnePage(self.principal, self.identity))

    def key(self) -> tuple[Any, ...]:
        return (self.identity,)
