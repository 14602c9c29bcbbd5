"""Why an execution is not running, for its page: each cause with its figures, and where it can be removed."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.urls import NoReverseMatch, reverse

from apps.executions.models import Execution
from apps.executions.states import RESTING
from apps.explain import service
from apps.explain.estimate import Estimate, Position
from apps.explain.words import Code, Reason
from apps.tenants.principal import Principal
from chronoweb.runtime.uuids import parse_uuid

_MOST_NAMED = 5
_OF_TASK = {
    Code.TASK_PAUSED: "resume it on its task's page",
    Code.NOT_DUE: "its schedule",
    Code.RETRY_DELAY: "its retry policy",
    Code.RETRY_BUDGET: "its retry policy",
    Code.CIRCUIT_OPEN: "what its task calls",
    Code.CIRCUIT_SLOW_START: "what its task calls",
}
_OF_TIME = frozenset({Code.NOT_DUE, Code.RETRY_DELAY})
_OF_WORKERS = frozenset({Code.NO_WORKER, Code.NO_FREE_SLOT, Code.AWAITING_CLAIM})
_OF_LIMITS = frozenset(
    {
        Code.MAX_CONCURRENT_WORKERS,
        Code.RATE_LIMIT_RPS,
        Code.EXECUTIONS_PER_HOUR,
        Code.COMPUTE_MINUTES_PER_MONTH,
        Code.LOG_STORAGE_GB,
    }
)
_OF_SCHEDULER = frozenset(
    {Code.TENANT_FROZEN, Code.SCHEDULER_FROZEN, Code.NO_PRELOADER, Code.NO_DISPATCHER, Code.NOT_LOADED}
)
_OF_RUN = frozenset({Code.APPROVAL, Code.RUN_PAUSED, Code.RUN_STOPPED, Code.OPEN_DEPENDENCIES})
_WORDS = {
    "by": "by {}",
    "takeover_seconds": "another takes over within {} s",
    "deadline_seconds": "taken back after {} s",
    "workers_alive": "{} workers live",
    "workers": "{} workers may run it",
    "outstanding": "{} of its class are out",
    "ahead": "{} wait before it",
    "worker_id": "worker-{}",
    "percent": "{} % are let through",
    "labels": "labels {}",
    "last_error": "last: {}",
    "when_full": "when full: {}",
}
_UNSAID = frozenset(
    "circuit_id node run_id message error used limit note held_by shard attempt max_attempts key running slots"
    " failures slow_start_until starts_in_seconds".split()
)
"""Figures that the sentence or a link says already."""


@dataclass(frozen=True)
class Cause:
    """link: where it is removed; empty: nowhere but in time. holders: executions that must end first."""

    reason: Reason
    figures: list[str]
    link: str
    link_words: str
    holders: list[UUID]


@dataclass(frozen=True)
class Why:
    """What the card shows. place: None where it does not queue. guess: None once it has begun."""

    causes: list[Cause]
    place: Position | None
    guess: Estimate | None

    @property
    def place_words(self) -> str:
        if self.place is None:
            return "it stands in no queue"
        ahead = f"{'at least ' if self.place.at_least else ''}{self.place.ahead:,} before it"
        first = ahead if self.place.ahead or self.place.at_least else "next in its queue"
        turns = f", {self.place.turns:,} queues take turns" if (self.place.turns or 0) > 1 else ""
        waits = any(cause.reason.code is Code.NOT_LOADED for cause in self.causes)
        return f"{first}{turns}{', not loaded yet' if waits else ''}"

    @property
    def basis(self) -> str:
        """What the guess follows from, or why there is none."""
        return "" if self.guess is None else self.guess.basis.replace("_", " ")


def read(principal: Principal, execution: Execution) -> Why | None:
    """One statement and two round trips to Redis; None where it simply runs, or rests."""
    if execution.state in RESTING:
        return None
    found = service.explain(principal, execution.id)
    if [reason.code for reason in found.reasons] == [Code.RUNNING]:
        return None
    causes = [_cause(reason, principal.tenant_slug, execution) for reason in found.reasons]
    if any(reason.code in _OF_TIME for reason in found.reasons):
        return Why(causes, None, None)  # until its time nobody stands before it
    return Why(causes, found.position, found.estimate)


def _cause(reason: Reason, slug: str, execution: Execution) -> Cause:
    link, words = _where(reason, slug, execution)
    held = reason.figures.get("held_by") or ()
    holders = [found for one in held[:_MOST_NAMED] if (found := parse_uuid(str(one)))]
    return Cause(reason, _figures(reason), link, words, holders)


def _where(reason: Reason, slug: str, execution: Execution) -> tuple[str, str]:
    """The page on which a person removes the cause, and what to look for there."""
    if reason.code in _OF_TASK and execution.dag_run_id is None:
        return reverse("console:task", kwargs={"slug": slug, "task_id": execution.task_id}), _OF_TASK[reason.code]
    if reason.code in _OF_WORKERS:
        return reverse("console:workers", kwargs={"slug": slug}), "its workers"
    if reason.code in _OF_LIMITS:
        return reverse("console:settings_limits", kwargs={"slug": slug}), "its limits and their use"
    if reason.code in _OF_SCHEDULER:
        return _scheduler(slug), "the scheduler"
    if reason.code in _OF_RUN and execution.dag_run_id is not None:
        address = reverse("console:run", kwargs={"slug": slug, "run_id": execution.dag_run_id})
        node = reason.figures.get("node")
        return f"{address}#node={quote(str(node), safe='')}" if node else address, "its run"
    return "", ""


def _scheduler(slug: str) -> str:
    """Empty where the console has no such page."""
    try:
        return reverse("console:scheduler", kwargs={"slug": slug})
    except NoReverseMatch:
        return ""


def _figures(reason: Reason) -> list[str]:
    """What the sentence does not say."""
    said = _UNSAID | {"ahead"} if reason.begins is not None or reason.code is Code.RATE_LIMIT_RPS else _UNSAID
    return [
        _WORDS.get(name, f"{name.replace('_', ' ')} {{}}").format(_shown(value))
        for name, value in reason.figures.items()
        if name not in said and value not in (None, "", [])
    ]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
