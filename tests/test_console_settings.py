"""The settings: who sees and changes what, once a click, and audited; what is wrong is said at its field."""

import re
import secrets
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console.settings import limits
from apps.executions import usage
from apps.executions.models import CircuitBreaker
from apps.executions.quotas import Use
from apps.executions.states import Status
from apps.tenants import channels, keys, secret_store
from apps.tenants.models import ApiKey, AuditEntry, Membership, NotificationChannel, Role, Secret, Tenant
from chronoweb.runtime import postgres
from tests.console_dags import make_member
from tests.console_ledger import HOSTILE, Ledger, make_tenant, now
from tests.factories import make_principal, make_task

pytestmark = pytest.mark.django_db
TABS = ("", "members", "keys", "secrets", "channels", "limits")
VALUE = "s3cr3t-of-the-suite"


class Office:
    """A tenant's settings, and somebody at them."""

    def __init__(self, role: Role = Role.OWNER, tenant: Tenant | None = None) -> None:
        self.tenant = tenant or make_tenant()
        self.client = Client()
        self.person = make_member(self.tenant, role)
        self.client.force_login(self.person)
        self.principal = make_principal(self.tenant)

    def url(self, path: str = "") -> str:
        return f"/t/{self.tenant.slug}/settings/{path}"

    def see(self, path: str = "", status: int = 200) -> str:
        answer = self.client.get(self.url(path))
        assert answer.status_code == status
        return answer.content.decode()

    def act(self, path: str, status: int = 200, **given: Any) -> Any:
        answer = self.client.post(self.url(path), given)
        assert answer.status_code == status, answer.content
        return answer.json() if status != 404 else None

    def audited(self) -> list[str]:
        return list(AuditEntry.objects.filter(tenant=self.tenant).order_by("id").values_list("action", flat=True))


@pytest.fixture
def office() -> Office:
    return Office()


def wrong(told: Any) -> dict[str, str]:
    return {one["pointer"]: one["problem"] for one in told["errors"]}


def test_members_come_change_and_go_but_not_the_last_owner(office: Office) -> None:
    other = make_member(make_tenant())
    mine, theirs = office.person.username, other.username
    office.act("members/add", username=theirs, role="viewer")
    assert theirs in office.see("members")
    office.act(f"members/{theirs}/role", role="operator")
    assert Membership.objects.get(tenant=office.tenant, user=other).role == Role.OPERATOR
    for path, given in ((f"members/{mine}/role", {"role": "viewer"}), (f"members/{mine}/remove", {})):
        assert "last owner" in office.act(path, 409, **given)["problem"]
    html = office.see("members")
    assert "the last owner" in html
    assert f"members/{mine}/" not in html
    office.act(f"members/{theirs}/remove")
    assert office.audited() == ["membership.create", "membership.change", "membership.delete"]
    assert wrong(office.act("members/add", 422, username="nobody", role="viewer"))["/username"].startswith("“nobody”")
    assert "viewer" in wrong(office.act("members/add", 422, username=theirs, role="king"))["/role"]


def test_a_key_is_shown_once_and_refused_when_it_is_revoked(office: Office) -> None:
    form: dict[str, Any] = {"name": "deploy", "role": "operator", "life": "30", "key": "c1"}
    form["scopes"] = ["tasks", "dags"]
    told = office.act("keys/make", **form)
    key = ApiKey.objects.get(tenant=office.tenant)
    assert (key.role, key.scopes) == ("operator", ["dags", "tasks"])
    assert key.expires_at is not None
    assert timedelta(days=29) < key.expires_at - now() < timedelta(days=31)
    assert "never" in office.see("keys")
    assert keys.principal_of(told["key"], now=now()) is not None
    html = office.see("keys")
    assert key.prefix in html
    assert told["key"] not in html
    assert "key" not in office.act("keys/make", **form)
    assert "was done already" in office.act("keys/make", 409, **form | {"scopes": []})["problem"]
    assert ApiKey.objects.filter(tenant=office.tenant).count() == 1
    office.act(f"keys/{key.id}/revoke")
    assert keys.principal_of(told["key"], now=now()) is None
    assert "revoked" in office.see("keys")
    assert office.audited() == ["api_key.create", "api_key.revoke"]


