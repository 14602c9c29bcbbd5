"""One act on many tasks: batch by batch, each a transaction of its own and a handful of statements."""

from collections.abc import Sequence
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.models import Task
from apps.definitions.standing import check_note, delete_all, pause_all, resume_all
from apps.definitions.tasks import live_tasks
from apps.definitions.triggering import trigger_all
from apps.executions import person_store
from apps.executions.bulk import Done, batches
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import ChronowebError

ACTIONS = ("pause", "resume", "trigger", "delete")


def act_on_tasks(*, principal: Principal, action: str, identities: Sequence[UUID], note: str = "") -> Done:
    """Do one of ACTIONS to these tasks; one that is deleted meanwhile has failed.

    note: of a pause. Raises InvalidInputs for one that is none.
    """
    check_note(note)
    found = Done()
    for batch in batches(identities):
        found.handled += len(batch)
        with transaction.atomic():
            rows = scoped(live_tasks(), principal).filter(id__in=batch)
            locked = list(rows.order_by("id").select_for_update())
            refused = _act(principal, action, locked, note)
        found.done += len(locked) - len(refused)
        found.failed |= refused | {gone: "it is deleted" for gone in set(batch) - {task.id for task in locked}}
    return found


def _act(principal: Principal, action: str, tasks: Sequence[Task], note: str) -> dict[UUID, str]:
    refused: dict[UUID, ChronowebError] = {}
    if action == "pause":
        pause_all(principal, tasks, note=note)
    elif action == "resume":
        resume_all(principal, tasks)
    elif action == "delete":
        refused = dict(delete_all(principal, tasks))
    else:
        now = person_store.database_now(postgres.raw(django_connection))
        refused = dict(trigger_all(principal, tasks, now=now))
    return {identity: str(why) for identity, why in refused.items()}
