"""The console's pages of DAGs: whose they are, what they say, what they cost, what hostile names can do (nothing)."""

import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console.dags import gantt, parameters
from apps.definitions.dags import making, standing
from apps.executions.dags import operations
from apps.executions.dags.models import DagRun
from apps.executions.dags.states import RunStatus
from apps.executions.states import Status
from apps.tenants.models import AuditEntry, Role, Tenant
from tests.console_dags import SALES, Dags, layered, make_member
from tests.console_ledger import HOSTILE, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def dags(tenant: Tenant) -> Dags:
    return Dags(tenant)


def client_of(tenant: Tenant, role: Role = Role.OPERATOR, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(make_member(tenant, role))
    return client


def page(tenant: Tenant, path: str, role: Role = Role.OPERATOR) -> str:
    answer = client_of(tenant, role).get(f"/t/{tenant.slug}/{path}")
    assert answer.status_code == 200, path
    return answer.content.decode()


def boxes(html: str) -> dict[str, str]:
    """node → state."""
    return dict(re.findall(r'<svg class="node[^>]*? data-node="([^"]+)"[^>]*? data-state="(\w+)"', html))


def test_an_empty_list_teaches_the_next_step(tenant: Tenant) -> None:
    html = page(tenant, "dags/")
    assert "POST http://testserver/api/v1/dags" in html
    assert f'href="/t/{tenant.slug}/dags/new"' in html
    assert "<table" not in html
    assert "dags/new" not in page(tenant, "dags/", Role.VIEWER)


def test_the_overview_shows_the_dags_that_ran_last(tenant: Tenant, dags: Dags) -> None:
    assert '<ul class="ran">' not in page(tenant, "")
    sales = dags.make("nightly-sales", SALES)
    dags.end(dags.start(sales), extract=Status.DEAD_LETTER)
    for name in ("a", "b", "c", "d"):
        dags.start(dags.make(name, layered(1, 1)))
    dags.start(sales)
    shown = page(tenant, "").split('<ul class="ran">')[1].split("</ul>")[0]
    assert re.findall(r"<bdi>([\w-]+)</bdi>", shown) == ["nightly-sales", "d", "c", "b"]
    assert re.findall(r'data-state="(\w+)"', shown)[:2] == ["failed", "running"]


def test_the_list_finds_by_any_part_and_says_what_stands(tenant: Tenant, dags: Dags) -> None:
    sales = dags.make("nightly-sales", SALES, schedule={"type": "cron", "expression": "0 2 * * *"}, tags=["finance"])
    dags.make("warehouse", layered(2, 2))
    standing.pause_dag(principal=dags.who, dag_id=sales.id, note="auditors\nsecond line")
    for _ in range(2):
        dags.end(dags.start(sales), extract=Status.DEAD_LETTER)
    operations.cancel_run(principal=dags.who, run_id=dags.start(sales))
    html = page(tenant, "dags/?q=Y-SALE")
    assert "warehouse" not in html
    assert "paused: auditors" in html
    assert "second line" not in html
    assert "at 02:00 every day" in html
    assert re.findall(r'class="mark"[^>]* data-state="(\w+)"', html) == ["failed", "failed", "cancelled"]
    assert "warehouse" in page(tenant, "dags/?paused=false")
    assert "nightly-sales" not in page(tenant, "dags/?paused=false")
    assert "warehouse" not in page(tenant, "dags/?tag=finance")
    assert "Show all" in page(tenant, "dags/?q=no-such%00thing")


def test_long_lists_go_on(tenant: Tenant, dags: Dags, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.console.dags.listing.SHOWN", 2)
    for name in ("c", "a", "b"):
        dags.make(name, layered(1, 1))
    html = page(tenant, "dags/?q=&paused=false")
    assert "?paused=false&amp;after=b" in html
    assert 'name="paused" value="false"' in html
    assert "?tag=x&amp;paused=true" in page(tenant, "dags/?tag=x")
    assert re.findall(r"<bdi>(\w)</bdi>", page(tenant, "dags/?after=b")) == ["c"]


def test_a_run_is_drawn_as_it_stands(tenant: Tenant, dags: Dags) -> None:
    run = dags.start(dags.make("sales", SALES))
    dags.end(run, extract={"shops": [1, 2, 3], "type": "invoice"})
    rows = dags.waiting(run, "score")
    dags.begin(rows)
    dags.finish({rows[0]: 1})
    dags.end(run, clean=Status.DEAD_LETTER)
    html = page(tenant, f"runs/{run}/")
    assert boxes(html) == {
        "extract": "succeeded",
        "clean": "failed",
        "score": "running",
        "receipts": "skipped",
        "merge": "pending",
        "archive": "skipped",
        "sign-off": "pending",
        "publish": "pending",
    }
    for words in (
        "score × 3",
        "1 of 3",
        "waits for 1 of 2",
        "not taken",
        "ValueError: amo…",
        "if $.type equals receipt",
    ):
        assert words in html, words
    edges = re.findall(r'<path class="edge"[^>]* data-edge="(\w+)"', html)
    assert sorted(edges) == ["failed", "open", "open", "open", "taken", "taken", "untaken", "untaken", "untaken"]
    assert "Critical path" in html


def test_nothing_is_drawn_backwards(tenant: Tenant, dags: Dags) -> None:
    """The page's clock may be behind the ledger's, and nodes may be released after it was read."""
    run = dags.start(dags.make("sales", SALES))
    drawn = gantt.read(dags.run(run), now=dags.run(run).created_at - timedelta(seconds=5))
    assert drawn.bars
    assert all(bar.wait_width >= 0 and bar.width >= 0 for bar in drawn.bars)


def test_a_node_says_what_happened_and_what_may_be_done(tenant: Tenant, dags: Dags) -> None:
    run = dags.start(dags.make("sales", SALES))
    dags.end(run, extract={"shops": [1], "type": "invoice"})
    dags.end(run, clean=Status.DEAD_LETTER)
    html = page(tenant, f"runs/{run}/nodes/clean/")
    for words in ("ValueError: amount &quot;12,50&quot;", "Traceback: no", "1: failed", "Mark success", "/executions/"):
        assert words in html, words
    assert "Mark failed" not in html
    assert (
        "<button"
        not in page(tenant, f"runs/{run}/nodes/clean/", Role.VIEWER)
        .replace("data-panel-close", "", 1)
        .split("close", 1)[1]
        .split(">", 1)[1]
    )
    assert "&quot;shops&quot;" in page(tenant, f"runs/{run}/nodes/extract/")
    assert "receipt" in page(tenant, f"runs/{run}/nodes/receipts/")


def test_foreign_dags_and_runs_are_not_found(tenant: Tenant) -> None:
    other = Dags(make_tenant())
    dag = other.make("theirs", SALES)
    run = other.start(dag)
    client = client_of(tenant)
    for path in (
        f"dags/{dag.id}/",
        f"dags/{dag.id}/grid",
        f"dags/{dag.id}/yaml",
        f"runs/{run}/",
        f"runs/{run}/state",
        f"runs/{run}/gantt",
    ):
        assert client.get(f"/t/{tenant.slug}/{path}").status_code == 404
        assert client.get(f"/t/{other.tenant.slug}/{path}").status_code == 404
    for path in (f"dags/{dag.id}/act/run", f"runs/{run}/act/cancel", f"runs/{run}/nodes/extract/act/skip"):
        assert client.post(f"/t/{tenant.slug}/{path}").status_code == 404


def test_the_policy_allows_no_inline_script(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("sales", SALES)
    run = dags.start(dag)
    for path in ("dags/", f"dags/{dag.id}/", f"runs/{run}/", f"runs/{run}/nodes/extract/", f"runs/{run}/gantt"):
        html = page(tenant, path)
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", html), path
        assert not re.search(r'(?:src|href)="(?:https?:)?//', html), path


def test_hostile_words_do_nothing(tenant: Tenant, dags: Dags) -> None:
    schema = {"type": "object", "properties": {HOSTILE: {"type": "string", "title": HOSTILE, "description": HOSTILE}}}
    dag = dags.make(
        HOSTILE.replace("\u202e", ""),
        [{"id": "ask", "approval": {"message": HOSTILE}}, {"id": "b", "depends_on": ["ask"]}],
        description=HOSTILE,
        parameters={HOSTILE: HOSTILE},
        parameters_schema=schema,
    )
    standing.pause_dag(principal=dags.who, dag_id=dag.id, note=HOSTILE)
    run = dags.start(dag)
    for path in ("dags/", f"dags/{dag.id}/", f"runs/{run}/", f"runs/{run}/nodes/ask/", f"runs/{run}/gantt"):
        html = page(tenant, path)
        assert "<img" not in html, path
    shown = client_of(tenant).get(f"/t/{tenant.slug}/runs/{run}/state").json()
    assert "<img" not in shown["head"]


def test_the_number_of_queries_does_not_grow(tenant: Tenant, dags: Dags) -> None:
    client = client_of(tenant)

    def count(path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/t/{tenant.slug}/{path}").status_code == 200
        return len(queries)

    def made(width: int) -> list[str]:
        dag = dags.make(f"dag-{width}", layered(width, 2))
        run = dags.start(dag)
        dags.begin(dags.waiting(run)[:1])
        return [
            "dags/",
            f"dags/{dag.id}/",
            f"dags/{dag.id}/grid",
            f"runs/{run}/",
            f"runs/{run}/gantt",
            f"runs/{run}/state",
        ]

    few = [count(path) for path in made(2)]
    for n in range(3):
        dags.start(dags.make(f"more-{n}", layered(1, 1)))
    many = [count(path) for path in made(20)]
    assert many == few
    assert max(many) <= 20, dict(zip(made(3), many, strict=True))


def audited(tenant: Tenant, action: str) -> list[dict[str, Any]]:
    rows = AuditEntry.objects.filter(tenant=tenant, action=action).order_by("id")
    return [{"actor": row.actor, "detail": row.detail} for row in rows]


def test_buttons_are_shown_to_who_may_press_them(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("sales", SALES)
    run = dags.start(dag)
    for path in (f"dags/{dag.id}/", f"runs/{run}/"):
        assert "data-act=" in page(tenant, path)
        html = page(tenant, path, Role.VIEWER)
        assert "data-act=" not in html
        assert "data-run-now" not in html


def test_what_cannot_be_done_is_said(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("sales", SALES)
    run = dags.start(dag)
    client = client_of(tenant)
    answer = client.post(f"/t/{tenant.slug}/runs/{run}/act/rerun")
    assert answer.status_code == 409
    assert "nothing to run again" in answer.json()["problem"]
    assert client.post(f"/t/{tenant.slug}/runs/{run}/act/explode").status_code == 404
    assert client.post(f"/t/{tenant.slug}/runs/{run}/nodes/nobody/act/skip").status_code == 404
    assert client.get(f"/t/{tenant.slug}/runs/{run}/nodes/%00/").status_code == 404
    assert client.post(f"/t/{tenant.slug}/runs/{run}/nodes/%00/act/skip").status_code == 404
    answer = client.post(f"/t/{tenant.slug}/runs/{run}/act/cancel", {"note": "x" * 1001})
    assert answer.status_code == 422
    answer = client.post(f"/t/{tenant.slug}/runs/{run}/act/cancel", {"note": "a\0b"})
    assert (answer.status_code, answer.json()["errors"][0]["problem"]) == (422, "/note: has a NUL character")
    DagRun.objects.filter(id=run).update(ending=RunStatus.CANCELLED)
    answer = client.post(f"/t/{tenant.slug}/runs/{run}/act/rerun")
    assert (answer.status_code, "try again when it has ended" in answer.json()["problem"]) == (409, True)


def test_a_run_for_later_says_when_it_begins(tenant: Tenant, dags: Dags) -> None:
    run = dags.start(dags.make("sales", SALES))
    DagRun.objects.filter(id=run).update(queued_since="2027-01-01T00:00Z", run_at="2099-01-01T00:00Z")
    html = page(tenant, f"runs/{run}/")
    assert "not before 2099-01-01 00:00:00 UTC" in html
    assert "in the queue" not in html


def test_runs_that_wait_say_in_which_place_and_for_what(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("sales", SALES, max_active_runs=1)
    active, *waiting = [dags.start(dag) for _ in range(4)]
    operations.cancel_run(principal=dags.who, run_id=waiting.pop(0))
    html = page(tenant, f"runs/{waiting[1]}/")
    assert '<span class="word">queued</span>' in html
    assert "place 2 of 2 in the queue" in html
    assert "1 active run (" in html
    assert ", and 1 in the queue before it" in html
    assert f'href="/t/{tenant.slug}/runs/{active}/"' in html
    assert "place 1 of 2 in the queue" in page(tenant, f"runs/{waiting[0]}/")
    assert "in the queue" not in page(tenant, f"runs/{active}/")
    states = re.findall(r'class="mark" id="m-([^"]+)"[^>]*data-state="(\w+)"', page(tenant, "dags/"))
    assert [state for _, state in states] == ["running", "cancelled", "queued", "queued"]


def test_a_refused_click_uses_no_key(tenant: Tenant, dags: Dags) -> None:
    run = dags.start(dags.make("sales", SALES))
    url, client = f"/t/{tenant.slug}/runs/{run}/act/rerun", client_of(tenant)
    assert client.post(url, {"key": "k"}).status_code == 409
    dags.end(run, extract=Status.DEAD_LETTER)
    assert client.post(url, {"key": "k"}).json() == {"said": "running again"}
    assert len(audited(tenant, "dag_run.rerun_from_failed")) == 1


def test_a_form_that_is_broken_or_strange_does_nothing(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("plain", layered(1, 1))
    url, client = f"/t/{tenant.slug}/dags/{dag.id}/act/run", client_of(tenant)
    part = '--b\r\nContent-Disposition: form-data; name="parameters"\r\n\r\n{}\r\n'
    for body in (
        "nothing",
        part,
        part + "--b\r\nContent-Disp",
        part + "--b\r\n\r\n{}\r\n--b--\r\n",
        "x" + part + "--b--",
    ):
        answer = client.post(url, body, content_type="multipart/form-data; boundary=b")
        assert (answer.status_code, "whole" in answer.json()["problem"]) == (400, True), body
    assert client.post(url, part, content_type="multipart/form-data").status_code == 400
    assert client.post(url, {"parameters": "{}"}, content_type="application/json").status_code == 415
    for fields in (
        {"parameters": "{}", "parameter": "{}"},
        {"parameters": ["{}", "{}"]},
        {"p.day": "x"},
        {"note": "x"},
    ):
        assert client.post(url, fields).status_code == 422, fields
    assert client.post(f"/t/{tenant.slug}/dags/{dag.id}/act/pause", {"nots": "x"}).status_code == 422
    assert audited(tenant, "dag.trigger") == audited(tenant, "dag.pause") == []
    assert client.post(url, part + "--b--\r\n", content_type="multipart/form-data; boundary=b").status_code == 200
    assert client.post(url, "parameters=%7B%7D", content_type="application/x-www-form-urlencoded").status_code == 200
    assert len(audited(tenant, "dag.trigger")) == 2


SCHEMA = {
    "type": "object",
    "required": ["day"],
    "properties": {
        "day": {"type": "string", "pattern": "^\\d{4}-\\d\\d-\\d\\d$"},
        "shops": {"type": "integer", "maximum": 9},
        "mode": {"enum": ["full", 2, None]},
        "mail": {"type": "boolean"},
        "extra": {"type": "object"},
    },
}


def test_the_form_fits_the_schema(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("sales", layered(1, 1), parameters={"day": "2026-01-01", "mode": 2}, parameters_schema=SCHEMA)
    kinds = {field.name: field.kind for field in parameters.form_of(dag)}
    assert kinds == {"day": "text", "extra": "json", "mail": "boolean", "mode": "choice", "shops": "integer"}
    posted = {"p.day": "2026-02-02", "p.shops": "3", "p.mode": "0", "p.mail": "on", "p.extra": '{"a": [1]}'}
    values = {"day": "2026-02-02", "shops": 3, "mode": "full", "mail": True, "extra": {"a": [1]}}
    assert parameters.values_of(dag, posted) == values
    assert parameters.values_of(dag, {"p.shops": "", "p.day": ""}) == {"mail": False, "day": ""}
    url = f"/t/{tenant.slug}/dags/{dag.id}/act/run"
    done = client_of(tenant).post(url, posted).json()
    run = re.findall(r"/runs/([0-9a-f-]+)/", done["go"])[0]
    assert dags.run(UUID(run)).parameters == values


def test_errors_come_back_to_their_fields(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("sales", layered(1, 1), parameters={"day": "2026-01-01"}, parameters_schema=SCHEMA)
    url = f"/t/{tenant.slug}/dags/{dag.id}/act/run"
    client = client_of(tenant)
    answer = client.post(url, {"p.day": "soon", "p.shops": "many"})
    assert answer.status_code == 422
    assert {error["field"] for error in answer.json()["errors"]} == {"day", "shops"}
    answer = client.post(url, {"p.extra": "{"})
    assert [error["field"] for error in answer.json()["errors"]] == ["extra"]
    plain = dags.make("plain", layered(1, 1))
    answer = client.post(f"/t/{tenant.slug}/dags/{plain.id}/act/run", {"parameters": "[1]"})
    assert answer.status_code == 422


def test_versions_are_compared_and_secrets_masked(tenant: Tenant, dags: Dags) -> None:
    hook = {"type": "webhook", "url": "https://example.com/x", "headers": {"Authorization": "Bearer of-the-others"}}
    dag = dags.make("hooked", [{"id": "a", "handler": hook}])
    making.update_dag(
        principal=dags.who, dag_id=dag.id, data={"max_active_runs": 3}, partial=True, expected_version=None
    )
    html = page(tenant, f"dags/{dag.id}/")
    assert "/max_active_runs: 3" in html
    assert "of-the-others" in html
    assert "of-the-others" not in page(tenant, f"dags/{dag.id}/", Role.VIEWER)
    assert f"/api/v1/dags/{dag.id}/trigger" in html
    assert "max_active_runs: 3" in html
    assert "of-the-others" in page(tenant, f"dags/{dag.id}/yaml")
    assert "of-the-others" not in page(tenant, f"dags/{dag.id}/yaml", Role.VIEWER)


def test_the_grid_has_a_column_a_run_and_a_row_a_node(tenant: Tenant, dags: Dags) -> None:
    dag = dags.make("sales", SALES)
    first, second = dags.start(dag), dags.start(dag)
    dags.end(first, extract=Status.DEAD_LETTER)
    found = json.loads(page(tenant, f"dags/{dag.id}/grid"))
    assert [run["id"] for run in found["runs"]] == [str(first), str(second)]
    rows = {node["name"]: node["cells"] for node in found["nodes"]}
    assert rows["extract"] == "fa"
    assert rows["merge"] == "up"
    nodes = [{**node, "depends_on": []} if node["id"] == "clean" else node for node in SALES if node["id"] != "merge"]
    nodes = [{"handler": "demo.noop", **{k: v for k, v in node.items() if k != "approval"}} for node in nodes]
    for node in nodes:
        node["depends_on"] = [one for one in node.get("depends_on", []) if one != "merge"]
    making.update_dag(principal=dags.who, dag_id=dag.id, data={"nodes": nodes}, partial=True, expected_version=None)
    found = json.loads(page(tenant, f"dags/{dag.id}/grid"))
    assert [node["name"] for node in found["nodes"] if node["gone"]] == ["merge"]


def test_many_alike_nodes_are_folded_until_they_are_opened(tenant: Tenant, dags: Dags) -> None:
    wide: list[dict[str, Any]] = [{"id": "a"}, *({"id": f"r{n}", "depends_on": ["a"]} for n in range(70))]
    wide.append({"id": "z", "depends_on": [f"r{n}" for n in range(70)]})
    run = dags.start(dags.make("wide", wide))
    dags.end(run, a=1)
    rows = dags.waiting(run)
    dags.begin(rows[:9])
    dags.finish({row: Status.DEAD_LETTER if n == 3 else 1 for n, row in enumerate(rows[:9])})
    html = page(tenant, f"runs/{run}/")
    assert html.count('<svg class="node') == 3
    assert "1 failed of 70" in html
    assert 'data-state="failed"' in html
    assert len(boxes(page(tenant, f"runs/{run}/?fold=off"))) == 72
    assert len(boxes(page(tenant, f"runs/{run}/?open=1"))) == 72
    assert page(tenant, f"runs/{run}/?fold=x&open=&open=a&open=99").count('<svg class="node') == 3
