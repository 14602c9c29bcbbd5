"""The console's pages, in one table: what the tests of accessibility and the pictures visit.

A new page of the resolver is visited by itself. It fails in `pages_of` when a parameter of its address is unknown
(console_world.World.values), or when it answers neither a page nor data (NO_PAGES).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from django.test import Client
from django.urls import URLPattern, URLResolver

from apps.console import urls
from tests.console_world import World


class Stop(NamedTuple):
    """A page of the tour. name: of its pictures. path: from the site's root."""

    name: str
    path: str


NO_PAGES = re.compile(
    r"/act/|/check$|/save$|/stop$|^login/<|^logout/|^$|^console/executions/$|/logs"
    r"|/put-away$|settings/.*/(add|make|<slug:act>)$"
)
"""What is no page to look at: acts and checks of forms, which are POSTs; redirects; a stream."""

OWN: dict[str, Callable[[World], dict[str, Any]]] = {
    "letter": lambda world: {"identity": world.dead.id},
}
"""A route's name → parameters that must be of something else than World.values says."""

MORE: dict[str, Callable[[World], str]] = {
    "executions-of-a-state": lambda world: f"/t/{world.tenant.slug}/executions/?state=dead_letter",
    "execution-that-runs": lambda world: f"/t/{world.tenant.slug}/executions/{world.running.id}/",
    "execution-that-died": lambda world: f"/t/{world.tenant.slug}/executions/{world.dead.id}/",
    "tasks-found": lambda world: f"/t/{world.tenant.slug}/tasks/?q=mail",
    "tasks-not-found": lambda world: f"/t/{world.tenant.slug}/tasks/?q=no-such-thing",
    "letters-of-a-kind": lambda world: f"/t/{world.tenant.slug}/dead-letters/?task={world.dead.task_id}",
    "run-with-a-node": lambda world: f"/t/{world.tenant.slug}/runs/{world.run}/#node=score",
    "not-found": lambda world: f"/t/{world.tenant.slug}/no-such-page",
}
"""Pages that differ from their route's first one."""


def routes(patterns: list[Any] = urls.urlpatterns, before: str = "") -> Iterator[tuple[str, str]]:
    """(path, name) of every route of the console."""
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern) and not getattr(pattern.callback, "needs_whole_form", False):
            yield path, pattern.name or path


def pages_of(world: World, client: Client, *, more: bool = True) -> list[Stop]:
    """Every route that answers with a page, as the table above fills it, and MORE."""
    found = []
    for path, name in routes():
        if NO_PAGES.search(path):
            continue
        address = _filled(path, {**world.values, **(OWN[name](world) if name in OWN else {})})
        answer = client.get(address)
        shown = answer.content.decode() if not answer.streaming else ""
        if name == "login" or 'class="rail"' in shown:
            found.append(Stop(name, address))
        else:
            assert answer.status_code == 200, f"{address} answers {answer.status_code}: mend the table, or NO_PAGES"
    return found + [Stop(name, made(world)) for name, made in MORE.items() if more]


def _filled(path: str, values: dict[str, Any]) -> str:
    unknown = [one for one in re.findall(r"<(?:\w+:)?(\w+)>", path) if one not in values]
    assert not unknown, f"tell console_world.World.values what {', '.join(unknown)} of {path} may be"
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda match: str(values[match[1]]), path)
