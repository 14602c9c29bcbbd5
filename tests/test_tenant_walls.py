"""No address shows or moves what is another tenant's: every route of the resolver and every socket is tried.

A new route is tried by itself. It fails here when it has a parameter that FOREIGN does not know, when it is neither the
API's nor a tenant's page nor in OPEN, or when it answers a foreign id with anything but 404.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from apps.api.base import UnknownRoute
from apps.console.routing import websocket_urlpatterns
from apps.console.sockets import NoSuchSocket
from apps.definitions import backfills
from apps.definitions.dags import making
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.models import Backfill, Dag
from apps.executions import feed
from apps.executions.dead_letters import DeadLetterFilter, start_replay
from apps.executions.models import CircuitBreaker, Execution, Replay, Worker
from apps.executions.states import Status
from apps.tenants import channels, keys, secret_store
from apps.tenants.models import ApiKey, NotificationChannel, Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.asgi import application
from tests.console_ledger import Ledger, make_person, now
from tests.factories import Api, make_api, make_principal, make_tenant
from tests.test_api_workers import worker_row
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db

OPEN = {
    "livez": "tells nothing of anybody",
    "readyz": "tells nothing of anybody",
    "metrics": "of the process",
    "": "redirects to a tenant of the person's own",
    "console/executions/": "redirects to a tenant of the person's own",
    "login/": "before anybody is known",
    "login/<str:token>": "before anybody is known; the token is the proof",
    "logout/": "of the session alone",
    "admin/login/": "before anybody is known",
    "admin/password_change/": "of the person alone who asks",
    "api/docs": "of the API, not of anybody",
    "api/v1/openapi.json": "of the API, not of anybody",
    "api/v1/auth/token": "before anybody is known",
    "api/v1/auth/refresh": "the token is the proof",
    "api/v1/auth/revoke": "the token is the proof",
}
"""Routes that belong to no tenant, and why."""

BODIES: dict[tuple[str, str], Any] = {
    ("post", "api/v1/tasks/<uuid:task_id>/trigger-batch"): {"items": [{}]},
    ("put", "api/v1/secrets/<str:name>"): {"value": "v"},
    ("patch", "api/v1/members/<str:username>"): {"role": "viewer"},
    ("post", "api/v1/dags/executions/<uuid:run_id>/nodes/<str:node_id>/mark"): {"state": "success"},
}
"""What must be sent for the id to be looked at; where nothing is named, an empty object."""


@dataclass
class World:
    """A tenant with something of everything."""

    tenant: Tenant
    execution: Execution
    circuit: CircuitBreaker
    key: ApiKey
    member: User
    channel: NotificationChannel
    dag: Dag
    run: UUID
    backfill: Backfill
    replay: Replay
    worker: Worker

    def marks(self) -> list[str]:
        """What must not be seen by others."""
        own = (self.tenant.id, self.tenant.slug, self.execution.id, self.execution.task_id, self.key.id)
        ids = (*own, self.channel.id, self.dag.id, self.run, self.backfill.id, self.replay.id)
        return [str(mark) for mark in (*ids, self.key.prefix, self.member.username, SECRET, "of-the-others")]


@pytest.fixture(scope="module", autouse=True)
def _feed_ends_with_the_module() -> Iterator[None]:
    """A socket that opens listens on a connection of its own."""
    yield
    feed.close()


SECRET = "FOREIGN_SECRET"
NODE = "foreign-node"
FOREIGN: dict[str, Callable[[World], Any]] = {
    "slug": lambda world: world.tenant.slug,
    "task_id": lambda world: world.execution.task_id,
    "execution_id": lambda world: world.execution.id,
    "identity": lambda world: world.execution.id,
    "circuit_id": lambda world: world.circuit.pk,
    "worker_id": lambda world: world.worker.pk,
    "key_id": lambda world: world.key.id,
    "channel_id": lambda world: world.channel.id,
    "username": lambda world: world.member.username,
    "name": lambda world: SECRET,
    "dag_id": lambda world: world.dag.id,
    "number": lambda world: world.dag.version,
    "run_id": lambda world: world.run,
    "node_id": lambda world: NODE,
    "backfill_id": lambda world: world.backfill.id,
    "act": lambda world: "pause",
    "replay_id": lambda world: world.replay.id,
    "tenant_id": lambda world: world.tenant.id,
}
"""A parameter of a route → the foreign tenant's."""


