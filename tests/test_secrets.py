"""Secrets: written over REST, sealed at rest, opened by workers alone, never seen again."""

import base64
import hashlib
import html
import json
import time
from dataclasses import replace
from io import StringIO
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from apps.definitions.confidential import MASK
from apps.executions import store
from apps.executions.failure import FailureClass, circuit_letter, classify
from apps.executions.handler_spec import validate_handler
from apps.executions.models import IdempotencyKey
from apps.executions.rows import Claimed
from apps.executions.states import Outcome, Status
from apps.tenants import secret_store
from apps.tenants.models import AuditEntry, Role, Secret
from apps.worker.attempt_secrets import values_to_mask
from apps.worker.hiding import hide
from apps.worker.jobs import Assignment
from apps.worker.versions import Versions
from chronoweb.runtime import encryption
from chronoweb.runtime.encryption import Unreadable, reseal, seal, unseal
from chronoweb.runtime.errors import ConfigurationError, InvalidInputs
from tests.factories import document, make_api, make_principal, pointers, problem
from tests.runner_tools import assignment, watched
from tests.stack import EPOCH, Ledger
from tests.test_handlers_webhook import Server, server  # noqa: F401 - a fixture

VALUE = 'tr0ub4dor&3 "quoted" / ümlaut'
TOKEN = EPOCH << 32


# ---- sealing ------------------------------------------------------------------------------------------------------


def test_it_opens_only_where_it_belongs_and_after_keys_have_changed(settings: Settings) -> None:
    sealed = seal(VALUE, "tenant", "NAME")
    assert VALUE not in sealed
    assert VALUE not in base64.urlsafe_b64decode(sealed).decode("latin-1")
    assert unseal(sealed, "tenant", "NAME") == VALUE
    for context in (("other", "NAME"), ("tenant", "OTHER"), ("tenant",)):
        with pytest.raises(Unreadable):
            unseal(sealed, *context)
    old, new = settings.SECRET_ENCRYPTION_KEYS, [Fernet.generate_key().decode()]
    settings.SECRET_ENCRYPTION_KEYS = new + old
    sealed = reseal(sealed)
    settings.SECRET_ENCRYPTION_KEYS = new
    assert unseal(sealed, "tenant", "NAME") == VALUE
    settings.SECRET_ENCRYPTION_KEYS = old
    with pytest.raises(Unreadable):
        unseal(sealed, "tenant", "NAME")


@pytest.mark.parametrize("keys", [[], ["nonsense"], ["", "x" * 44]])
def test_without_a_good_key_nothing_is_sealed(settings: Settings, keys: list[str]) -> None:
    settings.SECRET_ENCRYPTION_KEYS = keys
    with pytest.raises(ConfigurationError, match="SECRET_ENCRYPTION_KEYS"):
        seal("x")


@pytest.mark.django_db
def test_everything_is_sealed_anew_by_a_command(settings: Settings) -> None:
    owner = make_api(role=Role.OWNER)
    owner.post("/secrets", {"name": "A", "value": VALUE})
    secret = owner.get("/webhook-secret").json()["secret"]
    old, new = list(settings.SECRET_ENCRYPTION_KEYS), [Fernet.generate_key().decode()]
    settings.SECRET_ENCRYPTION_KEYS = new + old
    out = StringIO()
    call_command("reseal_secrets", stdout=out)
    assert "2 secrets are sealed" in out.getvalue()
    settings.SECRET_ENCRYPTION_KEYS = new
    assert owner.get("/webhook-secret").json()["secret"] == secret
    settings.SECRET_ENCRYPTION_KEYS = old
    with pytest.raises(CommandError, match=f"{owner.tenant.slug}/A"):
        call_command("reseal_secrets", stdout=out)


