"""Every button × role: a press that is allowed leaves its rows and its audit row, one that is not leaves nothing.

What is looked at is the whole database, table by table. A route of the console that takes a POST and an act that a page
offers must stand in the table of tests/console_buttons.py, or these tests fail.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from apps.tenants.models import AuditEntry, Role, Tenant, Tier
from tests.console_buttons import BUTTONS, Button
from tests.console_dags import make_member
from tests.console_desk import Desk
from tests.console_ledger import make_person, make_tenant

pytestmark = pytest.mark.django_db

ROLES = (Role.VIEWER, Role.OPERATOR, Role.OWNER)
OF_THE_SESSION = frozenset({"django_session"})
"""Written by whoever is signed in, whatever they press."""
NO_ANSWER_IS_KEPT = frozenset(
    {
        "task: run now",  # a note is no parameter; other parameters are refused as the API does
        "task form: check",
        "task edit: check",
        "DAG form: check",
        "DAG edit: check",
        "DAG backfill: check",
        "task backfill: check",
        "backfill: stop",
        "worker: drain",
        "shared worker: drain",
        "first steps: put away",
        "crontab: check",
        "crontab: import",
    }
)
"""They read, or come to the same however often they are sent."""


def fingerprints() -> dict[str, str]:
    """Table → a digest of all its rows; those of partitions under the name of the whole. Without rows there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT oid::regclass::text, coalesce(pg_partition_root(oid), oid)::regclass::text FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0 ORDER BY 1"
        )
        roots = {name: root for name, root in cursor.fetchall() if root not in OF_THE_SESSION}
        each = " UNION ALL ".join(
            f"SELECT '{name}', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {name} t" for name in roots
        )
        cursor.execute(f"{each} ORDER BY 1")
        found: dict[str, str] = {}
        for name, digest in cursor.fetchall():
            if digest:
                found[roots[name]] = found.get(roots[name], "") + f"{name}:{digest} "
        return found


def changed(before: dict[str, str]) -> set[str]:
    after = fingerprints()
    return {name for name in {*after, *before} if after.get(name) != before.get(name)}


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside did not happen."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def press(button: Button, desk: Desk, client: Client, *, slug: str = "", **more: str) -> Any:
    """slug: of the tenant whose page it is pressed on, if that is not the desk's."""
    address = button.at(desk).replace(f"/t/{desk.tenant.slug}/", f"/t/{slug or desk.tenant.slug}/")
    return client.post(address, {**button.sent(desk), **more})


def desk_of(button: Button) -> Desk:
    """With what the button is about."""
    desk = Desk(_platform() if button.platform else make_tenant())
    button.at(desk), button.sent(desk)
    return desk


def _platform() -> Tenant:
    tenant = make_tenant()
    Tenant.objects.filter(id=tenant.id).update(tier=Tier.SYSTEM)
    return tenant


def audience(button: Button, desk: Desk) -> Any:
    """The tenant whose audit log tells of it."""
    if button.told_to:
        return getattr(desk, button.told_to)
    return None if button.platform else desk.tenant.id