def make_world(mark: str = "of-the-others") -> World:
    """mark: what its names and texts say."""
    ledger = Ledger(make_tenant())
    tenant = ledger.tenant
    rows = ledger.one_of_each()
    dead = ledger.add(Status.DEAD_LETTER, task=mark, error={"type": "E", "message": mark})
    ledger.event(rows[Status.RUNNING], target=Status.RUNNING, reason=mark)
    circuit = CircuitBreaker.objects.create(tenant_id=tenant.id, key=f"webhook:{mark}", changed_at=now())
    secret_store.create(principal=make_principal(tenant), name=SECRET, given={"value": mark})
    key = keys.make(tenant=tenant, name=mark, role=Role.OWNER).key
    person = make_person(tenant, role=Role.OWNER)
    principal = make_principal(tenant)
    address = {"to": [f"{mark}@example.com"]}
    channel = channels.create(principal=principal, kind="email", name=mark, given=address)
    replay = start_replay(principal=principal, wanted=DeadLetterFilter(fingerprint=mark))
    worker = worker_row(tenant_id=tenant.id, host=mark, labels=[mark])
    return World(tenant, dead, circuit, key, person, channel, *make_dag(principal, mark), replay, worker)


def make_dag(principal: Principal, mark: str) -> tuple[Dag, UUID, Backfill]:
    """One with a schedule, a run and a backfill of it."""
    schedule = {"type": "interval", "every_seconds": 3600}
    nodes = [{"id": NODE, "approval": {"message": mark}}]
    data = {"name": mark, "schedule": schedule, "nodes": nodes}
    dag = making.create_dag(principal=principal, data=data)
    run = trigger_dag(principal=principal, dag_id=dag.id)
    wanted = {"start": "2025-01-01T00:00:00Z", "end": "2025-01-01T02:00:00Z"}
    asked = backfills.read_request(dag, wanted)
    return dag, run, backfills.start_backfill(principal=principal, of=dag, request=asked)


class Route(NamedTuple):
    path: str
    view: Any

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"<(?:\w+:)?(\w+)>", self.path)

    @property
    def is_api(self) -> bool:
        return self.path.startswith("api/")

    @property
    def methods(self) -> list[str]:
        known = getattr(self.view, "view_class", None) or getattr(self.view, "cls", None)
        return [m for m in ("get", "post", "put", "patch", "delete") if known is None or hasattr(known, m)]

    def to(self, values: dict[str, Any]) -> str:
        return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(values[found[1]]), self.path)


def walk(patterns: list[Any], before: str = "") -> Iterator[Route]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if pattern.namespace != "admin":
                yield from walk(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern):
            view_class = getattr(pattern.callback, "view_class", getattr(pattern.callback, "cls", None))
            if view_class is not UnknownRoute:
                yield Route(path, pattern.callback)


ROUTES = [route for route in walk(get_resolver().url_patterns) if route.path not in OPEN]
WITH = [route for route in ROUTES if route.parameters]
LISTS = [route for route in ROUTES if route.is_api and not route.parameters and "get" in route.methods]


def name_of(value: Any) -> str | None:
    return value.path if isinstance(value, Route) else None


def foreign_values(route: Route, world: World) -> dict[str, Any]:
    unknown = [name for name in route.parameters if name not in FOREIGN]
    assert not unknown, f"tell FOREIGN in {__name__} what another tenant's {', '.join(unknown)} is, for {route.path}"
    return {name: FOREIGN[name](world) for name in route.parameters}


