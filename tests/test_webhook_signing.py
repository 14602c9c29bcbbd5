"""Webhooks are signed after Standard Webhooks with the tenant's secret, which only its owners ever see."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client

from apps.executions.states import Outcome
from apps.tenants.models import AuditEntry, Role, Secret
from apps.tenants.secret_names import WEBHOOK, WEBHOOK_BEFORE
from apps.worker.attempt_secrets import AttemptSecrets, Needs
from apps.worker.handlers.signing import sign
from apps.worker.handlers.webhook import _timeout
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.encryption import seal
from tests.factories import make_api, make_task, problem
from tests.stack import Ledger
from tests.test_handlers_webhook import Server, runner, server, webhook  # noqa: F401 - fixtures

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD = "whsec_" + base64.b64encode(b"the one before").decode()


def signature_of(secret: str, text: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def test_the_example_of_the_specification() -> None:
    headers = sign(
        [SECRET], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=b'{"test": 2432232314}'
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert sign([], message_id="a", timestamp=1, body=b"") == {}


@pytest.mark.parametrize(("method", "body"), [("POST", None), ("POST", "plain ü"), ("GET", None)])
def test_a_request_is_signed_by_both_secrets_of_a_rotation(
    runner: object,  # noqa: F811
    server: Server,  # noqa: F811
    method: str,
    body: str | None,
) -> None:
    given = replace(webhook(f"{server.url}/ok", method=method, body=body), webhook_secrets=(SECRET, OLD))
    before = int(SYSTEM_CLOCK.time())
    (result,) = runner.run(given)  # type: ignore[attr-defined]
    assert result.outcome is Outcome.SUCCEEDED
    asked = server.seen[-1]
    headers = {name.lower(): value for name, value in asked["headers"].items()}
    assert headers["webhook-id"] == str(UUID(bytes=given.execution_id))
    assert before <= int(headers["webhook-timestamp"]) <= before + 60
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + asked["body"]
    assert headers["webhook-signature"].split() == [signature_of(SECRET, text), signature_of(OLD, text)]


def test_another_host_gets_no_signature(runner: object, server: Server) -> None:  # noqa: F811
    other = Server()
    try:
        given = replace(webhook(f"{server.url}/redirect/{other.url}/ok"), webhook_secrets=(SECRET,))
        runner.run(given)  # type: ignore[attr-defined]
        assert not any(name.lower().startswith("webhook-") for name in other.seen[-1]["headers"])
    finally:
        other.shutdown()
        other.server_close()


def test_the_answer_has_a_time_of_its_own(runner: object, server: Server) -> None:  # noqa: F811
    (result,) = runner.run(webhook(f"{server.url}/hang", read_timeout_seconds=0.2))  # type: ignore[attr-defined]
    assert result.outcome is Outcome.FAILED
    assert result.error["type"] == "WebhookConnectionError"
    assert (result.error["class"], result.error["fate"]) == ("timeout", "unknown"), "it may have been acted on"
    assert (_timeout({}).connect, _timeout({"connect_timeout_seconds": 2}).connect) == (10, 2)


def test_a_worker_reads_the_secrets_in_force(ledger: Ledger) -> None:
    owner, tenant = str(UUID(bytes=ledger.tenant)), ledger.tenant

    def read() -> tuple[str, ...]:
        needs = Needs.of({"type": "webhook"})
        assert needs is not None
        secrets = AttemptSecrets()
        secrets.load(ledger.connection, [(tenant, needs)])
        return secrets.give(tenant, needs).signing

    def put(name: str, value: str, until: str | None = None) -> None:
        query = (
            "INSERT INTO tenant_secrets"
            " (tenant_id, name, sealed, valid_until, created_at, created_by, updated_at, updated_by)"
            " VALUES (%s, %s, %s, now() + %s::interval, now(), '', now(), '') ON CONFLICT (tenant_id, name)"
            " DO UPDATE SET valid_until = excluded.valid_until"
        )
        ledger.connection.execute(query, (owner, name, seal(value, owner, name), until))

    assert read() == (), "nobody has asked for it yet, so nobody could check a signature"
    put(WEBHOOK, SECRET)
    assert read() == (SECRET,)
    put(WEBHOOK_BEFORE, OLD, "30 s")
    assert read() == (SECRET, OLD)
    put(WEBHOOK_BEFORE, OLD, "-1 s")
    assert read() == (SECRET,)


@pytest.mark.django_db
def test_owners_see_and_change_it_and_each_look_is_recorded() -> None:
    owner = make_api(role=Role.OWNER)
    first = owner.get("/webhook-secret")
    assert first["Cache-Control"] == "no-store"
    secret = first.json()["secret"]
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert first.json()["secret_before"] is None
    rotated = owner.post("/webhook-secret/rotate").json()
    assert rotated["secret"] != secret
    assert rotated["secret_before"] == secret
    past = SYSTEM_CLOCK.now() - timedelta(days=2)
    Secret.objects.filter(tenant=owner.tenant, name=WEBHOOK_BEFORE).update(valid_until=past)
    assert owner.get("/webhook-secret").json()["secret_before"] is None
    actions = list(AuditEntry.objects.filter(tenant=owner.tenant, action__startswith="webhook_secret"))
    assert sorted(entry.action.partition(".")[2] for entry in actions) == ["rotate", "show", "show"]
    assert "whsec_" not in json.dumps([entry.detail for entry in actions])


@pytest.mark.django_db
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_others_do_not(role: Role) -> None:
    api = make_api(role=role)
    problem(api.get("/webhook-secret"), 403)
    problem(api.post("/webhook-secret/rotate"), 403)


@pytest.mark.django_db
def test_every_tenant_has_its_own_and_no_page_has_any(admin_client: Client) -> None:
    one, two = make_api(role=Role.OWNER), make_api(role=Role.OWNER)
    secrets = [api.get("/webhook-secret").json()["secret"] for api in (one, two)]
    assert secrets[0] != secrets[1]
    assert one.get("/webhook-secret").json()["secret"] == secrets[0], "made once"
    task = make_task(one.principal)
    pages = [admin_client.get(f"/admin/tenants/tenant/{one.tenant.id}/change/")]
    pages += [admin_client.get("/admin/tenants/secret/"), one.get(f"/tasks/{task.id}"), one.get("/secrets")]
    for page in pages:
        assert page.status_code == 200
        assert "whsec_" not in page.content.decode()
        assert ":webhook" not in page.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["Webhook-Id", "webhook-timestamp", "WEBHOOK-SIGNATURE"])
def test_a_task_cannot_set_them_itself(name: str) -> None:
    handler = {"type": "webhook", "url": "https://8.8.8.8/", "headers": {name: "x"}}
    document = {"name": "a", "schedule": {"type": "manual"}, "handler": handler}
    body = problem(make_api().post("/tasks", document), 422)
    assert [error["pointer"] for error in body["errors"]] == [f"/handler/headers/{name}"]