def client_of(person: Any, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(person)
    return client


@pytest.mark.parametrize("name", BUTTONS)
def test_a_press_leaves_its_rows_or_nothing(name: str) -> None:
    button = BUTTONS[name]
    desk, other = desk_of(button), make_tenant()
    people = {role: make_member(desk.tenant, role) for role in ROLES}
    outsider = make_person(other, role=Role.OWNER)
    clients = {role: client_of(person) for role, person in people.items()}
    stranger, nobody = client_of(outsider), Client()
    forged = client_of(people[Role.OWNER], enforce_csrf_checks=True)  # a press from another site has no token
    before = fingerprints()
    audited = AuditEntry.objects.count()

    assert press(button, desk, nobody).status_code == 302
    assert press(button, desk, forged).status_code == 403
    assert press(button, desk, stranger).status_code == 404
    if button.platform:
        assert press(button, desk, stranger, slug=other.slug).status_code == (404 if button.told_to else 403)
    may = ROLES[ROLES.index(button.least) :]
    for role in ROLES:
        if role not in may:
            refused = press(button, desk, clients[role])
            assert (role, refused.status_code) == (role, 403)
            assert button.platform or f"role {button.least.value}" in refused.json()["problem"]
    assert changed(before) == set()

    for role in may:
        with undone():
            done = press(button, desk, clients[role])
            assert done.status_code == 200, (role, done.content)
            touched = changed(before)
            rows = list(AuditEntry.objects.order_by("-id")[: AuditEntry.objects.count() - audited])
            if not button.audit:
                assert (touched, rows) == (set(), [])
                continue
            assert {*button.tables, "audit_log"} <= touched
            assert [(row.action, row.actor, row.tenant_id) for row in rows] == [
                (action, f"user:{people[role].username}", audience(button, desk))
                for action in filter(None, (button.audit, button.also))
            ]
        assert changed(before) == set()


@pytest.mark.parametrize("name", BUTTONS)
def test_the_same_click_sent_twice_is_done_once(name: str) -> None:
    button = BUTTONS[name]
    desk = desk_of(button)
    client, sent = client_of(make_member(desk.tenant, button.least)), dict(button.sent(desk))
    first = client.post(button.at(desk), {**sent, "key": "one-click"})
    assert first.status_code == 200, first.content
    before = fingerprints()
    again = client.post(button.at(desk), {**sent, "key": "one-click"})
    assert (again.status_code, changed(before)) == (200, set()), again.content
    # An edited form under the same key must not get the first one's answer as if it had been done.
    edited = client.post(button.at(desk), {**sent, "key": "one-click", "note": "edited since"})
    assert (edited.status_code == 200) == (name in NO_ANSWER_IS_KEPT), edited.content
    assert edited.status_code in (200, 409, 422)
    assert changed(before) == set()


def _routes() -> dict[str, URLPattern]:
    """Routes of a tenant's pages by name."""
    console = [
        one for one in get_resolver().url_patterns if isinstance(one, URLResolver) and one.namespace == "console"
    ]
    routes = [route for one in console for route in one.url_patterns if isinstance(route, URLPattern)]
    return {str(route.name): route for route in routes if str(route.pattern).startswith("t/<slug:slug>/")}


def _posts() -> set[str]:
    """Those that take a form."""
    return {name for name, route in _routes().items() if getattr(route.callback, "needs_whole_form", False)}


def pressed(desk: Desk) -> dict[tuple[str, str], Role]:
    """(route, act) of each button in the table, and the least role that may press it."""
    found = {}
    for button in BUTTONS.values():
        match = resolve(urlsplit(button.at(desk)).path)
        found[str(match.url_name), match.kwargs.get("act", "")] = button.least
    return found


def test_every_route_that_takes_a_press_is_tried() -> None:
    tried = {route for route, _ in pressed(Desk(make_tenant()))}
    assert _posts() - tried == set()
    assert len(_posts()) >= 10


def test_pages_take_no_press() -> None:
    """A POST to any other route of a tenant is refused before it is looked at."""
    request = RequestFactory().post("/")
    for name, route in _routes().items():
        if name not in _posts():
            given = dict.fromkeys(route.pattern.converters, None)
            assert route.callback(request, **given).status_code == 405, name


def test_every_button_that_a_page_offers_is_tried() -> None:
    """And offered to nobody who may not press it. The table is of the platform's tenant, whose owners see most."""
    desk = Desk(_platform())
    known = pressed(desk)
    for role in ROLES:
        offered = _offered(desk, client_of(make_member(desk.tenant, role)))
        assert offered - known.keys() == set()
        assert {one for one in offered if ROLES.index(known[one]) > ROLES.index(role)} == set(), role
    assert len(offered) >= 30


def _offered(desk: Desk, client: Client) -> set[tuple[str, str]]:
    """Buttons name their addresses in data-act and data-url, forms in action and data-post."""
    found = set()
    for path in _pages(desk):
        answer = client.get(path)
        if answer.status_code != 200 or answer.streaming or "html" not in answer["Content-Type"]:
            assert answer.status_code in (200, 302, 403, 404), path
            continue
        for name, address in re.findall(r'(data-act|data-post|data-url|action)="([^"]+)"', answer.content.decode()):
            where = urlsplit(unescape(address)).path
            if where.startswith(f"/t/{desk.tenant.slug}/"):
                match = resolve(where)
                if name in ("data-act", "data-post") or match.url_name in _posts():
                    found.add((str(match.url_name), match.kwargs.get("act", "")))
    return found


def _pages(desk: Desk) -> list[str]:
    """Every route that is read, of each thing that it may be of. A new parameter needs its values here."""
    values: dict[str, list[Any]] = {
        "task_id": [desk.task_id, desk.timed_task_id],
        "identity": [desk.dead.id, desk.resting.id, desk.waiting.id],
        "dag_id": [desk.dag.id, desk.timed_dag.id],
        "run_id": [desk.run_id],
        "node_id": ["a", "ask", "b"],
        "act": ["cancel"],
    }
    found = []
    for name, route in _routes().items():
        if name not in _posts():
            needed = [one for one in route.pattern.converters if one != "slug"]
            for given in product(*(values[one] for one in needed)):
                found.append(desk.at(name, **dict(zip(needed, given, strict=True))))
    return found
