"""What every answer says to browsers, what production demands, and what a failure tells: a number, never a trace."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.hashers import PBKDF2PasswordHasher, identify_hasher, make_password, verify_password
from django.test import Client, override_settings
from pytest_django import Settings

from apps.api import tasks
from apps.console import views
from apps.quickstart.services import ServiceAddresses
from apps.tenants.models import Role
from chronoweb import settings as django_settings
from chronoweb.asgi import application
from tests.console_ledger import make_person
from tests.factories import document, make_api, make_tenant, problem

ROOT = Path(__file__).resolve().parent.parent
PATHS = ("/login/", "/admin/login/", "/api/v1/tasks", "/api/v1/nothing", "/api/docs/", "/livez", "/nothing", "/")
PRODUCTION = {
    "COOKIES_SECURE": "true",
    "TLS_PROXY": "true",
    "SECRET_KEY": "k" * 25 + "0123456789abcdefghijklmnopqrstuvwxyz",
    "ALLOWED_HOSTS": "chronoweb.example.com",
    "CSRF_TRUSTED_ORIGINS": "https://chronoweb.example.com",
}


def policy_of(answer: Any) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in answer["Content-Security-Policy"].split(";"))
    return {name: rest for name, _, rest in parts}


@pytest.mark.django_db
@pytest.mark.parametrize("path", PATHS)
def test_no_answer_lets_script_in(path: str) -> None:
    answer = Client().get(path)
    policy = policy_of(answer)
    scripts = policy.get("script-src", policy["default-src"])
    assert "unsafe" not in scripts
    assert "*" not in scripts
    assert policy["frame-ancestors"] == "'none'"
    assert policy["base-uri"] == "'none'"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "no-store" in answer["Cache-Control"]
    assert "camera=()" in answer["Permissions-Policy"]
    assert re.fullmatch(r"[0-9a-f]{16}", answer["X-Request-Id"])


@pytest.mark.django_db
def test_answers_of_the_api_are_no_pages_and_those_of_pages_allow_their_own_files_alone() -> None:
    assert policy_of(Client().get("/api/v1/tasks"))["default-src"] == "'none'"
    assert policy_of(Client().get("/login/"))["default-src"] == "'self'"


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_settings_of_production_leave_nothing_to_say(services: ServiceAddresses) -> None:
    done = manage("check", "--deploy", "--fail-level", "WARNING", **PRODUCTION)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no issues" in done.stdout + done.stderr
    assert manage("check", "--deploy", "--fail-level", "WARNING", **PRODUCTION | {"COOKIES_SECURE": "false"}).returncode


@pytest.mark.django_db
def test_cookies_and_https_in_production(settings: Settings) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 31_536_000
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SECURE_REDIRECT_EXEMPT = [r"^livez$"]
    person = make_person(make_tenant(), role=Role.VIEWER)
    person.set_password("a long password")
    person.save()
    plain, secure = {"X-Forwarded-Proto": "http"}, {"X-Forwarded-Proto": "https"}
    browser = Client()
    sent = browser.get("/login/", headers=plain)
    assert (sent.status_code, sent["Location"]) == (301, "https://testserver/login/")
    assert browser.get("/livez", headers=plain).status_code == 200
    given = {"username": person.username, "password": "a long password"}
    answer = browser.post("/login/", given, headers=secure)
    assert answer.status_code == 302
    assert answer["Strict-Transport-Security"] == "max-age=31536000"
    cookie = answer.cookies["sessionid"]
    assert (bool(cookie["secure"]), bool(cookie["httponly"]), cookie["samesite"]) == (True, True, "Lax")


@pytest.mark.django_db
def test_a_failure_tells_its_number_and_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError("the hidden reason, in /some/file.py")

    own = make_api(role=Role.VIEWER)
    monkeypatch.setattr(tasks.Tasks, "rows", fail)
    monkeypatch.setattr(views, "first_tenant_of", fail)
    browser = Client(raise_request_exception=False)
    headers = {"Authorization": f"Bearer {own.key}", "X-Request-Id": "of-the-proxy.1"}
    told = browser.get("/api/v1/tasks", headers=headers)
    assert (told.status_code, told["Content-Type"]) == (500, "application/problem+json")
    assert told.json()["request_id"] == told["X-Request-Id"] == "of-the-proxy.1"
    browser.force_login(make_person(own.tenant, role=Role.VIEWER))
    page = browser.get("/", headers={"X-Request-Id": "bad\tnumber"})
    assert page.status_code == 500
    assert page["X-Request-Id"] in page.content.decode()
    assert "bad" not in page["X-Request-Id"]
    for answer in (told, page):
        for hidden in ("hidden reason", "Traceback", "RuntimeError", ".py"):
            assert hidden not in answer.content.decode()


@pytest.mark.django_db
def test_a_failure_outside_of_views_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, request: Any) -> Any:
        raise RuntimeError("the hidden reason")

    monkeypatch.setattr("django.middleware.common.CommonMiddleware.process_request", fail)
    told = Client(raise_request_exception=False).get("/api/v1/tasks")
    assert (told.status_code, told["Content-Type"]) == (500, "application/problem+json")
    assert json.loads(told.content)["request_id"] == told["X-Request-Id"]
    assert "hidden reason" not in told.content.decode()


@pytest.mark.django_db
def test_requests_have_sizes(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    own = make_api()
    problem(own.post("/tasks", document(description="x" * 2000)), 413)
    fields = {f"f{n}": "x" for n in range(2500)}
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10**6
    assert Client().post("/login/", fields).status_code == 400


@pytest.mark.django_db
def test_viewers_see_no_keys_in_urls() -> None:
    own = make_api()
    url = "https://8.8.8.8/v1?user=ada&api_key=abc123&token=x%20y&flag#top"
    made = own.post("/tasks", document(handler={"type": "webhook", "url": url}))
    viewer = make_api(own.tenant, role=Role.VIEWER)
    shown = viewer.get(f"/tasks/{made.json()['id']}").json()["handler"]["url"]
    assert "abc123" not in shown
    assert "user=ada&api_key=••••••" in shown
    assert made.json()["handler"]["url"] == url


async def test_a_prefix_that_a_client_names_leads_to_no_other_route() -> None:
    """daphne takes it from a header: the route was one then, and the path that scopes of keys go by another."""
    scope = {"type": "http", "method": "GET", "path": "/api/v1/tasks/livez", "query_string": b""}
    scope |= {"root_path": "/api/v1/tasks", "headers": [(b"host", b"localhost")]}
    asked = ApplicationCommunicator(application, scope)
    await asked.send_input({"type": "http.request"})
    assert (await asked.receive_output(10))["status"] == 404


def test_passwords_are_hashed_as_django_recommends() -> None:
    """The suite itself hashes with one round; by the settings such a hash counts as well, and is made anew."""
    cheap = make_password("a long password")
    with override_settings(PASSWORD_HASHERS=django_settings.PASSWORD_HASHERS):
        strong = make_password("a long password")
        rounds = identify_hasher(strong).decode(strong)["iterations"]
        assert rounds == PBKDF2PasswordHasher.iterations >= 1_000_000
        assert verify_password("a long password", cheap) == (True, True)
    assert verify_password("another", strong)[0] is False