def test_a_keys_last_use_is_written_once_in_five_minutes(office: Office) -> None:
    text = keys.issue(tenant=office.tenant, name="ci")
    instant = now()
    keys.principal_of(text, now=instant)
    key = ApiKey.objects.get(tenant=office.tenant)
    assert key.last_used_at == instant
    with CaptureQueriesContext(connection) as queries:
        keys.principal_of(text, now=instant + timedelta(minutes=4))
    assert not [q for q in queries if q["sql"].startswith("UPDATE")]
    keys.principal_of(text, now=instant + timedelta(minutes=6))
    key.refresh_from_db()
    assert key.last_used_at == instant + timedelta(minutes=6)


def test_a_wrong_key_says_which_field_and_what_is_legal(office: Office) -> None:
    given: dict[str, Any] = {"name": "a", "role": "viewer"}
    assert "1 to 100" in wrong(office.act("keys/make", 422, role="viewer", life="30"))["/name"]
    assert "tasks" in wrong(office.act("keys/make", 422, **given, scopes=["planets"]))["/scopes/0"]
    for day, words in (("2020-01-01", "in the past"), ("soon", "is no day"), ("9999-12-31", "is no day")):
        assert words in wrong(office.act("keys/make", 422, **given, life="on", expires_at=day))["/expires_at"]
    assert "legal: 7," in wrong(office.act("keys/make", 422, **given, life="aeon"))["/life"]
    assert not ApiKey.objects.filter(tenant=office.tenant).exists()


def test_secrets_go_in_are_replaced_and_stay_while_something_needs_them(office: Office) -> None:
    office.act("secrets/make", name="TOKEN", store="database", value=f"{VALUE}\r\nsecond")
    first = Secret.objects.get(tenant=office.tenant)
    handler = {"type": "webhook", "url": "https://example.com/", "headers": {"A": "Bearer {{secret:TOKEN}}"}}
    task = make_task(office.principal, name="reports", handler=handler)
    html = office.see("secrets")
    assert f"/tasks/{task.id}/" in html
    assert "in use: change what refers to it first" in html
    assert VALUE not in html
    told = office.act("secrets/TOKEN/delete", 409)
    assert told["used_by"] == [{"name": "task reports", "address": f"/t/{office.tenant.slug}/tasks/{task.id}/"}]
    office.act("secrets/TOKEN/replace", store="database", value="other")
    assert Secret.objects.get(tenant=office.tenant).sealed != first.sealed
    office.act("secrets/make", name="FREE", store="database", value=VALUE)
    office.act("secrets/FREE/delete")
    assert not Secret.objects.filter(tenant=office.tenant, name="FREE").exists()
    told = wrong(office.act("secrets/make", 422, name="TOKEN 2", store="database", value=VALUE))
    assert told["/name"].startswith("“TOKEN 2”")
    assert "/value" in wrong(office.act("secrets/make", 422, name="T", store="database"))
    assert "/store" in wrong(office.act("secrets/make", 422, name="T", store="cellar"))
    assert "/name" in wrong(office.act("secrets/make", 409, name="TOKEN", store="database", value=VALUE))
    acts = ["secret.create", "task.create", "secret.replace", "secret.create", "secret.delete"]
    assert office.audited() == acts
    assert VALUE not in str(list(AuditEntry.objects.values_list("detail", flat=True)))


