"""A newcomer's first minutes: what to try, what of it has been done, and that somebody does not want to hear of it."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from apps.console.fragments import may_act
from apps.console.posts import posted
from apps.definitions.crontab.planning import TAG
from apps.definitions.tasks import live_tasks
from apps.executions.models import DeadLetter
from apps.tenants.models import AuditEntry, Role, Tenant
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.clock import SYSTEM_CLOCK

SHOWN_FOR = timedelta(days=14)
"""Older tenants know their way."""

REMEMBERED_SECONDS = 366 * 24 * 3600
_LOOKED_AT = 500


@dataclass(frozen=True)
class Step:
    """icon: of icons.svg."""

    icon: str
    title: str
    text: str
    address: str
    done: bool


def steps(request: HttpRequest, principal: Principal) -> list[Step]:
    """Empty where nobody needs them: for viewers, in older tenants, once they were put away. At most four queries."""
    if not may_act(principal) or request.COOKIES.get(_cookie(principal)):
        return []
    since = SYSTEM_CLOCK.now() - SHOWN_FOR
    if not Tenant.objects.filter(id=principal.tenant_id, created_at__gte=since).exists():
        return []
    entries = AuditEntry.objects.filter(tenant_id=principal.tenant_id).order_by("-id")
    by_people = {action for action, actor in entries.values_list("action", "actor")[:_LOOKED_AT] if ":" in actor}
    slug = principal.tenant_slug
    letter = scoped(DeadLetter.objects.all(), principal).order_by("-execution_id").first()
    waits = "One waits: read its fault, edit its parameters, replay it."
    letters = reverse("console:letters", args=[slug])
    found = [
        Step(
            "task",
            "Make a task of your own",
            "Its function may be yours: what you save in playground/ is offered in the form.",
            reverse("console:task_new", args=[slug]),
            "task.create" in by_people,
        ),
        Step(
            "dead_letter",
            "Mend what failed",
            waits if letter else "What fails for good waits there: read why, edit its parameters, replay it.",
            reverse("console:letter", args=[slug, letter.execution_id]) if letter else letters,
            "execution.replay" in by_people,
        ),
        Step(
            "list",
            "Paste your crontab",
            "Each line in plain words with its next times, before anything is written.",
            reverse("console:crontab", args=[slug]),
            scoped(live_tasks(), principal).filter(tags__contains=[TAG]).exists(),
        ),
    ]
    if settings.QUICKSTART_CONTROL and slug == settings.DEMO_TENANT and principal.may(Role.OWNER):
        broken = any(action.startswith("break_it.") for action in by_people)
        text = "Kill a worker, empty Redis: and count that nothing is lost."
        found.insert(1, Step("failed", "Break it", text, reverse("quickstart:break_it", args=[slug]), broken))
    return found


@posted
def put_away(request: HttpRequest, principal: Principal) -> JsonResponse:
    """This browser does not show them again for this tenant."""
    answer = JsonResponse({"said": "put away"})
    answer.set_cookie(
        _cookie(principal),
        "1",
        max_age=REMEMBERED_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
    return answer


def _cookie(principal: Principal) -> str:
    return f"first-steps-{principal.tenant_slug}"
