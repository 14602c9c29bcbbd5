"""Dead letters that failed alike: how many there are of each kind, since when, and one to look at."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection as django_connection

from apps.executions.dead_letters import DeadLetterFilter
from apps.executions.models import Execution
from apps.executions.store import named_sql
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime import postgres

MOST_GROUPED = 10_000
"""Dead letters that are looked at, the latest due first; what an installation lets lie beyond that is not grouped."""
SHOWN = 50


@dataclass(frozen=True, slots=True)
class Group:
    """Of one task and fingerprint. first and last: when they died, aware. newest: the execution due last, which may
    just have been replayed: then sample is None.
    """

    fingerprint: str
    task_id: UUID
    count: int
    first: datetime
    last: datetime
    newest: UUID
    sample: Execution | None


@dataclass(frozen=True, slots=True)
class Groups:
    """shown: the largest. total: dead letters in all groups, and kinds: how many groups. at_least: there are more."""

    shown: list[Group]
    total: int
    kinds: int
    at_least: bool


def groups(principal: Principal, wanted: DeadLetterFilter, *, most: int = SHOWN) -> Groups:
    """Two queries."""
    parameters = {
        "tenant": principal.tenant_id,
        "task": wanted.task_id,
        "fingerprint": wanted.fingerprint,
        "since": wanted.since,
        "until": wanted.until,
        "most": MOST_GROUPED + 1,
        "groups": most,
    }
    rows = postgres.raw(django_connection).execute(named_sql("dead_letter_groups"), parameters).fetchall()
    samples = _samples(principal, [row[5] for row in rows])
    shown = [
        Group(fingerprint, task_id, count, first, last, newest, samples.get(newest))
        for fingerprint, task_id, count, first, last, newest, *_ in rows
    ]
    total, kinds = rows[0][6:] if rows else (0, 0)
    return Groups(shown, min(total, MOST_GROUPED), kinds, total > MOST_GROUPED)


def _samples(principal: Principal, identities: list[UUID]) -> dict[UUID, Execution]:
    found = scoped(Execution.objects.with_ids(identities), principal).select_related("task_version")
    return {row.id: row for row in found.defer("payload", "result")}