def test_lines_of_a_value_are_kept_as_unix_writes_them(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {}
    monkeypatch.setattr(secret_store, "create", lambda *, given, **_: kept.update(given))
    office.act("secrets/make", name="PEM", store="database", value="a\r\nb\r\n")
    assert kept["value"] == "a\nb\n"


def test_channels_are_made_changed_and_deleted(office: Office) -> None:
    office.act("channels/make", kind="email", name="data-team", to="a@example.com\nb@example.com")
    office.act("channels/make", kind="pagerduty", name="night", routing_key="K" * 32, severity="critical")
    mail = NotificationChannel.objects.get(tenant=office.tenant, kind="email")
    assert mail.config == {"to": ["a@example.com", "b@example.com"]}
    pager = NotificationChannel.objects.get(tenant=office.tenant, kind="pagerduty")
    office.act(f"channels/{pager.id}/replace", severity="warning")
    pager.refresh_from_db()
    assert (pager.config, channels.opened(pager)) == ({"severity": "warning"}, {"routing_key": "K" * 32})
    task = make_task(office.principal, notifications={"on_failure": ["email://data-team"]})
    html = office.see("channels")
    assert f"/tasks/{task.id}/" in html
    assert "K" * 32 not in html
    assert office.act(f"channels/{mail.id}/delete", 409)["used_by"][0]["name"].startswith("task ")
    office.act(f"channels/{pager.id}/delete")
    told = wrong(office.act("channels/make", 422, kind="email", name="x", to="nobody"))
    assert told == {"/config/to": "has an element that is no address; legal: a list of 1 to 50 addresses"}
    assert set(wrong(office.act("channels/make", 422, kind="owl", name=""))) == {"/kind", "/name"}
    assert office.audited()[-1] == "channel.delete"


def test_limits_show_what_is_used_and_what_waits(office: Office) -> None:
    Tenant.objects.filter(id=office.tenant.id).update(
        executions_per_hour=10, max_concurrent_workers=4, compute_minutes_per_month=None
    )
    Ledger(office.tenant).add(Status.RUNNING)
    Ledger(office.tenant).add(Status.PRELOADED, task="waits")
    usage.add(postgres.raw(connection), {(office.tenant.id.bytes, int(Use.EXECUTIONS)): 10})
    found = {limit.name: limit for limit in limits.read(office.principal, Tenant.objects.get(id=office.tenant.id))}
    assert (found["executions_per_hour"].level, found["executions_per_hour"].holds) == ("over", True)
    assert (found["max_concurrent_workers"].used, found["max_concurrent_workers"].percent) == (1, "25 %")
    assert found["compute_minutes_per_month"].most is None
    html = office.see("limits")
    assert "reached: work waits" in html
    assert f'/t/{office.tenant.slug}/executions/?state=preloaded"><u>1 of the newest 2 that were due wait' in html


def test_circuits_are_closed_by_operators() -> None:
    office = Office(Role.OPERATOR)
    circuit = CircuitBreaker.objects.create(
        tenant=office.tenant, key="webhook:h:443", changed_at=now(), opened_at=now(),
        quarantine_until=now() + timedelta(hours=1), last_error=HOSTILE,
    )  # fmt: skip
    html = office.see()
    assert "webhook:h:443" in html
    assert "<img" not in html
    office.act(f"circuits/{circuit.pk}/close")
    assert office.audited() == ["circuit.reset"]
    assert "data-act=" not in office.see()


ACTS: dict[str, Role] = {
    "members/add": Role.OWNER,
    "members/{member}/role": Role.OWNER,
    "members/{member}/remove": Role.OWNER,
    "keys/make": Role.OWNER,
    "keys/{key}/revoke": Role.OWNER,
    "secrets/make": Role.OPERATOR,
    "secrets/TOKEN/replace": Role.OPERATOR,
    "secrets/TOKEN/delete": Role.OPERATOR,
    "channels/make": Role.OPERATOR,
    "channels/{channel}/replace": Role.OPERATOR,
    "channels/{channel}/delete": Role.OPERATOR,
    "circuits/{circuit}/close": Role.OPERATOR,
}


def furnished() -> tuple[Office, dict[str, Any]]:
    """With one of everything."""
    office = Office()
    keys.issue(tenant=office.tenant, name="ci")
    secret_store.create(principal=office.principal, name="TOKEN", given={"value": VALUE})
    kind = {"kind": "email", "name": "us", "given": {"to": ["a@example.com"]}}
    channel = channels.create(principal=office.principal, **kind)
    circuit = CircuitBreaker.objects.create(tenant=office.tenant, key="k", changed_at=now(), opened_at=now())
    return office, {
        "member": make_member(office.tenant).username,
        "key": ApiKey.objects.get(tenant=office.tenant).id,
        "channel": channel.id,
        "circuit": circuit.pk,
    }


def test_roles_and_tenants_are_walls() -> None:
    office, named = furnished()
    before = len(office.audited())
    stranger, viewer, operator = Office(), Office(Role.VIEWER, office.tenant), Office(Role.OPERATOR, office.tenant)
    for path, needed in ACTS.items():
        path = path.format(**named)
        viewer.act(path, 403)
        if needed is Role.OWNER:
            operator.act(path, 403)
        if not path.endswith(("/make", "/add")):
            stranger.act(path, 404, **({"role": "viewer"} if path.endswith("/role") else {}))
        assert stranger.client.post(office.url(path)).status_code == 404
        assert operator.client.get(office.url(path)).status_code == 404
    assert len(office.audited()) == before
    for tab in TABS:
        assert stranger.client.get(office.url(tab)).status_code == 404
        html = viewer.see(tab, 403 if tab == "keys" else 200)
        assert not re.search(r"data-(act|opens|sets|form)=", html), tab
    assert "This needs the role owner" in operator.see("keys", 403)
    assert 'data-opens="make"' in operator.see("secrets")
    assert 'data-opens="make"' not in operator.see("members")


def test_a_click_is_heard_once_and_a_forged_one_never(office: Office) -> None:
    given: dict[str, Any] = {"name": "T", "store": "database", "value": VALUE, "key": "click"}
    office.act("secrets/make", **given)
    assert office.act("secrets/make", **given)["said"] == "done already"
    assert office.audited() == ["secret.create"]
    wrong_one = {**given, "key": "other", "name": "!"}
    office.act("secrets/make", 422, **wrong_one)
    office.act("secrets/make", **{**wrong_one, "name": "U"})
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(office.person)
    assert strict.post(office.url("secrets/make"), {**given, "key": "x", "name": "V"}).status_code == 403


def test_fields_that_are_none_are_refused(office: Office) -> None:
    told = wrong(office.act("secrets/make", 422, name="T", store="database", value=VALUE, sealed="x"))
    assert told["/sealed"].startswith("is no field here; legal: key_of_vault, name")
    office.act("members/add", 422, username=["a", "b"], role="viewer")
    assert office.audited() == []


def test_hostile_text_is_text(office: Office) -> None:
    named = {"tenant": office.tenant, "created_by": HOSTILE, "updated_by": HOSTILE}
    ApiKey.objects.create(tenant=office.tenant, name=HOSTILE[:100], prefix="cw_<b>", key_hash=secrets.token_hex(32))
    Secret.objects.create(name="<b>", store="vault", place={"path": HOSTILE, "key": "k"}, **named)
    NotificationChannel.objects.create(kind="email", name="<b>", config={"to": [HOSTILE]}, **named)
    Tenant.objects.filter(id=office.tenant.id).update(name=HOSTILE)
    office.person.username = HOSTILE[:100]
    office.person.save()
    for tab in ("", "members", "keys", "secrets", "channels"):
        html = office.see(tab)
        assert "&lt;" in html, tab
        assert "<img" not in html
        assert "<b>" not in html.replace("<b></b>", "").replace('<b class="mono">', "") or tab in ("limits",), tab
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=", html)


def test_pages_cost_the_same_however_much_is_on_them(office: Office) -> None:
    def grow(count: int) -> None:
        for _ in range(count):
            word = secrets.token_hex(4)
            keys.issue(tenant=office.tenant, name=word)
            make_member(office.tenant)
            secret_store.create(principal=office.principal, name=f"S{word}", given={"value": VALUE})
            channels.create(principal=office.principal, kind="email", name=word, given={"to": ["a@example.com"]})
            CircuitBreaker.objects.create(tenant=office.tenant, key=word, changed_at=now())
            headers = {"A": f"{{{{secret:S{word}}}}}"}
            make_task(
                office.principal,
                handler={"type": "webhook", "url": "https://example.com/", "headers": headers},
                notifications={"on_failure": [f"email://{word}"]},
            )

    def cost() -> list[int]:
        found = []
        for tab in TABS:
            with CaptureQueriesContext(connection) as queries:
                office.see(tab)
            found.append(len(queries))
        return found

    grow(1)
    first = cost()
    grow(3)
    assert cost() == first
    assert max(first) <= 14, first


def test_text_has_no_nul(office: Office) -> None:
    assert "/username" in wrong(office.act("members/add", 422, username="a\0", role="viewer"))
    told = office.act("keys/make", 422, name="deploy", role="viewer", key="a\0")
    assert [one["field"] for one in told["errors"]] == ["key"]