def of_tenant(tenant: Tenant) -> dict[str, list[Any]]:
    """Every row of every table that names the tenant."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_name)"
            " WHERE column_name = 'tenant_id' AND table_type = 'BASE TABLE' AND tables.table_schema = 'public'"
        )
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" t WHERE tenant_id = %s ORDER BY 1', [tenant.id])
            found[table] = cursor.fetchall()
    return found


def test_every_route_is_somebodys() -> None:
    """Neither forgotten nor listed and gone."""
    strays = [route.path for route in ROUTES if not route.is_api and not route.path.startswith("t/<slug:slug>/")]
    assert strays == [], "a page of no tenant: put it into OPEN, with the reason"
    known = {route.path for route in walk(get_resolver().url_patterns)}
    assert set(OPEN) - known == set()
    assert {path for _, path in BODIES} - known == set()
    assert len(WITH) > 15
    assert len(LISTS) > 5


@pytest.mark.parametrize("route", [route for route in WITH if route.is_api], ids=name_of)
def test_a_foreign_id_is_not_found_and_nothing_moves(route: Route) -> None:
    world, own = make_world(), make_api(role=Role.OWNER)
    path = route.to(foreign_values(route, world)).removeprefix("/api/v1")
    before = of_tenant(world.tenant)
    assert sum(map(len, before.values())) > 20
    assert route.methods
    for method in route.methods:
        answer = own.call(method, path, None if method == "get" else BODIES.get((method, route.path), {}))
        assert answer.status_code == 404, f"{method} {path}: {answer.status_code} {answer.content[:300]!r}"
        shown = answer.content.decode()
        values = [str(value) for value in foreign_values(route, world).values()]
        assert not [mark for mark in world.marks() if mark in shown and mark not in values]
    assert of_tenant(world.tenant) == before


HOSTILE = (
    "%00",
    "a%00b",
    "%FF",
    "9" * 30,
    "x" * 3000,
    "%F0%9F%98%80",
    "..%2f",
    "'--",
    "00000000-0000-0000-0000-000000000000",
)


@pytest.mark.parametrize("route", [route for route in WITH if route.is_api], ids=name_of)
def test_ids_that_nothing_can_have_are_not_found(route: Route) -> None:
    own = make_api(role=Role.OWNER)
    for hostile in HOSTILE:
        path = route.to(dict.fromkeys(route.parameters, hostile)).removeprefix("/api/v1")
        for method in route.methods:
            answer = own.call(method, path, None if method == "get" else BODIES.get((method, route.path), {}))
            assert answer.status_code == 404, f"{method} {path[:200]}: {answer.status_code} {answer.content[:300]!r}"


@pytest.mark.parametrize("route", LISTS, ids=name_of)
def test_lists_have_nothing_of_others_whatever_is_asked_for(route: Route) -> None:
    world, own = make_world(), make_api(role=Role.OWNER)
    path = route.path.removeprefix("api/v1")
    queries = [""] + [f"?{name}={value(world)}" for name, value in FOREIGN.items()]
    queries += [f"?{name}=of-the-others" for name in ("search", "q", "tag", "name", "actor", "target_id")]
    queries += [f"?{name}={world.tenant.id}" for name in ("tenant", "tenant_id")]
    for query in queries:
        answer = own.get(path + query)
        assert answer.status_code in (200, 400, 403), f"{path}{query}: {answer.content[:300]!r}"
        shown = answer.content.decode() if answer.status_code == 200 else ""
        assert not [mark for mark in world.marks() if mark in shown], f"{path}{query}"


GETS = [route for route in ROUTES if route.is_api and "get" in route.methods]


def queries_of(route: Route) -> tuple[str, ...]:
    """What the URL's query may name on this route."""
    view = getattr(route.view, "view_class", None) or getattr(route.view, "cls", None)
    return tuple(getattr(view, "query_parameters", ()))


def test_no_parameter_shows_what_is_anothers() -> None:
    """Every parameter that any route takes, with ids and names of the other tenant's, over the own tenant's rows."""
    world, own_world = make_world(), make_world("ours")
    browser, key = Client(), make_api(own_world.tenant, role=Role.OWNER).key
    asked = ("slug", "task_id", "execution_id", "username", "dag_id", "run_id", "channel_id")
    values = [*(str(FOREIGN[name](world)) for name in asked), "of-the-others", str(world.tenant.id)]
    marks = [mark for mark in world.marks() if mark != SECRET]  # both have one of this name
    tried = 0
    for route in GETS:
        path = route.to(foreign_values(route, own_world))
        for name in queries_of(route):
            for value in values:
                answer = browser.get(f"{path}?{name}={quote(value)}", headers={"Authorization": f"Bearer {key}"})
                assert answer.status_code in (200, 400, 403, 404), f"{path}?{name}={value}: {answer.status_code}"
                shown = content_of(answer) if answer.status_code == 200 else ""
                # A cursor is told with its filters, and a search says what it looked for.
                assert not [mark for mark in marks if mark in shown and mark != value], f"{path}?{name}={value}"
                tried += 1
    assert tried > 200


