"""The demo tenant: its tasks, its administrator and its API key.

The tasks are made once, together with the tenant. From then on they are the user's: what he changes stays changed
and what he deletes stays deleted.
"""

import logging
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from apps.definitions.dags import files
from apps.definitions.dags.making import create_dag
from apps.definitions.models import Task
from apps.definitions.services import create_task, update_task
from apps.quickstart.credentials import Credentials, read_credentials
from apps.quickstart.demo_container import container_task, local_image
from apps.tenants import keys
from apps.tenants.models import UNLIMITED, Membership, Role, Tenant, Tier
from apps.tenants.principal import Principal
from apps.worker.containers.policy import ContainerPolicy
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import InvalidInputs

logger = logging.getLogger(__name__)

TENANT = settings.DEMO_TENANT
PLATFORM = "platform"
"""A tenant of the platform's own: its owner sees all workers and leases, freezes, fails over and drains."""
ADMIN = "admin"
SELF_PATH = "/livez"
UPSTREAM_PATH = "/demo/upstream"
ACTOR = "quickstart"


def prepare(*, url: str, data_dir: Path, clock: Clock = SYSTEM_CLOCK) -> Credentials:
    """Make what is missing of the demo and write quickstart.json; harmless to repeat.

    url: where the web process answers, without a slash at the end.
    """
    before = read_credentials(data_dir)
    image = None if before else local_image(ContainerPolicy.of(config(), worker=0))
    with transaction.atomic():
        tenant, is_new = Tenant.objects.get_or_create(slug=TENANT, defaults={"name": "Demo"})
        principal = Principal(tenant_id=tenant.id, tenant_slug=tenant.slug, role=Role.OWNER, actor=ACTOR)
        if is_new:
            documents = demo_tasks(url=url, now=clock.now())
            for document in [*documents, container_task(image)] if image else documents:
                _unless_refused(document["name"], partial(create_task, principal=principal, data=document))
            for name, dag in example_dags().items():
                _unless_refused(name, partial(create_dag, principal=principal, data=dag))
        elif before is not None and before.url != url:
            _move_webhooks(principal, old=before.url, new=url)
        password = _administrator(tenant, before)
        api_key = before.api_key if before else ""
        if keys.principal_of(api_key, now=clock.now()) is None:
            api_key = keys.issue(tenant=tenant, name="quickstart", role=Role.OWNER)
    credentials = Credentials(url, tenant.slug, api_key, ADMIN, password)
    credentials.write(data_dir)
    return credentials


