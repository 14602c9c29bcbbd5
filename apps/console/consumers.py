"""The executions page's socket.

Messages to the page: `snapshot` and `rows`, both {"type", "rows": [{id, version, state, insert, html}], "summary"}.
"""

from functools import partial
from typing import Any
from urllib.parse import parse_qs

from apps.console import hub, live, rows, summary
from apps.console.sockets import LiveConsumer
from apps.executions.states import Status
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK


def state_of(query: str) -> Status | None:
    """The state filter of a URL's query string; None for all, and for what is no state."""
    return parse_state(parse_qs(query).get("state", [""])[0])


def parse_state(word: str) -> Status | None:
    try:
        return Status.from_word(word)
    except KeyError:
        return None


def snapshot(principal: Principal, state: Status | None) -> dict[str, Any]:
    """All that the page of `state` shows now, as the socket and the poll send it."""
    index, presented = rows.page(principal, now=SYSTEM_CLOCK.now(), state=state)
    strip = summary.render(index, tenant_slug=principal.tenant_slug, chosen=state)
    messages = [rows.message(row, principal.tenant_slug, insert=True) for row in presented]
    return {"type": "snapshot", "rows": messages, "summary": strip}


class ExecutionsConsumer(LiveConsumer[live.Update]):
    _last_summary: str | None = None

    def joined(self) -> Any:
        tenant = self.principal.tenant_id
        return hub.joined(("executions", tenant), tenant, partial(live.ExecutionsSource, self.principal))

    async def snapshot(self, hub: hub.Hub[live.Update]) -> dict[str, Any]:
        self._state = state_of(self.query)
        message = await hub.shared(self._state, partial(snapshot, self.principal, self._state))
        self._last_summary = message["summary"]
        return message

    def message(self, update: live.Update) -> dict[str, Any] | None:
        strip = update.summary(self._state)
        if strip == self._last_summary:
            strip = None
        if strip is None and not update.rows:
            return None
        self._last_summary = strip or self._last_summary
        return update.message(self._state, strip)
