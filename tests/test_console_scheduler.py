"""The scheduler's page: what the platform and a tenant are told, who moves it, what it costs; tenants of elsewhere."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from apps.dispatcher.hot_tier import HotTier
from apps.executions import freezing, ids, roles
from apps.executions.models import Finding, Lease, StandingHold
from apps.executions.rows import Preloaded
from apps.explain import hot_state, looking
from apps.tenants.models import AuditEntry, Role, Tenant, Tier
from chronoweb.runtime import redis_client
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.console_dags import make_member
from tests.console_ledger import make_tenant, now

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


class Desk:
    """Somebody of a tenant, or of the platform, who looks at the scheduler."""

    def __init__(self, tenant: Tenant, role: Role = Role.OWNER, tier: str = Tier.STANDARD) -> None:
        Tenant.objects.filter(id=tenant.id).update(tier=tier)
        self.tenant = tenant
        self.client = Client()
        self.person = make_member(tenant, role)
        self.client.force_login(self.person)

    def see(self) -> str:
        answer = self.client.get(f"/t/{self.tenant.slug}/scheduler/")
        assert answer.status_code == 200
        return answer.content.decode()

    def act(self, act: str, status: int = 200, **given: Any) -> Any:
        answer = self.client.post(f"/t/{self.tenant.slug}/scheduler/act/{act}", {"note": "", **given})
        assert answer.status_code == status, answer.content
        return answer.json() if status != 404 else None


@pytest.fixture
def staff() -> Desk:
    return Desk(make_tenant(), tier=Tier.SYSTEM)


@pytest.fixture
def hot(settings: Settings, redis_prefix: str) -> Iterator[HotTier]:
    """The hot tier that the pages read."""
    settings.CHRONOWEB = replace(settings.CHRONOWEB, redis_prefix=redis_prefix)
    client = redis_client.connect()
    yield HotTier(client, redis_prefix)
    client.close()


def lease(role: str, holder: uuid.UUID | None = None, *, epoch: int = 7, until: timedelta = MINUTE) -> uuid.UUID:
    holder = holder or uuid.uuid4()
    at = now()
    Lease.objects.create(role=role, holder=holder, epoch=epoch, expires_at=at + until, acquired_at=at - MINUTE)
    return holder


def entry(tenant: Tenant, due_in_ms: float, class_index: int = 1) -> Preloaded:
    return Preloaded(ids.new_id(ids.to_ms(SYSTEM_CLOCK.now())), due_in_ms, class_index, tenant.id.bytes, 0)


def audited() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))


def test_the_platform_sees_who_holds_what(staff: Desk, hot: HotTier) -> None:
    lease("preloader", epoch=41)
    lease("watchdog", until=-MINUTE)
    first, second = lease("dispatcher-member/a"), lease("dispatcher-member/b")
    Lease.objects.filter(role="dispatcher-member/a").update(acquired_at=now() - 2 * MINUTE)
    for shard in range(15):
        lease(f"dispatcher/{shard}", first if shard < 9 else second, epoch=100 + shard)
    Finding.objects.create(kind="reclaimed", detail="not claimed", count=42, first_at=now(), last_at=now())
    hot.add([entry(staff.tenant, -5000), entry(make_tenant(), 60_000, 0), entry(make_tenant(), 60_000, 2)])
    hot.tell_lookahead(600)
    html = staff.see()
    assert "<dd>41</dd>" in html
    assert "nobody leads" in html
    assert "1 of 16 shards unheld" in html
    assert "15 of 16" in html
    assert "100 to 114" in html
    assert html.count('<li class="m1"') == 9 + 1, "the first one's shards, and itself"
    assert html.count('<li class="m0"') == 1
    assert "1 critical · 1 standard · 1 bulk" in html
    assert re.search(r'title="its oldest entry that is due">([5-9]|[1-5]\d)\.', html)
    assert "10 min" in html
    assert "usually 60 min: Redis is short of memory" in html
    assert "42 taken back from where it got stuck" in html
    assert "noeviction" in html
    assert "14 of 14 days" in html
    assert html.count('data-label="Fail over"') == 3


def test_a_tenant_that_is_frozen_is_thawed_where_it_is_listed(staff: Desk) -> None:
    """By owners of the platform: its other members see it, and nobody else can tell what is frozen."""
    theirs = Desk(make_tenant())
    frozen = freezing.freeze(tenant=theirs.tenant, reason="it floods <us>", actor="user:ada")
    address = f"tenants/{theirs.tenant.id}/act/thaw"
    html = staff.see()
    assert f"Thaw the tenant {theirs.tenant.slug}?" in html
    assert "it floods &lt;us&gt;" in html
    onlooker = Desk(staff.tenant, Role.OPERATOR, tier=Tier.SYSTEM)
    assert theirs.tenant.slug in onlooker.see()
    assert "Thaw the tenant" not in onlooker.see()
    assert "it floods" in theirs.see()
    assert "data-act=" not in theirs.see()

    def press(desk: Desk, path: str = address, **given: str) -> int:
        return desk.client.post(f"/t/{desk.tenant.slug}/scheduler/{path}", {"note": "", **given}).status_code

    assert (press(theirs), press(onlooker)) == (404, 403)
    assert press(staff, address.replace("thaw", "freeze")) == 404
    assert press(staff, f"tenants/{uuid.uuid4()}/act/thaw") == 404
    assert freezing.standing(theirs.tenant) == frozen
    assert [press(staff, key="a"), press(staff, key="a"), press(staff, key="b")] == [200, 200, 409]
    assert freezing.standing(theirs.tenant) is None
    entry = AuditEntry.objects.get(action="tenant.thaw")
    assert (entry.tenant, entry.detail["reason"]) == (theirs.tenant, "it floods <us>")
    assert theirs.tenant.slug not in staff.see()


def test_a_tenant_sees_its_own_and_why_no_more(hot: HotTier) -> None:
    desk, other = Desk(make_tenant()), make_tenant()
    holder = lease("preloader", epoch=4141)
    lease("dispatcher/3", epoch=4242)
    Finding.objects.create(kind="reclaimed", detail="of others", count=4343, first_at=now(), last_at=now())
    hot.add([entry(desk.tenant, 60_000), *(entry(other, -9000) for _ in range(3))])
    html = desk.see()
    assert "0 critical · 1 standard · 0 bulk" in html
    assert "nothing is due that has not been sent" in html
    assert "Not shown here, and why" in html
    assert "leads" in html
    for hidden in ("4141", "4242", "4343", holder.hex[-8:], "noeviction", "data-act=", "of others", "epoch</dt>"):
        assert hidden not in html


def test_what_is_frozen_is_said_and_by_whom_only_to_the_platform(staff: Desk, hot: HotTier) -> None:
    desk = Desk(make_tenant())
    assert f"nothing of {desk.tenant.slug} is frozen" in desk.see()
    freezing.freeze(tenant=desk.tenant, reason="unpaid", actor="user:ada")
    assert f"{desk.tenant.slug} is frozen" in desk.see()
    assert "the scheduler dispatches; 1 tenant is frozen" in staff.see()
    assert f"<bdi>{desk.tenant.slug}</bdi></b>" in staff.see()
    freezing.freeze(tenant=None, reason="<b>month-end", actor="user:ada")
    assert "&lt;b&gt;month-end" in desk.see()
    assert "user:ada" not in desk.see()
    assert "user:ada" in staff.see()


def test_the_platforms_owners_move_it_and_nobody_else(staff: Desk, hot: HotTier) -> None:
    for role in ("preloader", "watchdog", *(f"dispatcher/{shard}" for shard in range(16))):
        lease(role)
    others = [Desk(make_tenant()), Desk(staff.tenant, Role.OPERATOR, Tier.SYSTEM)]
    for desk in others:
        assert "data-act=" not in desk.see()
        for act in ("freeze", "thaw", "failover-preloader"):
            assert "owners of the platform" in desk.act(act, 403, note="x")["problem"]
    Desk(staff.tenant, Role.VIEWER, Tier.SYSTEM).act("freeze", 403, note="x")
    assert (audited(), StandingHold.objects.count()) == ([], 0)
    assert "/reason" in staff.act("freeze", 422)["errors"][0]["problem"]
    staff.act("thaw", 409)
    staff.act("reboot", 404)
    staff.act("failover-janitor", 404)
    assert "frozen" in staff.act("freeze", note="month-end")["said"]
    assert 'data-label="Thaw"' in staff.see()
    staff.act("thaw")
    staff.act("failover-dispatcher")
    assert audited() == ["scheduler.freeze", "scheduler.thaw", "failover"]
    assert set(Lease.objects.filter(role__startswith="dispatcher/").values_list("epoch", flat=True)) == {8}
    assert Lease.objects.get(role="preloader").epoch == 7
    assert roles.read(now=now()).shards_led == 0


def test_without_redis_the_page_says_so(staff: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "redis_url", lambda: "redis://127.0.0.1:1/0")
    html = staff.see()
    assert "Redis does not answer: nothing is dispatched until it does" in html
    assert "the scheduler dispatches" not in html
    assert "<b>0</b>" not in html
    assert "Redis does not answer" in Desk(make_tenant()).see()


def test_queries_do_not_grow(staff: Desk, hot: HotTier, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(make_tenant())

    def cost(of: Desk) -> int:
        of.see()
        with CaptureQueriesContext(connection) as caught:
            of.see()
        return len(caught)

    few = cost(staff), cost(desk)
    hot.add([entry(make_tenant(), 60_000) for _ in range(20)] + [entry(desk.tenant, 1000) for _ in range(20)])
    for shard in range(16):
        lease(f"dispatcher/{shard}")
    assert (cost(staff), cost(desk)) == few
    assert max(few) <= 20
    monkeypatch.setattr(hot_state, "MOST_QUEUES", 1)
    assert "≥" in staff.see(), "what was not counted is said"


# ---- regions --------------------------------------------------------------------------------------------------------


def test_a_tenant_of_elsewhere_is_led_there(settings: Settings) -> None:
    away, lost = Desk(make_tenant()), Desk(make_tenant())
    for desk, region in ((away, "us-east"), (lost, "mars")):
        Tenant.objects.filter(id=desk.tenant.id).update(home_region=region)
    home = make_tenant()
    Tenant.objects.filter(id=home.id).update(home_region="eu-west")
    home.memberships.create(user=away.person, role=Role.VIEWER)
    settings.CHRONOWEB = replace(settings.CHRONOWEB, region="eu-west", region_urls=("us-east=https://us.example.com/",))
    answer = away.client.get(f"/t/{away.tenant.slug}/tasks/?q=a&sort=name")
    html = answer.content.decode()
    assert answer.status_code == 421
    assert f'href="https://us.example.com/t/{away.tenant.slug}/tasks/?q=a&amp;sort=name"' in html
    assert f'href="/t/{home.slug}/"' in html
    assert away.client.get(f"/t/{home.slug}/").status_code == 200
    assert "us-east" in away.act("freeze", 421)["problem"]
    assert "does not know where mars is" in lost.client.get(f"/t/{lost.tenant.slug}/").content.decode()
    assert Desk(make_tenant(), tier=Tier.SYSTEM).see()
