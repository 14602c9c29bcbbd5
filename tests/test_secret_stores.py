"""Secrets that lie elsewhere: in the environment of workers, each tenant's own, and in Vault."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.core import checks as django_checks
from pytest_django import Settings

from apps.executions import store
from apps.executions.failure import FailureClass, circuit_letter, classify
from apps.executions.states import Outcome, Status
from apps.tenants.models import AuditEntry, Secret
from apps.tenants.secret_places import pair_problems
from apps.worker.jobs import Assignment
from apps.worker.versions import Versions
from chronoweb.runtime import checks
from chronoweb.runtime.errors import VaultAway, VaultRefused
from chronoweb.runtime.vault import Vault
from tests.factories import make_api, pointers, problem
from tests.runner_tools import watched
from tests.stack import EPOCH, Ledger
from tests.vault_server import ROLE, SECRET_ID, TOKEN, VaultServer

VALUE = "the hidden value"
SCRIPT = ["/bin/sh", "-c", 'test "$A" = "the hidden value" && echo "here: $A"']


@pytest.fixture
def vault(settings: Settings) -> Iterator[VaultServer]:
    server = VaultServer()
    settings.CHRONOWEB = replace(settings.CHRONOWEB, vault_address=server.url, vault_timeout_seconds=60.0)
    settings.VAULT_TOKEN = TOKEN
    yield server
    server.close()


def allow(settings: Settings, *pairs: str) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, secret_environment=pairs)


# ---- over REST ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_secret_says_where_it_lies_and_moves(settings: Settings, vault: VaultServer) -> None:
    api = make_api()
    allow(settings, f"{api.tenant.slug}=OURS_")
    settings.CHRONOWEB = replace(settings.CHRONOWEB, vault_address=vault.url)
    made = api.post("/secrets", {"name": "E", "store": "environment", "variable": "OURS_TOKEN"})
    assert made.status_code == 201, made.content
    assert (made.json()["store"], made.json()["variable"]) == ("environment", "OURS_TOKEN")
    made = api.post("/secrets", {"name": "V", "store": "vault", "path": "pay/api", "key": "token"})
    assert made.status_code == 201, made.content
    moved = api.call("put", "/secrets/V", {"value": VALUE})
    assert (moved.status_code, moved.json()["store"], "path" in moved.json()) == (200, "database", False)
    assert api.call("put", "/secrets/V", {"store": "vault", "path": "a", "key": "b"}).json()["path"] == "a"
    assert Secret.objects.get(tenant=api.tenant, name="V").sealed == ""
    shown = {item["name"]: item["store"] for item in api.get("/secrets").json()["items"]}
    assert shown == {"E": "environment", "V": "vault"}
    told = AuditEntry.objects.filter(tenant=api.tenant, target_type="secret").order_by("id").last()
    assert told is not None
    assert told.detail == {"store": "vault", "path": "a", "key": "b"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"store": "file", "value": "x"}, {"/store"}),
        ({"store": "environment", "variable": "SECRET_KEY"}, {"/variable"}),
        ({"store": "environment", "variable": "OURS_"}, {"/variable"}),
        ({"store": "environment", "variable": "THEIRS_X"}, {"/variable"}),
        ({"store": "environment", "value": "x"}, {"/value"}),
        ({"store": "vault", "path": "../other/x", "key": "k"}, {"/path"}),
        ({"store": "vault", "path": "/x", "key": "k"}, {"/path"}),
        ({"store": "vault", "path": "a//b", "key": ""}, {"/path", "/key"}),
        ({"store": "vault", "path": "a?version=1", "key": "k"}, {"/path"}),
        ({"store": "vault", "path": "a", "key": "k", "value": "x"}, {"/value"}),
        ({"variable": "OURS_X", "value": "x"}, {"/variable"}),
    ],
)
def test_places_that_are_none(settings: Settings, vault: VaultServer, body: dict[str, Any], expected: set[str]) -> None:
    api = make_api()
    settings.CHRONOWEB = replace(
        settings.CHRONOWEB, secret_environment=(f"{api.tenant.slug}=OURS_", "beta=THEIRS_"), vault_address=vault.url
    )
    assert pointers(problem(api.post("/secrets", {"name": "A", **body}), 422)) == expected


@pytest.mark.django_db
def test_stores_that_the_installation_does_not_have(settings: Settings) -> None:
    api = make_api()
    for body, word in (
        ({"store": "environment", "variable": "ANY"}, "CHRONOWEB_SECRET_ENVIRONMENT"),
        ({"store": "vault", "path": "a", "key": "k"}, "CHRONOWEB_VAULT_ADDRESS"),
    ):
        assert word in problem(api.post("/secrets", {"name": "A", **body}), 422)["detail"]


@pytest.mark.parametrize(
    ("pairs", "wrong"),
    [
        (["acme=ACME_", "beta=BETA_"], 0),
        (["acme"], 1),
        (["acme=A_"], 1),
        (["acme=ACME_", "acme=OTHER_"], 1),
        (["acme=ACME_", "beta=ACME_EU_"], 1),
        (["acme=CHRONOWEB_X_"], 1),
        (["acme=CHRO"], 1),
    ],
)
def test_prefixes_that_would_show_a_tenant_what_is_not_its_own(
    settings: Settings, pairs: list[str], wrong: int
) -> None:
    assert len(pair_problems(pairs)) == wrong
    allow(settings, *pairs)
    found = [message.id for message in django_checks.run_checks(tags=[checks.ALWAYS])]
    assert found == ["chronoweb.E010"] * wrong


# ---- in workers ---------------------------------------------------------------------------------------------------


def put(ledger: Ledger, name: str, place: dict[str, str]) -> None:
    kind = "vault" if "path" in place else "environment"
    ledger.connection.execute(
        "INSERT INTO tenant_secrets (tenant_id, name, store, place, created_at, created_by, updated_at, updated_by)"
        " VALUES (%s, %s, %s, %s, now(), '', now(), '')",
        (UUID(bytes=ledger.tenant), name, kind, json.dumps(place)),
    )


def assigned(ledger: Ledger, handler: dict[str, Any]) -> Assignment:
    """As the claimer makes it."""
    version = ledger.define(handler=handler)
    [identity] = ledger.add(1, status=Status.DISPATCHED, token=EPOCH << 32)
    claimed = store.claim(ledger.connection, [identity], [EPOCH << 32], worker_id=1)
    versions = Versions()
    versions.load(ledger.connection, {version})
    versions.load_secrets(ledger.connection, claimed)
    return versions.assignment(claimed[0])


def uses(name: str) -> dict[str, Any]:
    return {"type": "command", "argv": SCRIPT, "environment": {"A": f"{{{{secret:{name}}}}}"}}


def test_a_variable_of_the_tenants_own(ledger: Ledger, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(settings, f"{ledger.slug}=OURS_")
    monkeypatch.setenv("OURS_TOKEN", VALUE)
    put(ledger, "E", {"variable": "OURS_TOKEN"})
    with watched() as runner:
        [result] = runner.run(assigned(ledger, uses("E")))
    assert result.outcome is Outcome.SUCCEEDED, result.error
    assert json.loads(result.result_json or b"")["stdout"] == "here: ***\n"


@pytest.mark.parametrize("variable", ["OURS_GONE", "OTHER_TOKEN"])
def test_a_variable_that_is_not_there_or_not_for_this_tenant(
    ledger: Ledger, settings: Settings, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The worker decides by its own settings, whatever the row says."""
    allow(settings, f"{ledger.slug}=OURS_")
    monkeypatch.setenv("OTHER_TOKEN", VALUE)
    put(ledger, "E", {"variable": variable})
    made = assigned(ledger, uses("E"))
    assert made.secrets == {}
    assert made.problem is not None
    assert (made.problem["type"], made.problem["permanent"]) == ("SecretMissing", True)
    assert variable in made.problem["message"]


