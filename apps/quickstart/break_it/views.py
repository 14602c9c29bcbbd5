"""The page "Break it": for owners of the demo tenant, where a supervisor listens, and nowhere else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.console.clicks import key_of, once, question_of, unheard
from apps.console.fragments import PiecesConsumer, polled
from apps.console.posts import posted_by
from apps.console.views import frame, in_tenant
from apps.quickstart import demo
from apps.quickstart.break_it import channel, ledger, load
from apps.quickstart.break_it.notes import Act, Notebook
from apps.quickstart.break_it.page import BreakItPage
from apps.tenants import audit
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import Conflict, NotFound

ACTS = ("worker", "dispatcher", "preloader", "redis", "postgres")
_ASK_SECONDS = 6.0
_AWAY = "PostgreSQL is away just now. It comes back within seconds; nothing was done."


@in_tenant
def page(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Members who are no owners are told so."""
    folder = _folder(principal)
    context = frame(request, principal) | {"page": "overview", "may": principal.may(Role.OWNER), "count": load.COUNT}
    if not context["may"]:
        return render(request, "quickstart/break_it/page.html", context, status=403)
    context["pieces"] = BreakItPage(principal, folder).pieces()
    return render(request, "quickstart/break_it/page.html", context)


@in_tenant
def state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    folder = _folder(principal)
    if not principal.may(Role.OWNER):
        raise NotFound("owners only")
    return JsonResponse(polled(BreakItPage(principal, folder)))


@posted_by(Role.OWNER)
def act(request: HttpRequest, principal: Principal, *, act: str) -> JsonResponse:
    """load, or one of ACTS. Each leaves an entry in the audit log before it is done."""
    folder = _folder(principal)
    try:
        if act == "load":
            begun = once(
                principal,
                key=key_of(request.POST),
                question=question_of(request),
                act=lambda: {"said": _load(principal, folder)},
            )
            return JsonResponse(begun)
        if act not in ACTS:
            raise NotFound(f"{act} is nothing that can be broken here")
        return JsonResponse(_broken(request, principal, folder, act))
    except (DatabaseError, InterfaceError, psycopg.Error):
        return JsonResponse({"problem": _AWAY}, status=503)


def _folder(principal: Principal) -> Path:
    """Of the supervisor's socket. Raises NotFound where there is none, and for every other tenant."""
    if not settings.QUICKSTART_CONTROL or principal.tenant_slug != demo.TENANT:
        raise NotFound("nothing is broken on purpose here")
    return Path(settings.QUICKSTART_CONTROL).parent


def _load(principal: Principal, folder: Path) -> str:
    task, accepted = load.start(principal, SYSTEM_CLOCK)
    Notebook(folder).took(task, accepted)
    return f"{len(accepted)} executions are on their way. Break something."


@dataclass(frozen=True)
class _Target:
    """place: the supervisor's name for the process; name: its own, a worker's from the ledger. pid: 0 for none."""

    place: str
    name: str
    pid: int = 0


def _broken(request: HttpRequest, principal: Principal, folder: Path, act: str) -> dict[str, Any]:
    """The click's key and the entry are in the ledger before anything is hit: PostgreSQL itself may be. A click that
    hit nothing has used no key.
    """
    hits: list[tuple[_Target, dict[UUID, int]]] = []

    def noted() -> dict[str, Any]:
        target, flying = _noted(principal, folder, act)
        hits.append((target, flying))
        return {"said": f"{target.name} is hit, with {len(flying)} in flight"}

    key = key_of(request.POST)
    told = once(principal, key=key, question=question_of(request), act=noted)
    for target, flying in hits:
        at = SYSTEM_CLOCK.now()
        question = {"act": act} if act in ("redis", "postgres") else {"act": "kill", "name": target.place}
        try:
            done = _asked(folder, question)
        except Conflict:
            unheard(principal, key=key)
            raise
        Notebook(folder).broke(Act(at, act, target.name, done.get("pid", 0), flying))
    return told


def _noted(principal: Principal, folder: Path, act: str) -> tuple[_Target, dict[UUID, int]]:
    """What is to be hit, and what is in flight; with an entry in the audit log."""
    flying = ledger.flying(settings.SERVICES.database_url, Notebook(folder).read())
    target = _worker(folder) if act == "worker" else _Target(act, "postgresql" if act == "postgres" else act)
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=f"break_it.{act}",
        target_type="process",
        target_id=target.name,
        detail={"in_flight": len(flying)} | ({"pid": target.pid} if target.pid else {}),
    )
    return target, flying


def _worker(folder: Path) -> _Target:
    """The one that has most to do."""
    places = {
        pid: name for name, pid in _asked(folder, {"act": "look"})["processes"].items() if name.startswith("worker")
    }
    if not places:
        raise Conflict("No worker runs just now: they are being started again.")
    url = settings.SERVICES.database_url
    pid = ledger.busiest(url, list(places)) or min(places, key=lambda one: places[one])
    return _Target(places[pid], ledger.workers(url, [pid]).get(pid, "worker"), pid)


def _asked(folder: Path, question: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = channel.ask(folder / "control.sock", question, seconds=_ASK_SECONDS)
    except OSError as error:
        raise Conflict("The supervisor does not answer just now. Try again in a moment.") from error
    if "problem" in answer:
        raise Conflict(str(answer["problem"]).capitalize() + ".")
    return answer


class BreakItConsumer(PiecesConsumer):
    name = "break-it"

    def check(self) -> None:
        _folder(self.principal)
        if not self.principal.may(Role.OWNER):
            raise NotFound("owners only")

    def page(self) -> BreakItPage:
        return BreakItPage(self.principal, _folder(self.principal))