def content_of(answer: Any) -> str:
    """Of downloads and streams, too."""
    if not answer.streaming:
        return str(answer.content.decode())

    async def gathered() -> bytes:
        return b"".join([part async for part in answer.streaming_content])

    return (async_to_sync(gathered)() if answer.is_async else b"".join(answer.streaming_content)).decode()


def test_a_list_declares_what_it_filters_by() -> None:
    """So that the test above tries it: an unknown parameter is refused everywhere."""
    own = make_api(role=Role.OWNER)
    for route in LISTS:
        assert own.get(route.path.removeprefix("api/v1") + "?tenant_id=1").status_code in (400, 403), route.path
    assert sum(len(queries_of(route)) for route in GETS) > 30


STREAMS_AND_EXPORTS = ("/logs", "/logs/download?format=jsonl", "/logs/download?format=text")


@pytest.mark.parametrize("path", STREAMS_AND_EXPORTS)
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_streams_and_exports_of_others_do_not_begin(path: str, accept: str) -> None:
    world, own = make_world(), make_api(role=Role.OWNER)
    headers = {"Accept": accept, "Last-Event-ID": "0-0"}
    answer = own.get(f"/executions/{world.execution.id}{path}", headers=headers)
    assert answer.status_code == 404
    assert "of-the-others" not in answer.content.decode()


@pytest.mark.parametrize("role", Role.values)
def test_the_platform_is_not_a_tenants(role: str) -> None:
    own: Api = make_api(role=Role(role))
    for path in ("/admin/scheduler", "/admin/metrics", "/admin/tenants"):
        assert own.get(path).status_code == 403, path
    for path in ("/admin/scheduler/failover", "/admin/scheduler/freeze", "/admin/scheduler/thaw", "/admin/tenants"):
        assert own.post(path, {}).status_code == 403, path


@pytest.mark.parametrize("route", [route for route in WITH if not route.is_api], ids=name_of)
def test_pages_of_others_are_not_found(route: Route) -> None:
    world, own = make_world(), make_tenant()
    browser = Client()
    browser.force_login(make_person(own, role=Role.OWNER))
    foreign = foreign_values(route, world)
    tries = [route.to(foreign)]
    if set(foreign) - {"slug", "act"}:  # an act is nobody's
        tries.append(route.to({**foreign, "slug": own.slug}))
    before = of_tenant(world.tenant)
    for path in tries:
        for method in ("get", "post", "put", "patch", "delete"):
            answer = getattr(browser, method)(path)
            assert answer.status_code in ((404,) if method == "get" else (404, 405)), f"{method} {path}"
            assert "of-the-others" not in answer.content.decode()
    assert of_tenant(world.tenant) == before


def test_the_admin_is_for_staff_alone() -> None:
    browser = Client()
    browser.force_login(make_person(make_tenant(), role=Role.OWNER))
    for path in ("/admin/", "/admin/tenants/tenant/", "/admin/tenants/secret/", "/admin/executions/execution/"):
        answer = browser.get(path)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/")


SOCKETS = [p for p in websocket_urlpatterns if getattr(p.callback, "consumer_class", None) is not NoSuchSocket]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("pattern", SOCKETS, ids=lambda pattern: str(pattern.pattern))
def test_sockets_of_others_do_not_open(pattern: URLPattern) -> None:
    world, own = make_world(), make_tenant()
    browser = Client()
    browser.force_login(make_person(own, role=Role.OWNER))
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME].value
    route = Route(str(pattern.pattern), pattern.callback)
    foreign = foreign_values(route, world)
    tries = [route.to(foreign)]
    if set(foreign) - {"slug", "act"}:  # an act is nobody's
        tries.append(route.to({**foreign, "slug": own.slug}))
    for path in tries:
        assert not opens(path, cookie)
    if set(foreign) == {"slug"}:
        assert opens(route.to({"slug": own.slug}), cookie), "the own one does"


@async_to_sync
async def opens(path: str, cookie: str) -> bool:
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()))
    communicator = WebsocketCommunicator(application, path, headers=headers)
    accepted, _ = await communicator.connect(timeout=PATIENCE_SECONDS)
    await communicator.disconnect()
    return accepted