def test_vault_is_read_when_the_attempt_begins_below_the_tenants_folder(ledger: Ledger, vault: VaultServer) -> None:
    vault.put(f"chronoweb/{ledger.slug}/pay/api", token=VALUE, other="x")
    put(ledger, "V", {"path": "pay/api", "key": "token"})
    made = [assigned(ledger, uses("V")) for _ in range(5)]
    assert vault.asked == [], "not by the claim"
    assert [one.secrets for one in made] == [{}] * 5
    with watched() as runner:
        results = runner.run(*made)
    assert [result.outcome for result in results] == [Outcome.SUCCEEDED] * 5, results[0].error
    assert "here: ***" in str(results[0].result_json)
    assert len(vault.asked) == 1, "attempts that ask for the same ask once"


@pytest.mark.parametrize(
    ("trouble", "kind", "permanent"),
    [
        ("nothing there", "SecretMissing", True),
        ("no such field", "SecretMissing", True),
        ("no text", "SecretMissing", True),
        ("not allowed", "SecretMissing", True),
        (503, "SecretUnavailable", False),
        (500, "SecretUnavailable", False),
        (429, "SecretUnavailable", False),
        ("hangs", "SecretUnavailable", False),
        ("gone", "SecretUnavailable", False),
    ],
)
def test_what_vault_cannot_give(
    ledger: Ledger, vault: VaultServer, trouble: str | int, kind: str, permanent: bool, settings: Settings
) -> None:
    odd: dict[str, dict[str, Any]] = {"no such field": {"other": VALUE}, "no text": {"token": 5}}
    fields = odd.get(str(trouble), {"token": VALUE})
    if trouble != "nothing there":
        vault.put(f"chronoweb/{ledger.slug}/pay", **fields)
    vault.trouble = trouble if isinstance(trouble, int) else None
    if trouble == "hangs":
        vault.hangs = True
        settings.CHRONOWEB = replace(settings.CHRONOWEB, vault_timeout_seconds=0.5)
    if trouble == "not allowed":
        settings.VAULT_TOKEN = "another"
    if trouble == "gone":
        settings.CHRONOWEB = replace(settings.CHRONOWEB, vault_address="http://127.0.0.1:1")
    put(ledger, "V", {"path": "pay", "key": "token"})
    with watched() as runner:
        [result] = runner.run(assigned(ledger, uses("V")))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == (kind, permanent)
    assert "the secret V, which environment/A refers to," in result.error["message"]
    assert VALUE not in str(result.error)
    assert settings.VAULT_TOKEN not in str(result.error)
    failure = classify(result.outcome, result.error)
    assert failure is (FailureClass.PERMANENT if permanent else FailureClass.TRANSIENT)
    assert circuit_letter(failure, result.error) == "", "who would have been called was not asked"


