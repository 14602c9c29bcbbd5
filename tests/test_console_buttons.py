"""Every button × role: a press that is allowed leaves its rows and its audit row, one that is not leaves nothing.

What is looked at is the whole database, table by table. A route of the console that takes a POST and an act that a page
offers must stand in the table of tests/console_buttons.py, or these tests fail.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from apps.tenants.models import AuditEntry, Role
from tests.console_buttons import BUTTONS, Button, Desk
from tests.console_dags import make_member
from tests.console_ledger import make_person, make_tenant

pytestmark = pytest.mark.django_db

ROLES = (Role.VIEWER, Role.OPERATOR, Role.OWNER)
OF_THE_SESSION = frozenset({"django_session"})
"""Written by whoever is signed in, whatever they press."""


def fingerprints() -> dict[str, str]:
    """Table → a digest of all its rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
            " AND relnamespace = 'public'::regnamespace ORDER BY relname"
        )
        names = [name for (name,) in cursor.fetchall() if name not in OF_THE_SESSION]
        each = " UNION ALL ".join(
            f"SELECT '{name}', md5(string_agg(t::text, '|' ORDER BY t::text)) FROM \"{name}\" t" for name in names
        )
        cursor.execute(each)
        return dict(cursor.fetchall())


def changed(before: dict[str, str]) -> set[str]:
    after = fingerprints()
    return {name for name in after if after[name] != before[name]}


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside did not happen."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def press(button: Button, desk: Desk, client: Client) -> Any:
    return client.post(button.at(desk), dict(button.sent(desk)))


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.mark.parametrize("name", BUTTONS)
def test_a_press_leaves_its_rows_or_nothing(name: str) -> None:
    button = BUTTONS[name]
    desk = Desk(make_tenant())
    button.at(desk), button.sent(desk)  # what it is about exists
    people = {role: make_member(desk.tenant, role) for role in ROLES}
    outsider = make_person(make_tenant(), role=Role.OWNER)
    clients = {role: client_of(person) for role, person in people.items()}
    stranger, nobody = client_of(outsider), Client()
    before = fingerprints()
    audited = AuditEntry.objects.count()

    assert press(button, desk, nobody).status_code == 302
    assert press(button, desk, stranger).status_code == 404
    may = ROLES[ROLES.index(button.least) :]
    for role in ROLES:
        if role not in may:
            refused = press(button, desk, clients[role])
            assert (role, refused.status_code) == (role, 403)
            assert f"role {button.least.value}" in refused.json()["problem"]
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
                (button.audit, f"user:{people[role].username}", desk.tenant.id)
            ]
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


def pressed() -> set[tuple[str, str]]:
    """(route, act) of each button in the table."""
    desk = Desk(make_tenant())
    found = set()
    for button in BUTTONS.values():
        match = resolve(urlsplit(button.at(desk)).path)
        found.add((str(match.url_name), match.kwargs.get("act", "")))
    return found


def test_every_route_that_takes_a_press_is_tried() -> None:
    tried = {route for route, _ in pressed()}
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
    """Pages as an owner sees them; buttons name their addresses in data-act, forms in action and data-post."""
    desk = Desk(make_tenant())
    for button in BUTTONS.values():
        button.at(desk)
    owner = client_of(make_member(desk.tenant, Role.OWNER))
    offered = set()
    for path in _pages(desk):
        answer = owner.get(path)
        assert answer.status_code == 200, path
        for address in re.findall(r'(?:data-act|data-post|action)="([^"]+)"', answer.content.decode()):
            where = urlsplit(unescape(address)).path
            if where.startswith(f"/t/{desk.tenant.slug}/"):
                match = resolve(where)
                offered.add((str(match.url_name), match.kwargs.get("act", "")))
    assert offered - pressed() == set()
    assert len(offered) >= 15


def _pages(desk: Desk) -> list[str]:
    plain = ("overview", "tasks", "task_new", "executions", "letters", "dags", "workers")
    return [
        *(desk.at(name) for name in plain),
        desk.at("task", task_id=desk.task_id),
        desk.at("task_edit", task_id=desk.task_id),
        desk.at("execution", identity=desk.dead.id),
        desk.at("letter", identity=desk.dead.id),
        desk.at("dag", dag_id=desk.dag.id),
        desk.at("run", run_id=desk.run_id),
        *(desk.at("run_node", run_id=desk.run_id, node_id=node) for node in ("a", "ask", "b")),
    ]
