"""The scenario `pages`: every page of the console and the admin, as often as one likes, in this process: what a server
spends on it.

The pages are those that the URLs of the console have; one that is added is measured. What a page needs in its address
is looked up in the ledger; one that nothing is known for is told, and is not left out in silence.
"""

import gc
import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any

import psycopg
from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from apps.definitions.models import Dag, Task
from apps.executions.dags.models import DagRun
from apps.executions.models import DeadLetter, Execution, Worker
from apps.executions.states import Status
from apps.quickstart.bench import admin_pages
from apps.quickstart.bench.page_questions import API, QUESTIONS, SMALL
from apps.tenants.keys import issue
from apps.tenants.models import Membership, Role, Tenant

TARGET_MS = 200.0
_NO_PAGE = (404, 405)
"""Answers of addresses that only take posts, and of what is not there."""


@dataclass(frozen=True)
class PageFigures:
    """One page's, in ms. first_ms: the first request, with nothing in any cache of this process."""

    page: str
    status: int
    queries: int
    kilobytes: int
    first_ms: float
    p50_ms: float
    p95_ms: float
    max_ms: float


@dataclass(frozen=True)
class Figures:
    """load: of the machine in the minute before; above its cores others were in the way. not_read: addresses that take
    posts alone. unknown: those for which nothing stands in the ledger.
    """

    requests_each: int
    load: float
    pages: list[PageFigures]
    not_read: list[str]
    unknown: list[str]

    @property
    def slow(self) -> list[str]:
        return [found.page for found in self.pages if found.p95_ms >= TARGET_MS]

    def document(self) -> dict[str, object]:
        return {
            "scenario": "pages",
            "requests_each": self.requests_each,
            "load": self.load,
            "slowest_p95_ms": max((found.p95_ms for found in self.pages), default=0.0),
            "over_target": self.slow,
            "not_read": self.not_read,
            "unknown": self.unknown,
            "pages": [asdict(found) for found in self.pages],
        }


def pages(slug: str, *, requests: int, say: Callable[[str], None]) -> Figures:
    """Ask `requests` times for each page of the tenant, as its owner, for each list of the API, and for a few pages of
    the tenant that has least.
    """
    tenant = Tenant.objects.get(slug=slug)
    client = _owner(tenant)
    known = samples(tenant)
    measured, not_read, unknown = [], [], []
    load = round(os.getloadavg()[0], 1)
    gc.collect()
    gc.freeze()  # what seeding has left is not walked while pages are made
    for name, route, arguments in addresses(known):
        if arguments is None:
            unknown.append(route)
            continue
        for question in ("", *QUESTIONS.get(name, ())):
            asked = f"?{question}" if question else ""
            found = _measure(client, f"{name}{asked}", f"/{arguments}{asked.format_map(known)}", requests)
            if found.status in _NO_PAGE:
                not_read.append(route)
                break
            measured.append(found)
            say(_line(found))
    person = admin_pages.staff()
    others = [
        *((name, path, person) for name, path in admin_pages.addresses(slug, known)),
        *_lists(tenant, _program(tenant), known),
        *_of_the_smallest(tenant),
    ]
    for name, path, asking in others:
        measured.append(_measure(asking, name, path, requests))
        say(_line(measured[-1]))
    return Figures(requests, load, measured, not_read, unknown)


def _lists(tenant: Tenant, client: Client, known: Mapping[str, Any]) -> Iterator[tuple[str, str, Client]]:
    """(name, path, who asks) of the lists of the API."""
    for route, questions in API.items():
        for question in questions:
            asked = f"?{question}" if question else ""
            try:
                path = f"/api/v1/{route}{asked}".format_map(known)
            except KeyError:
                continue  # nothing of the kind stands in the ledger
            yield f"api {route}{asked}", path, client


def _of_the_smallest(beside: Tenant) -> Iterator[tuple[str, str, Client]]:
    """The same of pages of the console whose tenant has least."""
    others = Tenant.objects.exclude(id=beside.id).order_by("id")
    smallest = min(others, key=lambda tenant: Task.objects.filter(tenant=tenant).count(), default=None)
    if smallest is None:
        return
    client = _owner(smallest)
    for page, questions in SMALL.items():
        for question in questions:
            asked = f"?{question}" if question else ""
            yield f"smallest {page}{asked}", f"/t/{smallest.slug}/{page}/{asked}", client


def _owner(tenant: Tenant) -> Client:
    person, _ = get_user_model().objects.get_or_create(username=f"bench-of-{tenant.slug}")
    Membership.objects.get_or_create(tenant=tenant, user=person, defaults={"role": Role.OWNER})
    client = Client(headers={"host": "localhost"}, raise_request_exception=False)
    client.force_login(person)
    return client