def test_a_role_signs_in_and_again_when_its_token_has_ended(vault: VaultServer, settings: Settings) -> None:
    settings.VAULT_TOKEN, settings.VAULT_ROLE_ID, settings.VAULT_SECRET_ID = "", ROLE, SECRET_ID
    vault.put("chronoweb/acme/a", k="v")
    found = Vault.configured(settings.CHRONOWEB)
    assert found is not None
    assert [found.read("chronoweb/acme/a", "k") for _ in range(2)] == ["v", "v"]
    assert len(vault.logins) == 1
    vault.tokens = set()
    assert found.read("chronoweb/acme/a", "k") == "v"
    assert len(vault.logins) == 2
    settings.VAULT_SECRET_ID = "wrong"
    other = Vault.configured(settings.CHRONOWEB)
    assert other is not None
    with pytest.raises(VaultRefused):
        other.read("chronoweb/acme/a", "k")


def test_a_namespace_and_a_mount_go_along(vault: VaultServer, settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, vault_namespace="team", vault_mount="kv")
    vault.kept["kv/data/a"] = {"k": "v"}
    found = Vault.configured(settings.CHRONOWEB)
    assert found is not None
    assert found.read("a", "k") == "v"
    assert vault.asked[-1][1]["X-Vault-Namespace"] == "team"
    vault.trouble = 501
    with pytest.raises(VaultAway):
        found.read("a", "k")


def test_an_address_without_a_way_in_is_told_before_workers_start(settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, vault_address="http://vault:8200")
    assert [message.id for message in checks.check_vault()] == ["chronoweb.E011"]
    settings.VAULT_TOKEN = "t"
    assert checks.check_vault() == []
    settings.CHRONOWEB = replace(settings.CHRONOWEB, vault_address="vault:8200")
    assert [message.id for message in checks.check_vault()] == ["chronoweb.E011"]
