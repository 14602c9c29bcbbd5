"""Who gets in, as what, and how often: keys, tokens, sessions, members, limits, and what the audit log says of it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest
import redis
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from apps.api.representations import moment
from apps.quickstart.data_directory import free_port
from apps.tenants.models import LIMITS, ApiKey, AuditEntry, Membership, Role, SignIn, Tenant
from chronoweb.runtime import rate_limit
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.rate_limit import Limiter, Taken
from tests.console_ledger import PASSWORD, make_person
from tests.factories import Api, document, make_api, make_tenant, pointers, problem

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_tries_and_quick_passwords(settings: Settings, unique: str) -> None:
    """All tests come from one address; and what makes guessing slow makes them slow."""
    settings.CHRONOWEB = replace(settings.CHRONOWEB, redis_prefix=f"{unique}:")
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def bare(method: str, path: str, body: Any = None, **headers: str) -> Any:
    call = getattr(Client(), method)
    extra = {} if method == "get" else {"data": body, "content_type": "application/json"}
    return call(f"/api/v1{path}", headers=headers, **extra)


def sign_in(person: User, **more: Any) -> Any:
    return bare("post", "/auth/token", {"username": person.username, "password": PASSWORD, **more})


def as_token(text: str, tenant: Tenant) -> Api:
    return Api(key=text, tenant=tenant)


# ---- tokens -------------------------------------------------------------------------------------------------------


def test_a_password_becomes_tokens_that_name_tenant_and_role() -> None:
    tenant = make_tenant()
    person = make_person(tenant, role=Role.VIEWER)
    answer = sign_in(person)
    assert answer.status_code == 200, answer.content
    assert answer["Cache-Control"] == "no-store"
    body = answer.json()
    assert (body["token_type"], body["tenant"], body["role"]) == ("Bearer", tenant.slug, "viewer")
    claims = jwt.decode(body["access"], options={"verify_signature": False})
    assert (claims["tenant"], claims["tenant_slug"], claims["role"]) == (str(tenant.id), tenant.slug, "viewer")
    assert claims["exp"] - claims["iat"] == body["access_expires_in"] == 600
    api = as_token(body["access"], tenant)
    assert api.get("/tasks").status_code == 200
    problem(api.post("/tasks", document()), 403)
    me = api.get("/tenants/me").json()
    assert (me["slug"], me["role"]) == (tenant.slug, "viewer")
    problem(as_token(body["refresh"], tenant).get("/tasks"), 401)
    [entry] = AuditEntry.objects.filter(tenant=tenant, action="sign_in.create")
    assert entry.actor == f"user:{person.username}"


def test_what_is_done_with_a_token_is_done_by_its_person() -> None:
    tenant = make_tenant()
    person = make_person(tenant, role=Role.OWNER)
    api = as_token(sign_in(person).json()["access"], tenant)
    api.post("/secrets", {"name": "A", "value": "v"})
    assert api.get("/secrets").json()["items"][0]["created_by"] == f"user:{person.username}"


@pytest.mark.parametrize(
    ("changes", "status", "pointer"),
    [
        ({"password": "wrong"}, 401, None),
        ({"username": "nobody-of-this-name"}, 401, None),
        ({"tenant": "no-such"}, 422, "/tenant"),
        ({"tenant": 5}, 422, "/tenant"),
        ({"password": ["a"]}, 422, "/password"),
        ({"otp": "1"}, 422, "/otp"),
    ],
)
def test_who_does_not_get_in(changes: dict[str, Any], status: int, pointer: str | None) -> None:
    refused = problem(sign_in(make_person(make_tenant()), **changes), status)
    if pointer:
        assert pointers(refused) == {pointer}
    assert PASSWORD not in str(refused)


def test_members_of_several_tenants_name_one() -> None:
    one, two = make_tenant(), make_tenant()
    person = make_person(one, role=Role.VIEWER)
    Membership.objects.create(tenant=two, user=person, role=Role.OWNER)
    [error] = problem(sign_in(person), 422)["errors"]
    assert sorted(error["legal"]) == sorted([one.slug, two.slug])
    body = sign_in(person, tenant=two.slug).json()
    assert (body["tenant"], body["role"]) == (two.slug, "owner")
    problem(sign_in(person, tenant=make_tenant().slug), 422)


def test_a_refresh_token_is_good_once_and_a_second_use_ends_the_sign_in() -> None:
    tenant = make_tenant()
    first = sign_in(make_person(tenant)).json()
    second = bare("post", "/auth/refresh", {"refresh": first["refresh"]}).json()
    assert second["refresh"] != first["refresh"]
    assert as_token(second["access"], tenant).get("/tasks").status_code == 200
    refused = problem(bare("post", "/auth/refresh", {"refresh": first["refresh"]}), 401)
    assert "used before" in refused["detail"]
    problem(bare("post", "/auth/refresh", {"refresh": second["refresh"]}), 401)
    problem(as_token(second["access"], tenant).get("/tasks"), 401)
    assert AuditEntry.objects.filter(tenant=tenant, action="sign_in.reused").count() == 1


@pytest.mark.parametrize("which", ["access", "refresh"])
def test_signing_out_ends_it_at_once(which: str) -> None:
    tenant = make_tenant()
    pair = sign_in(make_person(tenant)).json()
    assert bare("post", "/auth/revoke", {"token": pair[which]}).status_code == 204
    assert bare("post", "/auth/revoke", {"token": pair[which]}).status_code == 204
    problem(as_token(pair["access"], tenant).get("/tasks"), 401)
    problem(bare("post", "/auth/refresh", {"refresh": pair["refresh"]}), 401)
    assert bare("post", "/auth/revoke", {"token": "nonsense"}).status_code == 204


def test_no_token_is_kept_anywhere() -> None:
    pair = sign_in(make_person(make_tenant())).json()
    row = SignIn.objects.latest("created_at")
    kept = f"{row.refresh_id} {row.id}"
    assert pair["refresh"].split(".")[2] not in kept
    assert len(row.refresh_id) < 64


def test_a_token_ends_with_what_it_rests_on() -> None:
    tenant = make_tenant()
    person = make_person(tenant, role=Role.OWNER)

    def fresh() -> tuple[Api, str]:
        pair = sign_in(person).json()
        return as_token(pair["access"], tenant), pair["refresh"]

    api, _ = fresh()
    Membership.objects.filter(user=person).update(role=Role.VIEWER)
    problem(api.post("/tasks", document()), 403)
    assert api.get("/tasks").status_code == 200
    low, _ = fresh()
    Membership.objects.filter(user=person).update(role=Role.OWNER)
    problem(low.post("/tasks", document()), 403)  # a token never says more than when it was made
    api, again = fresh()
    person.set_password("another-pass-phrase")
    person.save()
    problem(api.get("/tasks"), 401)
    problem(bare("post", "/auth/refresh", {"refresh": again}), 401)
    person.set_password(PASSWORD)
    person.save()
    api, _ = fresh()
    Membership.objects.filter(user=person).delete()
    problem(api.get("/tasks"), 401)
    Membership.objects.create(user=person, tenant=tenant)
    api, _ = fresh()
    User.objects.filter(pk=person.pk).update(is_active=False)
    problem(api.get("/tasks"), 401)


@pytest.mark.parametrize("forgery", ["none", "other key", "expired", "no sign-in", "garbage", "audience"])
def test_forged_tokens_are_refused(settings: Settings, forgery: str) -> None:
    tenant = make_tenant()
    text = sign_in(make_person(tenant)).json()["access"]
    claims = jwt.decode(text, options={"verify_signature": False})
    key = settings.SECRET_KEY
    forged = {
        "none": lambda: jwt.encode(claims, "", algorithm="none"),
        "other key": lambda: jwt.encode(claims, "k" * 40, algorithm="HS256"),
        "expired": lambda: jwt.encode({**claims, "exp": claims["iat"] - 1}, key, algorithm="HS256"),
        "no sign-in": lambda: jwt.encode({**claims, "sign_in": "x"}, key, algorithm="HS256"),
        "garbage": lambda: "a.b.c",
        "audience": lambda: jwt.encode({**claims, "aud": "else"}, key, algorithm="HS256"),
    }[forgery]()
    assert as_token(jwt.encode(claims, key, algorithm="HS256"), tenant).get("/tasks").status_code == 200
    problem(as_token(forged, tenant).get("/tasks"), 401)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("token", '{"username": "a", "pasword": "sekret-77"}'),
        ("token", '{"username": "a", "password": "sekret-77\\u0000"}'),
        ("token", '["sekret-77"]'),
        ("refresh", '{"refesh": "sekret-77"}'),
        ("revoke", '{"acces": "sekret-77"}'),
    ],
)
def test_a_refused_sign_in_repeats_nothing_of_it(path: str, body: str) -> None:
    assert "sekret" not in str(problem(bare("post", f"/auth/{path}", body), 422))


# ---- tries --------------------------------------------------------------------------------------------------------


@pytest.fixture
def few_tries(settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, login_tries_per_account=3)


@pytest.mark.parametrize("path", ["/api/v1/auth/token", "/login/", "/admin/login/"])
def test_passwords_are_not_tried_for_ever(few_tries: None, path: str) -> None:
    person = make_person(make_tenant(), is_staff=True)
    given = {"username": person.username, "password": "wrong"}
    kind: Any = {"content_type": "application/json"} if path.startswith("/api") else {}
    answers = [Client().post(path, given, **kind) for _ in range(5)]
    assert [answer.status_code == 429 for answer in answers] == [False] * 3 + [True] * 2
    assert 1 <= int(answers[-1]["Retry-After"]) <= 120
    right = Client().post(path, {**given, "password": PASSWORD}, **kind)
    assert right.status_code == 429, "the right one is not looked at either"
    if kind:
        assert problem(answers[-1], 429)["type"].endswith("too-many-requests")
    other = make_person(make_tenant())
    assert Client().post(path, {"username": other.username, "password": "x"}, **kind).status_code != 429


def test_another_spelling_or_address_of_the_same_network_is_no_other_account(few_tries: None) -> None:
    name = make_person(make_tenant()).username
    spellings = (name, f" {name}", name.upper(), f"{name}\u3000", "".join(chr(ord(c) + 0xFEE0) for c in name))
    for number, spelling in enumerate(spellings):
        told = Client().post(
            "/login/", {"username": spelling, "password": "wrong"}, REMOTE_ADDR=f"2001:db8::{number + 1}"
        )
        assert (told.status_code == 429) == (number >= 3), spelling


@pytest.mark.parametrize("path", ["/api/v1/auth/token", "/login/", "/admin/login/"])
def test_one_password_is_not_tried_at_account_after_account(
    settings: Settings, path: str, unique: str, redis_client: redis.Redis
) -> None:
    """From whatever address; and who has it is not locked out of where they work."""
    settings.CHRONOWEB = replace(settings.CHRONOWEB, login_accounts_per_password=3)
    password = f"Autumn-{unique}"
    person = make_person(make_tenant(), is_staff=True)
    person.set_password(password)
    person.save()
    kind: Any = {"content_type": "application/json"} if path.startswith("/api") else {}
    tries = iter(range(1, 200))

    def status(username: str, text: str = password, address: str | None = None) -> int:
        address = address or f"198.51.100.{next(tries)}"
        return int(
            Client().post(path, {"username": username, "password": text}, REMOTE_ADDR=address, **kind).status_code
        )

    let_in = 200 if kind else 302
    at_work = "203.0.113.1"
    assert status(person.username, address=at_work) == let_in
    assert 429 not in [status(f"{unique}-own") for _ in range(5)], "one account, however often, is no other"
    assert 429 not in [status(person.username, address=at_work) for _ in range(3)], "what succeeds is not counted"
    assert 429 not in [status(f"{unique}-{number}") for number in range(2)]
    assert status(f"{unique}-9") == 429
    assert status(person.username) == 429, "the account is not looked at: nobody learns whether it is theirs"
    assert status(f"{unique}-9", text="another") != 429
    assert status(person.username, address=at_work) == let_in
    kept = b" ".join(redis_client.scan_iter(f"{unique}:limit:login:*"))
    assert b"login:password:" in kept
    assert password.encode() not in kept


# ---- sessions -----------------------------------------------------------------------------------------------------


def test_a_page_asks_with_its_session_its_tenant_and_its_csrf_token() -> None:
    tenant, foreign = make_tenant(), make_tenant()
    person = make_person(tenant)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(person)
    theirs = {"X-Chronoweb-Tenant": tenant.slug}
    assert browser.get("/api/v1/tasks", headers=theirs).status_code == 200
    problem(browser.get("/api/v1/tasks"), 401)  # a cookie alone is what another site could send
    problem(browser.get("/api/v1/tasks", headers={"X-Chronoweb-Tenant": foreign.slug}), 404)
    made: Any = {"data": document(), "content_type": "application/json"}
    problem(browser.post("/api/v1/tasks", headers=theirs, **made), 403)
    browser.cookies["csrftoken"] = "a" * 32
    answer = browser.post("/api/v1/tasks", headers={**theirs, "X-CSRFToken": "a" * 32}, **made)
    assert answer.status_code == 201, answer.content


# ---- API keys -----------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once_listed_and_revoked() -> None:
    owner = make_api(role=Role.OWNER)
    later = (SYSTEM_CLOCK.now() + timedelta(days=1)).isoformat()
    made = owner.post("/api-keys", {"name": "ci", "role": "viewer", "expires_at": later, "scopes": ["tasks"]})
    assert made.status_code == 201, made.content
    assert made["Cache-Control"] == "no-store"
    body = made.json()
    assert (body["role"], body["scopes"], body["revoked_at"]) == ("viewer", ["tasks"], None)
    text = body.pop("key")
    assert text.startswith(body["prefix"])
    assert owner.get(f"/api-keys/{body['id']}").json() == body
    assert text not in owner.get("/api-keys").content.decode()
    assert not ApiKey.objects.filter(key_hash=text).exists()
    key = Api(key=text, tenant=owner.tenant)
    assert key.get("/tasks").status_code == 200
    problem(key.post("/tasks", document()), 403)
    assert "tasks" in problem(key.get("/executions"), 403)["detail"]
    assert owner.call("delete", f"/api-keys/{body['id']}").status_code == 204
    assert owner.call("delete", f"/api-keys/{body['id']}").status_code == 204
    problem(key.get("/tasks"), 401)
    actions = list(
        AuditEntry.objects.filter(tenant=owner.tenant, target_type="api_key").values_list("action", flat=True)
    )
    assert sorted(actions) == ["api_key.create", "api_key.revoke"]


def test_keys_come_in_pages() -> None:
    owner = make_api(role=Role.OWNER)
    for number in range(4):
        owner.post("/api-keys", {"name": f"k{number}"})
    first = owner.get("/api-keys?limit=3").json()
    rest = owner.get(f"/api-keys?limit=3&cursor={first['next_cursor']}").json()
    assert [item["name"] for item in first["items"] + rest["items"]] == ["k3", "k2", "k1", "k0", "test"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"/name"}),
        ({"name": " "}, {"/name"}),
        ({"name": "a\tb"}, {"/name"}),
        ({"name": "a", "role": "root"}, {"/role"}),
        ({"name": "a", "expires_at": "yesterday"}, {"/expires_at"}),
        ({"name": "a", "expires_at": "2001-01-01T00:00:00Z"}, {"/expires_at"}),
        ({"name": "a", "scopes": "tasks"}, {"/scopes"}),
        ({"name": "a", "scopes": ["tasks", "nothing"]}, {"/scopes/1"}),
        ({"name": "a", "scopes": [["tasks"]]}, {"/scopes/0"}),
        ({"name": "a", "key": "cw_mine"}, {"/key"}),
    ],
)
def test_bad_keys(body: Any, expected: set[str]) -> None:
    refused = problem(make_api(role=Role.OWNER).post("/api-keys", body), 422)
    assert pointers(refused) == expected
    assert all(error["legal"] for error in refused["errors"])


def test_a_scoped_key_gives_no_more_than_it_has() -> None:
    owner = make_api(role=Role.OWNER)
    given = {"name": "a", "role": "owner", "scopes": ["api-keys", "tasks"]}
    scoped = Api(key=owner.post("/api-keys", given).json()["key"], tenant=owner.tenant)
    assert scoped.post("/api-keys", {"name": "b"}).json()["scopes"] == ["api-keys", "tasks"]
    assert scoped.post("/api-keys", {"name": "b", "scopes": ["tasks"]}).status_code == 201
    for wrong in ([], ["executions"]):
        problem(scoped.post("/api-keys", {"name": "b", "scopes": wrong}), 422)


def test_a_scoped_key_makes_nobody_more_than_it_is() -> None:
    owner = make_api(role=Role.OWNER)
    make_person(owner.tenant, role=Role.OWNER)
    given = {"name": "a", "role": "owner", "scopes": ["members"]}
    scoped = Api(key=owner.post("/api-keys", given).json()["key"], tenant=owner.tenant)
    stranger, person = make_person(None), make_person(owner.tenant, role=Role.OPERATOR)
    path = f"/members/{person.username}"
    for role in Role.values:
        refused = problem(scoped.post("/members", {"username": stranger.username, "role": role}), 403)
        assert "scopes (members) may not add members" in refused["detail"]
    assert "may not raise" in problem(scoped.call("patch", path, {"role": "owner"}), 403)["detail"]
    assert owner.get(path).json()["role"] == "operator"
    assert scoped.call("patch", path, {"role": "viewer"}).status_code == 200
    assert scoped.call("delete", path).status_code == 204
    assert not AuditEntry.objects.filter(tenant=owner.tenant, action="membership.create").exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
@pytest.mark.parametrize(("method", "path"), [("get", "/api-keys"), ("post", "/api-keys"), ("post", "/members")])
def test_only_owners_decide_who_gets_in(role: Role, method: str, path: str) -> None:
    problem(make_api(role=role).call(method, path, {} if method == "post" else None), 403)


# ---- members ------------------------------------------------------------------------------------------------------


def test_members_are_added_changed_and_removed() -> None:
    owner = make_api(role=Role.OWNER)
    person = make_person(None)
    made = owner.post("/members", {"username": person.username, "role": "operator"})
    assert made.status_code == 201, made.content
    problem(owner.post("/members", {"username": person.username}), 409)
    path = f"/members/{person.username}"
    assert owner.call("patch", path, {"role": "owner"}).json()["role"] == "owner"
    assert [item["username"] for item in owner.get("/members").json()["items"]] == [person.username]
    problem(owner.call("patch", path, {"role": "viewer"}), 409)
    assert "last owner" in problem(owner.call("delete", path), 409)["detail"]
    second = make_person(owner.tenant, role=Role.OWNER)
    assert owner.call("delete", path).status_code == 204
    problem(owner.get(path), 404)
    problem(owner.call("delete", f"/members/{second.username}"), 409)
    entries = AuditEntry.objects.filter(tenant=owner.tenant, target_type="member").order_by("id")
    assert [e.action for e in entries] == ["membership.create", "membership.change", "membership.delete"]
    assert entries[1].detail == {"role": "owner", "before": "operator"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({}, "/username"), ({"username": "nobody-here"}, "/username"), ({"username": "a", "role": 1}, "/role")],
)
def test_bad_members(body: Any, pointer: str) -> None:
    assert pointers(problem(make_api(role=Role.OWNER).post("/members", body), 422)) == {pointer}


# ---- audit log ----------------------------------------------------------------------------------------------------


def test_the_audit_log_is_read_in_pages_by_filters() -> None:
    api, other = make_api(), make_api()
    for name in ("A", "B", "C"):
        api.post("/secrets", {"name": name, "value": "v"})
    other.post("/secrets", {"name": "THEIRS", "value": "v"})
    api.call("delete", "/secrets/B")
    first = api.get("/audit-log?limit=3").json()
    assert [item["target_id"] for item in first["items"]] == ["B", "C", "B"]
    rest = api.get(f"/audit-log?limit=3&cursor={first['next_cursor']}").json()
    assert [item["target_id"] for item in rest["items"]] == ["A"]
    deleted = api.get("/audit-log?action=secret.delete").json()["items"]
    assert [item["target_id"] for item in deleted] == ["B"]
    assert len(api.get("/audit-log?target_type=secret&target_id=B").json()["items"]) == 2
    at = moment(AuditEntry.objects.filter(tenant=api.tenant).latest("id").at.replace(microsecond=0))
    AuditEntry.objects.filter(tenant=api.tenant).exclude(action="secret.delete").update(at="2020-01-01T00:00:00Z")
    assert [i["action"] for i in api.get(f"/audit-log?since={at}").json()["items"]] == ["secret.delete"]
    assert len(api.get(f"/audit-log?until={at}").json()["items"]) == 3
    assert api.get("/audit-log?actor=nobody").json()["items"] == []
    for wrong in ("?who=me", "?since=then", "?limit=0", "?cursor=x"):
        problem(api.get(f"/audit-log{wrong}"), 400)
    problem(make_api(role=Role.VIEWER).get("/audit-log"), 403)


# ---- limits -------------------------------------------------------------------------------------------------------


def limited(limit: int | None) -> Api:
    api = make_api()
    Tenant.objects.filter(id=api.tenant.id).update(api_requests_per_minute=limit)
    return api


def test_requests_are_counted_by_tenant_and_refused_above_the_limit() -> None:
    api = limited(3)
    answers = [api.get("/tasks") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2
    assert [answer["RateLimit-Remaining"] for answer in answers[:3]] == ["2", "1", "0"]
    assert answers[0]["RateLimit-Limit"] == "3"
    assert answers[0]["RateLimit-Policy"] == "3;w=60"
    assert 1 <= int(answers[0]["RateLimit-Reset"]) <= 60
    assert "Retry-After" not in answers[0]
    refused = problem(answers[-1], 429)
    assert "api_requests_per_minute" in refused["detail"]
    assert int(answers[-1]["Retry-After"]) >= 1
    assert limited(3).get("/tasks").status_code == 200, "another tenant's are its own"


def test_no_limit_no_headers_and_refusals_count_too() -> None:
    free = limited(None)
    assert "RateLimit-Limit" not in free.get("/tasks")
    api = limited(2)
    problem(api.post("/tasks", {}), 422)
    assert problem(api.get("/tasks/" + str(uuid4())), 404)
    problem(api.get("/tasks"), 429)


def test_without_redis_everybody_is_let_in_at_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Limiter(f"redis://127.0.0.1:{free_port(taken=set())}/0", "x:")
    monkeypatch.setattr(rate_limit, "_limiter", lambda *_: away)
    api = limited(1)
    assert [api.get("/tasks").status_code for _ in range(5)] == [200] * 5


def test_many_at_once_are_not_let_in_beyond_the_limit(
    redis_client: redis.Redis, redis_prefix: str, services: Any
) -> None:
    limiter = Limiter(services.redis_url, redis_prefix)
    barrier = threading.Barrier(8)

    def ask(_: int) -> int:
        barrier.wait()
        taken = [limiter.take("t", 100, window_seconds=3600) for _ in range(50)]
        return sum(one is not None and one.let_in for one in taken)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(8))) == 100
    looked = limiter.take("t", 100, window_seconds=3600, count=0)
    assert isinstance(looked, Taken)
    assert (looked.used, looked.remaining) == (100, 0)
    assert 0 < redis_client.pttl(f"{redis_prefix}limit:t") <= 7_200_000


def test_the_last_window_counts_as_far_as_it_is_in_sight(
    redis_client: redis.Redis, redis_prefix: str, services: Any
) -> None:
    limiter = Limiter(services.redis_url, redis_prefix)
    seconds, micro = redis_client.time()
    now_ms, window = seconds * 1000 + micro // 1000, 3_600_000
    start = now_ms - now_ms % window
    key = f"{redis_prefix}limit:t"
    redis_client.hset(key, mapping={"w": start - window, "n": 1000, "p": 7})
    taken = limiter.take("t", 1000, window_seconds=3600)
    assert taken is not None
    in_sight = 1000 * (start + window - now_ms) / window
    assert abs(taken.used - in_sight) <= 3
    redis_client.hset(key, mapping={"w": start - 5 * window, "n": 1000, "p": 1000})
    fresh = limiter.take("t", 1000, window_seconds=3600)
    assert fresh is not None
    assert fresh.used == 1


def test_a_tenant_sees_its_limits_and_their_use() -> None:
    api = make_api(role=Role.VIEWER)
    body = api.get("/tenants/me").json()
    assert UUID(body["id"]) == api.tenant.id
    assert set(body["limits"]) == set(body["use"]) == set(LIMITS)
    assert body["limits"]["api_requests_per_minute"] == 1000
    assert body["use"]["api_requests_per_minute"] == 1
    assert body["use"]["max_concurrent_workers"] == 0
    new = Tenant.objects.create(slug=f"x{uuid4().hex}", name="x")
    assert [getattr(new, name) for name in LIMITS] == [1000, 1000, 200, 10_000, 50_000, 100]