def _program(tenant: Tenant) -> Client:
    """One with a key of the API."""
    key = issue(tenant=tenant, name="bench pages", role=Role.OWNER)
    return Client(headers={"host": "localhost", "authorization": f"Bearer {key}"}, raise_request_exception=False)


def samples(tenant: Tenant) -> dict[str, Any]:
    """Parameters of addresses, by name: of each kind of thing one that has much to show."""
    letters = DeadLetter.objects.filter(tenant=tenant).order_by("-execution_id")
    executions = Execution.objects.filter(tenant=tenant).order_by("-id")
    completed = executions.filter(status=Status.COMPLETED, dag_run_id=None)
    dags = Dag.objects.filter(tenant=tenant, deleted_at=None).order_by("-node_count")
    wide = dags.values_list("id", flat=True).first()
    runs = DagRun.objects.filter(tenant=tenant, dag_id__in=[wide] if wide else [], finished_at__isnull=False).order_by(
        "-id"
    )
    latest = executions.values_list("scheduled_at", flat=True).first()
    ago = {days: latest and latest - timedelta(days=days) for days in (2, 3)}
    far = executions.filter(scheduled_at__lt=ago[3]) if latest else executions
    found = {
        "slug": tenant.slug,
        "two_days_ago": ago[2] and f"{ago[2]:%Y-%m-%dT%H:%M:%SZ}",
        "three_days_ago": ago[3] and f"{ago[3]:%Y-%m-%dT%H:%M:%SZ}",
        "far_identity": far.values_list("id", flat=True).first() or executions.values_list("id", flat=True).last(),
        "identity": letters.values_list("execution_id", flat=True).first()
        or executions.values_list("id", flat=True).first(),
        "task_id": completed.values_list("task_id", flat=True).first(),
        "dag_id": wide,
        "run_id": runs.values_list("id", flat=True).first(),
        "node_id": "n3-7",
        "worker_id": Worker.objects.values_list("id", flat=True).first(),
    }
    return {name: value for name, value in found.items() if value is not None}


def addresses(known: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """(name, route, address) of everything of the console that stands below a tenant; None: something is not known."""
    for pattern in _patterns():
        route = str(pattern.pattern)
        if "<slug:slug>" not in route:
            continue
        address = route
        for name, converter in pattern.pattern.converters.items():
            if name not in known:
                address = ""
                break
            address = address.replace(f"<{_kind(route, name)}:{name}>", converter.to_url(known[name]))
        yield pattern.name or route, route, address or None


def _patterns() -> list[URLPattern]:
    """The console's own."""
    parts = [part for part in get_resolver().url_patterns if isinstance(part, URLResolver)]
    found = [pattern for part in parts if part.app_name == "console" for pattern in part.url_patterns]
    return [pattern for pattern in found if isinstance(pattern, URLPattern)]


def _kind(route: str, name: str) -> str:
    """`uuid` of `<uuid:task_id>`."""
    return route.partition(f":{name}>")[0].rpartition("<")[2]


def _measure(client: Client, page: str, path: str, requests: int) -> PageFigures:
    first_ms, queries, answer = _ask(client, path)
    if answer.status_code in _NO_PAGE:
        return PageFigures(page, answer.status_code, queries, 0, first_ms, 0, 0, 0)
    times = sorted(_ask(client, path)[0] for _ in range(requests))
    return PageFigures(
        page=page,
        status=answer.status_code,
        queries=queries,
        kilobytes=len(answer.content) // 1024 if not answer.streaming else 0,
        first_ms=round(first_ms, 1),
        p50_ms=round(statistics.median(times), 1),
        p95_ms=round(times[min(len(times) - 1, int(0.95 * len(times)))], 1),
        max_ms=round(times[-1], 1),
    )


def _ask(client: Client, path: str) -> tuple[float, int, HttpResponse]:
    with counted() as statements:
        began = perf_counter()
        answer = client.get(path)
        return (perf_counter() - began) * 1000, len(statements), answer  # type: ignore[return-value]


@contextmanager
def counted() -> Iterator[list[str]]:
    """Every statement that this process sends to PostgreSQL meanwhile, through Django or beside it."""
    statements: list[str] = []
    plain = psycopg.Cursor.execute

    def execute(self: Any, query: Any, *arguments: Any, **named: Any) -> Any:
        statements.append(str(query))
        return plain(self, query, *arguments, **named)

    psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    try:
        yield statements
    finally:
        psycopg.Cursor.execute = plain  # type: ignore[method-assign]


def _line(found: PageFigures) -> str:
    mark = " <- slow" if found.p95_ms >= TARGET_MS else "" if found.status == 200 else f" {found.status}"
    return (
        f"{found.page:<44} p50 {found.p50_ms:>7.1f} ms  p95 {found.p95_ms:>7.1f} ms  first {found.first_ms:>7.1f} ms"
        f"  {found.queries:>3} queries  {found.kilobytes:>5} kB{mark}"
    )
