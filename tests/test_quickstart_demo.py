"""The demo is made once; afterwards it is the user's, and what gets people in always works."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.test import RequestFactory
from pytest_django import Settings

from apps.definitions.models import Task
from apps.quickstart import demo, upstream
from apps.quickstart.credentials import credentials_path, read_credentials
from apps.tenants import keys
from apps.tenants.models import ApiKey, Tenant
from chronoweb.runtime.clock import SYSTEM_CLOCK

pytestmark = pytest.mark.django_db
URL = "http://127.0.0.1:8000"


@pytest.fixture(autouse=True)
def loopback_is_allowed(settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, outbound_allowed_networks=("127.0.0.0/8", "::1/128"))


def names() -> set[str]:
    return set(Task.objects.filter(tenant__slug="demo", deleted_at=None).values_list("name", flat=True))


def test_making_it_again_changes_nothing(tmp_path: Path) -> None:
    first = demo.prepare(url=URL, data_dir=tmp_path)
    made = list(Task.objects.values_list("id", "version"))
    assert demo.prepare(url=URL, data_dir=tmp_path) == first == read_credentials(tmp_path)
    assert list(Task.objects.values_list("id", "version")) == made
    assert Tenant.objects.filter(slug="demo").count() == ApiKey.objects.count() == 1


def test_what_the_user_did_stays(tmp_path: Path) -> None:
    demo.prepare(url=URL, data_dir=tmp_path)
    Task.objects.filter(name="every-minute").update(deleted_at=SYSTEM_CLOCK.now())
    Task.objects.filter(name="third-time-lucky").update(name="renamed")
    before = names()
    demo.prepare(url=URL, data_dir=tmp_path)
    assert names() == before


def test_a_changed_password_stays_and_a_lost_file_gives_a_new_one(tmp_path: Path) -> None:
    first = demo.prepare(url=URL, data_dir=tmp_path)
    user = demo.administrator()
    assert user.check_password(first.admin_password)
    user.set_password("the user's own")
    user.save()
    demo.prepare(url=URL, data_dir=tmp_path)
    assert demo.administrator().check_password("the user's own")
    credentials_path(tmp_path).unlink()
    third = demo.prepare(url=URL, data_dir=tmp_path)
    assert demo.administrator().check_password(third.admin_password)
    assert get_user_model().objects.count() == 1


def test_a_key_that_no_longer_works_is_replaced(tmp_path: Path) -> None:
    first = demo.prepare(url=URL, data_dir=tmp_path)
    ApiKey.objects.update(revoked_at=SYSTEM_CLOCK.now())
    second = demo.prepare(url=URL, data_dir=tmp_path)
    assert second.api_key != first.api_key
    principal = keys.principal_of(second.api_key, now=SYSTEM_CLOCK.now())
    assert principal is not None
    assert principal.tenant_slug == "demo"


def test_the_webhook_follows_the_web_process_unless_it_was_changed(tmp_path: Path) -> None:
    demo.prepare(url=URL, data_dir=tmp_path)
    demo.prepare(url="http://127.0.0.1:9000", data_dir=tmp_path)
    task = Task.objects.get(name="webhook-to-itself")
    assert (task.handler["url"], task.version) == ("http://127.0.0.1:9000/livez", 2)
    Task.objects.filter(id=task.id).update(handler={**task.handler, "url": "http://127.0.0.1:9000/mine"})
    demo.prepare(url="http://127.0.0.1:9001", data_dir=tmp_path)
    task.refresh_from_db()
    assert task.handler["url"] == "http://127.0.0.1:9000/mine"


def test_an_installation_that_forbids_loopback_gets_the_other_tasks(tmp_path: Path, settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, outbound_allowed_networks=())
    demo.prepare(url=URL, data_dir=tmp_path)
    expected = {document["name"] for document in demo.demo_tasks(url=URL, now=SYSTEM_CLOCK.now())}
    assert names() == expected - {"webhook-to-itself", "moody-upstream"}


@pytest.mark.parametrize(("minute", "status"), [(0, 503), (1, 503), (2, 200), (9, 200), (11, 503), (59, 200)])
def test_what_the_moody_one_calls_is_away_for_two_minutes_in_ten(
    monkeypatch: pytest.MonkeyPatch, minute: int, status: int
) -> None:
    class At:
        def now(self) -> datetime:
            return datetime(2026, 3, 1, 12, minute, 30, tzinfo=UTC)

    monkeypatch.setattr(upstream, "SYSTEM_CLOCK", At())
    assert upstream.upstream(RequestFactory().post("/demo/upstream")).status_code == status
