"""The socket of the list of executions.

Messages to the page: `snapshot` and `rows`, both {"type", "rows": [{id, version, state, insert, html}], "summary"}.
"""

from functools import partial
from typing import Any

from django.http import QueryDict

from apps.console import hub, rows, summary
from apps.console.executions import live, page
from apps.console.executions.asked import Asked
from apps.console.sockets import LiveConsumer
from apps.executions.states import Status
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, NotFound


def snapshot(principal: Principal, asked: Asked) -> dict[str, Any]:
    """All that the page shows now, as the socket and the poll send it."""
    found = page.read(principal, asked, now=SYSTEM_CLOCK.now())
    strip = None
    if found.index is not None:
        strip = summary.render(found.index, tenant_slug=principal.tenant_slug, chosen=chosen_state(asked))
    messages = [rows.message(row, principal.tenant_slug, insert=True) for row in found.rows]
    return {"type": "snapshot", "rows": messages, "summary": strip}


def chosen_state(asked: Asked) -> Status | None:
    """The one that the strip marks."""
    return next(iter(asked.states)) if len(asked.states) == 1 else None


class ExecutionsConsumer(LiveConsumer[live.Update]):
    _last_summary: str | None = None

    def check(self) -> None:
        try:
            self._asked = Asked.of(QueryDict(self.query))
        except InvalidInput as error:
            raise NotFound(str(error)) from error

    def joined(self) -> Any:
        tenant = self.principal.tenant_id
        return hub.joined(("executions", tenant), tenant, partial(live.ExecutionsSource, self.principal))

    async def snapshot(self, hub: hub.Hub[live.Update]) -> dict[str, Any]:
        message = await hub.shared(self._asked, partial(snapshot, self.principal, self._asked))
        self._last_summary = message["summary"]
        return message

    def message(self, update: live.Update) -> dict[str, Any] | None:
        strip = update.summary(chosen_state(self._asked)) if self._asked.is_of_states else None
        if strip == self._last_summary:
            strip = None
        if strip is None and not update.rows:
            return None
        self._last_summary = strip or self._last_summary
        return update.message((self._asked, strip), lambda: self._written(update, strip))

    def _written(self, update: live.Update, strip: str | None) -> dict[str, Any]:
        messages = [row | {"insert": row["insert"] and self._shows(update, row["id"])} for row in update.rows]
        return {"type": "rows", "rows": messages, "summary": strip}

    def _shows(self, update: live.Update, identity: str) -> bool:
        return self._asked.finds(update.found[identity], update.now)