def demo_tasks(*, url: str, now: datetime) -> list[dict[str, Any]]:
    """The documents of the demo's tasks, as the REST API would take them."""
    soon = (now + timedelta(seconds=10)).replace(microsecond=0).isoformat()
    return [
        {
            "name": "every-minute",
            "description": "A cron schedule, exact to the millisecond: strict timing leaves no jitter.",
            "tags": ["demo"],
            "schedule": {"type": "cron", "expression": "* * * * *", "timezone": "UTC"},
            "strict_timing": True,
            "handler": {"type": "python", "name": "demo.noop"},
        },
        {
            "name": "every-5-seconds",
            "description": "Says hello from playground/tasks.py: edit that file and the next result shows it.",
            "tags": ["demo"],
            "schedule": {"type": "interval", "every_seconds": 5},
            "catchup_seconds": 0,
            "handler": {"type": "python", "name": "playground.hello"},
            "parameters": {"name": "chronoweb"},
        },
        {
            "name": "webhook-to-itself",
            "description": "Asks chronoweb's own web process whether it is alive.",
            "tags": ["demo"],
            "schedule": {"type": "interval", "every_seconds": 20},
            "catchup_seconds": 0,
            "handler": {"type": "webhook", "url": url + SELF_PATH, "method": "GET"},
            "timeout_seconds": 10,
            "retry_policy": {"max_attempts": 6, "backoff": "fixed", "base_delay_seconds": 5},  # the web may be up last
        },
        {
            "name": "moody-upstream",
            "description": "What it calls is away for two minutes in ten: its circuit opens, waits, and heals.",
            "tags": ["demo"],
            "schedule": {"type": "interval", "every_seconds": 10},
            "overlap_policy": "allow_all",  # one that waits to be tried again keeps no other from probing
            "catchup_seconds": 0,
            # By another name than the other webhook: a circuit belongs to a host's name.
            "handler": {"type": "webhook", "url": _by_name(url) + UPSTREAM_PATH, "method": "POST"},
            "timeout_seconds": 10,
            "retry_policy": {
                "max_attempts": 10,
                "backoff": "fixed",
                "base_delay_seconds": 3,
                "rules": [{"error": "http:503", "action": "retry", "base_delay_seconds": 2}],
            },
        },
        {
            "name": "third-time-lucky",
            "description": "Fails twice, is tried again after two seconds each time, and then succeeds.",
            "tags": ["demo"],
            "schedule": {"type": "interval", "every_seconds": 30},
            "catchup_seconds": 0,
            "handler": {"type": "python", "name": "demo.flaky"},
            "parameters": {"failures": 2},
            "retry_policy": {"max_attempts": 4, "backoff": "fixed", "base_delay_seconds": 2},
        },
        {
            "name": "invoice-with-a-comma",
            "description": "Its amount cannot be read, now or later: after two attempts it is a dead letter.",
            "tags": ["demo"],
            "schedule": {"type": "interval", "every_seconds": 3600, "start_at": soon},
            "catchup_seconds": 60,
            "handler": {"type": "python", "name": "demo.invoice"},
            "parameters": {"number": "2041", "amount": "12,50"},
            "retry_policy": {"max_attempts": 2, "backoff": "fixed", "base_delay_seconds": 2},
        },
        {
            "name": "long-haul",
            "description": "Works for 45 seconds and tells how far it is. Stop or kill its worker: another one goes on "
            "behind the last checkpoint.",
            "tags": ["demo"],
            "schedule": {"type": "interval", "every_seconds": 300, "start_at": soon},
            "catchup_seconds": 0,
            "handler": {"type": "python", "name": "demo.long_haul"},
            "parameters": {"steps": 90, "seconds_each": 0.5},
            "timeout_seconds": 120,
            "timeouts": {"heartbeat_seconds": 10},
            "retry_policy": {"max_attempts": 4, "backoff": "fixed", "base_delay_seconds": 2},
        },
    ]


def example_dags() -> dict[str, Any]:
    """The DAGs of the folder examples/ that need no schedule; none where only the packages are installed."""
    found = sorted((settings.BASE_DIR / "examples").glob("document-processing.*"))
    return {path.name: files.read(path.read_text(encoding="utf-8"), name=path.name) for path in found}


def _by_name(url: str) -> str:
    """The web process by the name that every machine has for itself."""
    return url.replace("//127.0.0.1", "//localhost")


def administrator() -> AbstractBaseUser:
    """The account that `prepare` made."""
    return get_user_model().objects.get(username=ADMIN)


def _administrator(tenant: Tenant, before: Credentials | None) -> str:
    """Make the account where it is missing; returns the password that quickstart gave it."""
    password = before.admin_password if before else secrets.token_urlsafe(15)
    users = get_user_model().objects
    user = users.filter(username=ADMIN).first()
    if user is None:
        user = users.create_superuser(username=ADMIN, password=password)
    elif before is None:
        # The file was lost: what it said cannot be known, so a new one is said.
        user.set_password(password)
        user.save(update_fields=["password"])
    of_platform = {"name": "Platform", "tier": Tier.SYSTEM, **UNLIMITED}
    platform, _ = Tenant.objects.get_or_create(slug=PLATFORM, defaults=of_platform)
    for each in (tenant, platform):
        Membership.objects.get_or_create(tenant=each, user=user, defaults={"role": Role.OWNER})
    return password


def _move_webhooks(principal: Principal, *, old: str, new: str) -> None:
    """The web process answers elsewhere than last time: tasks that call it follow."""
    moved = {old + SELF_PATH: new + SELF_PATH, _by_name(old) + UPSTREAM_PATH: _by_name(new) + UPSTREAM_PATH}
    for task in Task.objects.filter(tenant_id=principal.tenant_id, deleted_at=None, handler__url__in=list(moved)):
        handler = {**task.handler, "url": moved[task.handler["url"]]}
        edit = partial(update_task, principal=principal, task_id=task.id, data={"handler": handler}, partial=True)
        _unless_refused(task.name, edit)


def _unless_refused(name: str, act: Callable[[], object]) -> None:
    """Where the installation's own limits forbid a demo task (its networks the webhook), the others are still made."""
    try:
        act()
    except InvalidInputs as error:
        logger.warning("demo task refused", extra={"action": "demo.refused", "task": name, "error": str(error)})