# ---- over REST ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_is_written_and_never_read() -> None:
    api = make_api()
    made = api.post("/secrets", {"name": "PAY_TOKEN", "value": VALUE})
    assert made.status_code == 201
    assert made["Location"] == "/api/v1/secrets/PAY_TOKEN"
    assert set(made.json()) == {"name", "store", "created_at", "created_by", "updated_at", "updated_by"}
    problem(api.post("/secrets", {"name": "PAY_TOKEN", "value": "x"}), 409)
    before = Secret.objects.get(tenant=api.tenant).sealed
    assert api.call("put", "/secrets/PAY_TOKEN", {"value": VALUE + "2"}).status_code == 200
    row = Secret.objects.get(tenant=api.tenant)
    assert row.sealed != before
    assert unseal(row.sealed, str(api.tenant.id), "PAY_TOKEN") == VALUE + "2"
    listed = api.get("/secrets")
    assert [item["name"] for item in listed.json()["items"]] == ["PAY_TOKEN"]
    assert listed.json()["items"][0]["updated_by"].startswith("key:")
    shown = api.get("/secrets/PAY_TOKEN")
    assert shown.status_code == 200
    assert api.call("delete", "/secrets/PAY_TOKEN").status_code == 204
    for method, body in (("get", None), ("put", {"value": "x"}), ("delete", None)):
        problem(api.call(method, "/secrets/PAY_TOKEN", body), 404)
    entries = AuditEntry.objects.filter(tenant=api.tenant, target_type="secret").order_by("id")
    assert [entry.action for entry in entries] == ["secret.create", "secret.replace", "secret.delete"]
    assert {entry.target_id for entry in entries} == {"PAY_TOKEN"}
    assert VALUE not in made.content.decode() + listed.content.decode() + shown.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"value": "hush-hush"}, {"/name"}),
        ({"name": "1A", "value": "hush-hush"}, {"/name"}),
        ({"name": ":webhook", "value": "hush-hush"}, {"/name"}),
        ({"name": "A\n", "value": "hush-hush"}, {"/name"}),
        ({"name": "A" * 64, "value": "hush-hush"}, {"/name"}),
        ({"name": ["A"], "value": "hush-hush"}, {"/name"}),
        ({"name": "A", "value": ""}, {"/value"}),
        ({"name": "A", "value": ["hush-hush"]}, {"/value"}),
        ({"name": "A", "value": "hush-hush" * 4000}, {"/value"}),
        ({"name": "A", "vaule": "hush-hush"}, {"/vaule"}),
        (["hush-hush"], {""}),
    ],
)
def test_what_is_wrong_is_said_without_the_value(body: Any, expected: set[str]) -> None:
    refused = make_api().post("/secrets", body)
    assert pointers(problem(refused, 422)) == expected
    assert "hush-hush" not in refused.content.decode()


@pytest.mark.django_db
def test_a_nul_character_is_refused_without_the_rest() -> None:
    refused = make_api().post("/secrets", b'{"name": "A", "value": "hush-hush\\u0000"}')
    problem(refused, 422)
    assert "hush-hush" not in refused.content.decode()


