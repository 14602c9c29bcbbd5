"""The admin's pages, from its registry: what the tests of accessibility and the pictures visit.

A model that is registered is visited by itself: its list, a row, the forms to add and to delete, what has no hits.
"""

from collections.abc import Iterator

from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from apps.definitions.models import Backfill
from apps.executions.dead_letters import DeadLetterFilter, start_replay
from apps.executions.models import CircuitBreaker, Finding, Lease, StandingHold
from apps.executions.states import Hold
from apps.tenants import audit, channels, keys, secret_store
from apps.tenants.models import SignIn
from tests.console_ledger import HOSTILE, make_person, now
from tests.console_tour import Stop
from tests.console_world import World
from tests.factories import make_principal

FEW = ("index", "execution-list", "execution-change", "tenant-change", "user-add", "apikey-add", "task-nohits")
"""What stands for all of them in the suite's own run."""


def furnish(world: World) -> User:
    """Something in every table that the admin shows; returns who may see it all."""
    tenant, instant, who = world.tenant, now(), make_principal(world.tenant)
    root = User.objects.create(username="root", email="root@example.com", is_staff=True, is_superuser=True)
    keys.issue(tenant=tenant, name="ci deploys")
    secret_store.create(principal=who, name="DB_PASSWORD", given={"value": "v"})
    channels.create(principal=who, kind="email", name="us", given={"to": ["a@example.com"]})
    SignIn.objects.create(tenant=tenant, user=make_person(tenant), refresh_id="r", expires_at=instant)
    start_replay(principal=who, wanted=DeadLetterFilter())
    StandingHold.objects.create(target_id=tenant.id, reason=Hold.FROZEN, note=HOSTILE, actor="user:ada", since=instant)
    CircuitBreaker.objects.create(
        tenant=tenant, key="webhook:api.shop.example:443", last_error=HOSTILE, changed_at=instant, opened_at=instant
    )
    Backfill.objects.create(
        tenant=tenant, task=world.task, schedule={}, start_at=instant, end_at=instant, at_once=2, total=864, made=120,
        created_at=instant, created_by="user:ada",
    )  # fmt: skip
    Lease.objects.create(role="preloader", holder=tenant.id, epoch=3, expires_at=instant, acquired_at=instant)
    Finding.objects.create(first_at=instant, last_at=instant, kind="leaked", detail="slots", count=2)
    Group.objects.create(name="support").permissions.set(Permission.objects.filter(codename__startswith="view_"))
    for act in ("task.pause", "execution.cancel"):
        audit.record(
            tenant_id=tenant.id, actor="user:ada", action=act, target_type="task", target_id=world.task.id, detail={}
        )
    return root


def admin_pages(client: Client, *, more: bool = True) -> list[Stop]:
    """Those that answer with a page to whoever the client is; without more the few."""
    wanted = [(name, path) for name, path in _addresses() if more or name in FEW]
    assert more or len(wanted) == len(FEW)
    return [Stop(f"admin-{name}", path) for name, path in wanted if client.get(path).status_code == 200]


def _addresses() -> Iterator[tuple[str, str]]:
    yield "index", reverse("admin:index")
    yield "password", reverse("admin:password_change")
    for model, pages in admin.site._registry.items():
        name, base = model._meta.model_name, f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield f"{name}-list", reverse(f"{base}_changelist")
        yield f"{name}-add", reverse(f"{base}_add")
        if pages.search_fields:
            yield f"{name}-nohits", reverse(f"{base}_changelist") + "?q=nothing-has-this"
        first = model._default_manager.order_by("-pk").first()
        if first is not None:
            for page in ("change", "delete"):
                yield f"{name}-{page}", reverse(f"{base}_{page}", args=[first.pk])
