"""DAGs written as text in the console: what is wrong and in which line, who may, what is saved over what."""

from html import unescape
from typing import Any

import pytest
from django.test import Client

from apps.definitions.models import Dag
from apps.tenants.models import Role, Tenant
from tests.console_dags import SALES, Dags, make_member
from tests.console_ledger import make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def ask(tenant: Tenant, path: str, role: Role = Role.OPERATOR, **given: Any) -> Any:
    client = Client()
    client.force_login(make_member(tenant, role))
    address = f"/t/{tenant.slug}/dags/{path}"
    return client.post(address, given) if given else client.get(address)


GOOD = "name: typed\nnodes:\n  - {id: first, handler: demo.noop}\n"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: typed\nnodes:\n  - id: first\n    handler: demo.noop\n    retries: 3\n", 5, "retries"),
        ("name: typed\nnodes:\n  - id: a\n    handler: demo.noop\n    depends_on:\n      - b\n", 6, "no node"),
        (
            '{\n "name": "typed",\n "nodes": [\n  {"id": "a",\n   "handler": {"type": "carrier"}}]}',
            5,
            "unknown handler type",
        ),
        ("name: typed\nmax_active_runs: 0\nnodes:\n  - {id: a, handler: demo.noop}\n", 2, "0"),
        ("name: [\n", None, "at line 2 column 1"),
        ("- a\n- b\n", None, "a DAG is a JSON object"),
        ("", None, "a DAG is a JSON object"),
        (
            "name: typed\nnodes:\n  - id: a\n    handler: {type: webhook, url: 'http://169.254.169.254/'}\n",
            4,
            "169.254",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tenant: Tenant, text: str, line: int | None, says: str) -> None:
    body = ask(tenant, "check", text=text or "\n").json()
    assert (body["ready"], body["graph"]) == (False, None)
    found = {one["line"] for one in body["errors"] if says in f"{one['pointer']} {one['problem']}"}
    assert found == {line}, body["errors"]
    refused = ask(tenant, "save", text=text or "\n")
    assert refused.status_code == 422
    assert says in str(refused.json()["errors"])
    assert not Dag.objects.exists()


def test_a_name_that_is_taken_is_told_before_it_is_saved(tenant: Tenant) -> None:
    dag = Dags(tenant).make("typed", SALES)
    assert "taken" in ask(tenant, "check", text=GOOD).json()["errors"][0]["problem"]
    assert ask(tenant, "save", text=GOOD).status_code == 409
    assert ask(tenant, f"{dag.id}/check", text=GOOD).json()["ready"] is True
    assert Dag.objects.get().version == 1


def test_the_form_begins_with_what_is_in_force_and_comes_back_the_same(tenant: Tenant) -> None:
    dag = Dags(tenant).make("typed", SALES, tags=["a"], description="what: it's for")
    html = ask(tenant, f"{dag.id}/edit").content.decode()
    assert "it&#x27;&#x27;s for" in html
    body = ask(tenant, f"{dag.id}/check", text=_text(html)).json()
    assert (body["errors"], body["ready"]) == ([], False), "nothing changes"


def _text(html: str) -> str:
    return unescape(html[html.index("<textarea") :].partition(">")[2].partition("</textarea>")[0])


def test_the_example_of_the_form_can_be_saved_as_it_stands(tenant: Tenant) -> None:
    text = _text(ask(tenant, "new").content.decode())
    assert ask(tenant, "check", text=text).json()["ready"] is True
    assert ask(tenant, "save", text=text).json()["go"] == f"/t/{tenant.slug}/dags/{Dag.objects.get().id}/"


def test_viewers_are_told_which_role_it_takes_and_shown_no_document(tenant: Tenant) -> None:
    dag = Dags(tenant).make("typed", SALES)
    for path in ("new", f"{dag.id}/edit"):
        answer = ask(tenant, path, Role.VIEWER)
        assert answer.status_code == 403
        assert "textarea" not in answer.content.decode()
    assert ask(tenant, "save", Role.VIEWER, text=GOOD).status_code == 403
    assert ask(tenant, f"{Dags(make_tenant()).make('other', SALES).id}/edit").status_code == 404


def test_what_is_too_long_or_stands_for_too_much_is_refused(tenant: Tenant) -> None:
    assert "1,000,000" in ask(tenant, "check", text="#" * 1_000_001).json()["errors"][0]["problem"]
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "stands for more than" in ask(tenant, "check", text=bomb).json()["errors"][0]["problem"]