@pytest.mark.django_db
def test_a_request_that_is_repeated_is_known_by_no_hash_that_could_be_guessed() -> None:
    api = make_api()
    body, key = {"name": "A", "value": "1234"}, {"Idempotency-Key": "k"}
    first, second = (api.post("/secrets", body, headers=key) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert second["Idempotent-Replayed"] == "true"
    problem(api.post("/secrets", {**body, "value": "1235"}, headers=key), 422)
    stored = IdempotencyKey.objects.get(tenant_id=api.tenant.id)
    guessed = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    parts = (b"POST", b"/api/v1/secrets", guessed)
    total = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
    assert stored.body_hash != total.hexdigest()


@pytest.mark.django_db
def test_viewers_see_names_and_write_nothing() -> None:
    owner = make_api()
    owner.post("/secrets", {"name": "A", "value": "v"})
    viewer = make_api(owner.tenant, role=Role.VIEWER)
    assert [item["name"] for item in viewer.get("/secrets").json()["items"]] == ["A"]
    problem(viewer.post("/secrets", {"name": "B", "value": "v"}), 403)
    problem(viewer.call("put", "/secrets/A", {"value": "v"}), 403)
    problem(viewer.call("delete", "/secrets/A"), 403)


@pytest.mark.django_db
def test_the_admin_shows_names_alone(admin_client: Client) -> None:
    principal = make_principal()
    row = secret_store.create(principal=principal, name="A", given={"value": VALUE})
    for path in ("", f"{row.id}/change/"):
        page = admin_client.get(f"/admin/tenants/secret/{path}")
        assert page.status_code == 200
        assert row.sealed not in page.content.decode()


# ---- in definitions -----------------------------------------------------------------------------------------------

WEBHOOK = {"type": "webhook", "url": "https://8.8.8.8/"}


def with_headers(**headers: Any) -> dict[str, Any]:
    return document(handler={**WEBHOOK, "headers": headers})


@pytest.mark.django_db
def test_an_unknown_secret_is_refused_by_its_name() -> None:
    api, other = make_api(), make_api()
    other.post("/secrets", {"name": "THEIRS", "value": "v"})
    refused = problem(api.post("/tasks", with_headers(Authorization={"secret": "THEIRS"})), 422)
    [error] = refused["errors"]
    assert error["pointer"] == "/handler/headers/Authorization"
    assert "THEIRS" in error["detail"]
    assert error["value"] == MASK, "what stands in a header may be a credential"
    api.post("/secrets", {"name": "OURS", "value": "v"})
    made = api.post("/tasks", with_headers(Authorization={"secret": "OURS", "prefix": "Bearer "}))
    assert made.status_code == 201, made.content
    path = f"/tasks/{made.json()['id']}"
    assert api.get(path).json()["handler"]["headers"] == {"Authorization": "Bearer {{secret:OURS}}"}
    environment = {"type": "command", "argv": ["true"], "environment": {"A": {"secret": "GONE"}}}
    edited = problem(api.call("patch", path, {"handler": environment}), 422)
    assert pointers(edited) == {"/handler/environment/A"}
    assert api.call("patch", path, {"description": "its handler stays as it was"}).status_code == 200


@pytest.mark.parametrize(
    ("reference", "pointer"),
    [
        ({}, ""),
        ({"secret": 1}, "/secret"),
        ({"secret": "a b"}, "/secret"),
        ({"secret": ":webhook"}, "/secret"),
        ({"secret": "A", "prefix": 1}, "/prefix"),
        ({"secret": "A", "prefix": "a\r\nb"}, "/prefix"),
        ({"secret": "A", "default": "x"}, "/default"),
    ],
)
@pytest.mark.parametrize(
    ("handler", "part"),
    [
        (WEBHOOK, "headers"),
        ({"type": "command", "argv": ["true"]}, "environment"),
        ({"type": "container", "image": "a"}, "environment"),
    ],
)
def test_a_reference_has_a_form(handler: dict[str, Any], part: str, reference: Any, pointer: str) -> None:
    with pytest.raises(InvalidInputs) as refused:
        validate_handler({**handler, part: {"A": reference}})
    assert {error.pointer for error in refused.value.errors} == {f"/{part}/A{pointer}"}
    good = validate_handler({**handler, part: {"A": {"secret": "B"}}})
    assert good[part] == {"A": "{{secret:B}}"}


# ---- in workers ---------------------------------------------------------------------------------------------------


def put(ledger: Ledger, name: str, value: str) -> None:
    ledger.connection.execute(
        "INSERT INTO tenant_secrets (tenant_id, name, sealed, created_at, created_by, updated_at, updated_by)"
        " VALUES (encode(%s, 'hex')::uuid, %s, %s, now(), '', now(), '')"
        " ON CONFLICT (tenant_id, name) DO UPDATE SET sealed = excluded.sealed",
        (ledger.tenant, name, seal(value, str(UUID(bytes=ledger.tenant)), name)),
    )


def command(script: str, **environment: Any) -> dict[str, Any]:
    return {"type": "command", "argv": ["/bin/sh", "-c", script], "environment": environment}


class Counted:
    """A connection that counts what is asked of it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        self.asked += name in ("execute", "cursor")
        return getattr(self._connection, name)


def assigned(ledger: Ledger, versions: Versions, *wanted: int) -> tuple[list[Assignment], int]:
    """Assignments of these versions, made as the claimer makes them; how many queries the secrets took."""
    claimed: list[Claimed] = []
    for version in wanted:
        ledger.version = version
        [identity] = ledger.add(1, status=Status.DISPATCHED, token=TOKEN)
        claimed += store.claim(ledger.connection, [identity], [TOKEN], worker_id=1)
    versions.load(ledger.connection, set(wanted))
    counted: Any = Counted(ledger.connection)
    versions.load_secrets(counted, claimed)
    return [versions.assignment(one) for one in claimed], counted.asked


def test_a_batch_takes_one_query_and_none_without_secrets(ledger: Ledger) -> None:
    put(ledger, "A", "first value")
    put(ledger, "B", "second value")
    plain = ledger.define()
    one = ledger.define(handler=command("true", X={"secret": "A"}))
    two = ledger.define(handler=command("true", X={"secret": "A"}, Y={"secret": "B", "prefix": "v="}, Z="text"))
    versions = Versions()
    made, asked = assigned(ledger, versions, plain, plain)
    assert ([a.secrets for a in made], asked) == ([{}, {}], 0)
    made, asked = assigned(ledger, versions, one, two, plain, one)
    assert asked == 1
    assert made[1].secrets == {"A": "first value", "B": "second value"}
    assert values_to_mask(made[1]) == ("first value", "second value")
    assert "value" not in repr(made[1])
    assert made[1].handler["environment"]["Y"] == {"secret": "B", "prefix": "v="}, "the handler keeps the reference"
    assert assigned(ledger, versions, two)[1] == 0, "known for a few seconds"


@pytest.mark.parametrize(
    ("value", "kind", "permanent"),
    [
        (None, "SecretMissing", True),
        ("lost", "SecretUnreadable", False),
        ("without any key", "SecretUnreadable", False),
        ("line\nline", "SecretUnfit", True),
    ],
)
def test_what_cannot_be_given_fails_and_is_named(
    ledger: Ledger, value: str | None, kind: str, permanent: bool, settings: Settings
) -> None:
    if value == "lost":
        keys = settings.SECRET_ENCRYPTION_KEYS
        settings.SECRET_ENCRYPTION_KEYS = [encryption.new_key()]
        put(ledger, "GONE", value)
        settings.SECRET_ENCRYPTION_KEYS = keys
    elif value is not None:
        put(ledger, "GONE", value)
    if value == "without any key":
        settings.SECRET_ENCRYPTION_KEYS = []  # of this worker: it must not die of it, with all that it runs
    handler = {"type": "webhook", "url": "http://127.0.0.1:1/", "headers": {"X": {"secret": "GONE"}}}
    [made], _ = assigned(ledger, Versions(), ledger.define(handler=handler))
    with watched() as runner:
        [result] = runner.run(made)
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == (kind, permanent)
    assert "GONE" in result.error["message"]
    assert "headers/X" in result.error["message"]
    assert "line" not in result.error["message"]
    failure = classify(result.outcome, result.error)
    assert failure is (FailureClass.PERMANENT if permanent else FailureClass.TRANSIENT)
    assert circuit_letter(failure, result.error) == "", "the receiver was not asked"


def test_a_command_gets_it_and_its_output_does_not_show_it() -> None:
    script = """
        echo "raw $TOKEN"; printf '{"json": "%s"}\\n' "$ESCAPED"
        printf 'user:%s' "$TOKEN" | base64 -w0; echo; printf %s "$TOKEN" | sha256sum; exit "$CODE"
    """
    secrets = {"TOKEN": VALUE, "ESCAPED": json.dumps(VALUE)[1:-1]}
    environment = {"TOKEN": {"secret": "TOKEN"}, "ESCAPED": {"secret": "ESCAPED"}}
    with watched() as runner:
        for code in ("0", "3"):
            handler = command(script, **environment, CODE=code)
            [result] = runner.run(replace(assignment(handler), secrets=secrets))
            text = str(json.loads(result.result_json) if result.result_json else result.error)
            assert hashlib.sha256(VALUE.encode()).hexdigest() in text, "it was there"
            forms = (VALUE, json.dumps(VALUE)[1:-1], base64.b64encode(b"user:" + VALUE.encode()).decode()[8:32])
            assert not [form for form in forms if form in text]
            assert "raw ***" in text


def test_a_webhook_sends_it_and_keeps_it_from_other_hosts(server: Server) -> None:  # noqa: F811
    other = Server()
    handler = {
        "type": "webhook",
        "url": f"{server.url}/redirect/{other.url}/ok",
        "headers": {"Authorization": {"secret": "TOKEN", "prefix": "Bearer "}, "X-Plain": "a"},
    }
    try:
        with watched(allowed_networks=["127.0.0.0/8"]) as runner:
            [result] = runner.run(replace(assignment(handler), secrets={"TOKEN": "the-token"}))
        assert result.outcome is Outcome.SUCCEEDED
        assert server.seen[-1]["headers"]["Authorization"] == "Bearer the-token"
        assert "Authorization" not in other.seen[-1]["headers"]
    finally:
        other.shutdown()
        other.server_close()


@pytest.mark.parametrize(
    "text",
    [
        f"a {VALUE} b",
        json.dumps({"a": VALUE}),
        f"https://x/?q={quote(VALUE, safe='')}",
        base64.b64encode(b"a" + VALUE.encode()).decode(),
        base64.b64encode(b"ab" + VALUE.encode() + b"c").decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
        "…" + VALUE[5:] + " and more",
        "before it " + VALUE[:15] + "…",
        "before it " + VALUE[:-1],
        json.dumps({"body": json.dumps({"again": json.dumps(VALUE)})}),
        json.dumps(quote(VALUE, safe="").lower()),
        html.escape(json.dumps(VALUE)),
        f"percent twice: {quote(quote(VALUE, safe=''))}",
        VALUE.encode().hex(),
    ],
)
def test_it_is_found_in_its_forms_and_where_a_text_was_cut(text: str) -> None:
    result, error = hide((VALUE,), json.dumps({"a": [text], text: 1}).encode(), {"message": text, "status": 5})
    shown = f"{result!r} {error}"
    assert "***" in error["message"]
    assert error["status"] == 5
    for part in (VALUE[6:14], quote(VALUE)[:12], base64.b64encode(VALUE.encode()).decode()[4:20]):
        assert part not in shown


def test_a_value_of_signs_alone_is_found_and_costs_little() -> None:
    """Patterns are made where all tenants' results pass."""
    values = ('"\\&<é' * 1500, "hush-hush")
    began = time.process_time()
    for text in (f"a {values[0]} b", json.dumps([values[0]]), quote(values[0]), html.escape(values[0])):
        _, error = hide(values, None, {"message": f"{text} hush-hush"})
        assert len(error["message"]) < 20, error["message"][:100]
    assert time.process_time() - began < 5


def test_short_values_hide_nothing_and_what_holds_none_stays_as_it_was() -> None:
    document = b'{"a":1,  "b": "x1"}'
    assert hide(("1", ""), document, None) == (document, None)
    assert hide(("absent",), document, {"n": None}) == (document, {"n": None})


@pytest.mark.django_db
def test_secrets_have_their_number() -> None:
    api = make_api()
    sealed = seal("v", "x")
    Secret.objects.bulk_create(Secret(tenant=api.tenant, name=f"N{n}", sealed=sealed) for n in range(secret_store.MOST))
    assert str(secret_store.MOST) in problem(api.post("/secrets", {"name": "MORE", "value": "v"}), 409)["detail"]
    assert make_api().post("/secrets", {"name": "MORE", "value": "v"}).status_code == 201
