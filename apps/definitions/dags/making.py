"""Making DAGs and editing them: each function is one transaction, its entry in the audit log included."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db import connection as django_connection
from django.db.models import Q

from apps.definitions.dags.differences import Difference, differences
from apps.definitions.dags.document import FIELDS, SPELLINGS, DagDocument, read_dag, refuse_both_spellings
from apps.definitions.dags.versions import document_of, put_document, write_graph, write_version
from apps.definitions.edits import refire_at
from apps.definitions.mismatch import VersionMismatch, mismatch
from apps.definitions.models import Dag, Task
from apps.definitions.notifications import unknown_channels
from apps.definitions.occurrences import Schedule
from apps.definitions.scheduling import first_fire_at, jitter_ms
from apps.definitions.secret_references import missing_secrets
from apps.definitions.tasks import live_tasks
from apps.definitions.versions import document_of as task_document_of
from apps.definitions.zones import TZDATA_VERSION
from apps.executions import person_store
from apps.executions.models import DagVersion
from apps.tenants import audit
from apps.tenants.identity import new_uuid
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import Resolve, system_resolve
from chronoweb.runtime.uuids import parse_uuid


@dataclass
class TasksOf:
    """The tenant's tasks that a document refers to."""

    principal: Principal
    found: dict[str, Task] = field(default_factory=dict)

    def __call__(self, words: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        return self.look(words, lock=True)

    def look(self, words: Iterable[str], *, lock: bool = False) -> dict[str, Mapping[str, Any]]:
        """Their documents by name, and by the words that were used. lock: a deletion waits, and then refuses."""
        wanted = set(words)
        if not wanted:
            return {}
        by_word = {word: identity for word in wanted if (identity := parse_uuid(word)) is not None}
        asked = Q(name__in=wanted) | Q(id__in=by_word.values())
        rows = scoped(live_tasks(), self.principal).filter(asked).order_by("id")
        for task in rows.select_for_update(no_key=True) if lock else rows:
            self.found[task.name] = task
        documents = {task.name: task_document_of(task) for task in self.found.values()}
        by_id = {task.id: documents[task.name] for task in self.found.values()}
        return {**{word: by_id[identity] for word, identity in by_word.items() if identity in by_id}, **documents}


@dataclass(frozen=True)
class Applied:
    """What `apply` has done, or would do. dag: None when a dry run would make it. version: the one in force then."""

    dag: Dag | None
    version: int
    differences: list[Difference]


@dataclass(frozen=True)
class Judged:
    """What a document would be: as it would be stored, and how it differs from the one in force."""

    document: DagDocument
    differences: list[Difference]


def judge(*, principal: Principal, data: Any, dag: Dag | None = None, resolve: Resolve = system_resolve) -> Judged:
    """Read a document, for `dag` or as a new one; locks and writes nothing. Raises InvalidInputs."""
    before = None if dag is None else document_of(dag)
    document = _read(principal, data, _now(), TasksOf(principal).look, before, resolve)
    name = document.values["name"]
    if scoped(live_dags(), principal).filter(name=name).exclude(id=None if dag is None else dag.id).exists():
        raise InvalidInputs([InvalidInput("/name", name, "is taken by another DAG", "a name of its own")])
    return Judged(document, differences(before, document.values))


@transaction.atomic
def create_dag(*, principal: Principal, data: Any) -> Dag:
    """Define a DAG from its document, in force at once.

    Raises InvalidInputs with every error, Conflict (extra: existing_id) when the name is taken.
    """
    now, tasks = _now(), TasksOf(principal)
    document = _read(principal, data, now, tasks, None)
    return _create(principal, document, tasks.found, now)


@transaction.atomic
def update_dag(
    *, principal: Principal, dag_id: UUID, data: Any, partial: bool, expected_version: int | None = None
) -> Dag:
    """Put a new document in force (partial: the fields given, each as a whole); none is written if nothing changes.

    Runs that have begun keep the version that they were made from. expected_version: refuse with VersionMismatch
    unless this version is in force. Raises NotFound, InvalidInputs, Conflict when the name is taken.
    """
    dag = locked_dag(principal, dag_id)
    if expected_version is not None and expected_version != dag.version:
        raise mismatch_of(dag, expected_version, data)
    before = document_of(dag)
    if partial and isinstance(data, Mapping):
        refuse_both_spellings(data)
    given = {**before, **_own_words(data)} if partial and isinstance(data, Mapping) else data
    now, tasks = _now(), TasksOf(principal)
    document = _read(principal, given, now, tasks, before)
    _update(principal, dag, document, tasks.found, before, now)
    return dag


@transaction.atomic
def apply(*, principal: Principal, data: Any, dry_run: bool = False) -> Applied:
    """Make the DAG of this name what the document says: create it, edit it, or leave it if nothing differs.

    dry_run: nothing is written. Raises InvalidInputs.
    """
    now, tasks = _now(), TasksOf(principal)
    name = _own_words(data).get("name") if isinstance(data, Mapping) else None
    named = scoped(live_dags(), principal).filter(name=name.strip() if isinstance(name, str) else None)
    dag = named.select_for_update().first()
    before = None if dag is None else document_of(dag)
    document = _read(principal, data, now, tasks, before)
    found = differences(before, document.values)
    if dry_run:
        return Applied(dag, 1 if dag is None else dag.version + bool(found), found)
    if dag is None:
        dag = _create(principal, document, tasks.found, now)
    elif before is not None:
        _update(principal, dag, document, tasks.found, before, now)
    return Applied(dag, dag.version, found)


def live_dags() -> Any:
    """DAGs that are not deleted."""
    return Dag.objects.filter(deleted_at=None)


def locked_dag(principal: Principal, dag_id: UUID) -> Dag:
    """The principal's DAG, locked until the transaction ends. Raises NotFound."""
    return scoped_get(live_dags().select_for_update(), principal, what="DAG", id=dag_id)


def record(principal: Principal, dag: Dag, action: str, **detail: object) -> None:
    """The entry of the audit log."""
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="dag",
        target_id=dag.id,
        detail=detail,
    )


def _read(
    principal: Principal,
    data: Any,
    now: datetime,
    tasks: Callable[[Iterable[str]], Mapping[str, Mapping[str, Any]]],
    before: Mapping[str, Any] | None,
    resolve: Resolve = system_resolve,
) -> DagDocument:
    """The document, and that it names channels and its inline nodes secrets which exist."""
    document = read_dag(data, now=now, find_tasks=tasks, before=before, resolve=resolve)
    listed = "tasks" if "tasks" in data else "nodes"
    handlers = {
        f"/{listed}/{position}/handler": node.stored["handler"]
        for position, node in enumerate(document.nodes)
        if "handler" in node.stored
    }
    errors = unknown_channels(document.values["notifications"], principal.tenant_id)
    errors += missing_secrets(handlers, principal.tenant_id)
    if errors:
        raise InvalidInputs(errors)
    return document


def _create(principal: Principal, document: DagDocument, tasks: Mapping[str, Task], now: datetime) -> Dag:
    dag = Dag(id=new_uuid(), tenant_id=principal.tenant_id)
    put_document(dag, document)
    schedule = Schedule.parse(dag.schedule)
    dag.jitter_ms = jitter_ms(dag, schedule)
    dag.next_fire_at, dag.tzdata = first_fire_at(schedule, after=now), TZDATA_VERSION
    write_version(dag, document, actor=principal.actor)
    _save_named(dag, principal, lambda: dag.save(force_insert=True))
    write_graph(dag, document, tasks, actor=principal.actor)
    record(principal, dag, "dag.create", name=dag.name, nodes=dag.node_count)
    transaction.on_commit(wakeup.preloader.wake)
    return dag


def _update(
    principal: Principal,
    dag: Dag,
    document: DagDocument,
    tasks: Mapping[str, Task],
    before: Mapping[str, Any],
    now: datetime,
) -> None:
    """Puts the document in force if it differs from the one before."""
    changed = [name for name in FIELDS if document.values[name] != before.get(name)]
    if not changed:
        return
    put_document(dag, document)
    dag.version += 1
    schedule = Schedule.parse(dag.schedule)
    if "schedule" in changed:
        dag.next_fire_at, dag.waiting_since = refire_at(dag, schedule, now), None
        dag.tzdata = TZDATA_VERSION
    dag.jitter_ms = jitter_ms(dag, schedule)
    write_version(dag, document, actor=principal.actor)
    _save_named(dag, principal, dag.save)
    if "nodes" in changed:
        write_graph(dag, document, tasks, actor=principal.actor)
    record(principal, dag, "dag.update", version=dag.version, changed=changed)
    transaction.on_commit(wakeup.preloader.wake)


def _own_words(data: Mapping[str, Any]) -> dict[str, Any]:
    return {SPELLINGS.get(str(name), str(name)): value for name, value in data.items()}


def mismatch_of(dag: Dag, expected: int, yours: Any) -> VersionMismatch:
    """Why an edit that was made from version `expected` is refused."""
    seen = DagVersion.objects.filter(dag_id=dag.id, number=expected).values_list("definition", flat=True).first()
    given = _own_words(yours) if isinstance(yours, Mapping) else yours
    current = document_of(dag)
    return mismatch(f"DAG {dag.id}", version=dag.version, expected=expected, seen=seen, current=current, yours=given)


def _save_named(dag: Dag, principal: Principal, save: Callable[[], None]) -> None:
    """Save a DAG whose name may be taken: Conflict instead of the database's words."""
    _refuse_taken(dag, principal)
    try:
        with transaction.atomic():
            save()
    except IntegrityError as error:
        _refuse_taken(dag, principal)
        raise error


def _refuse_taken(dag: Dag, principal: Principal) -> None:
    other = scoped(live_dags(), principal).filter(name=dag.name).exclude(id=dag.id).first()
    if other is not None:
        raise Conflict(
            f"the name {dag.name!r} is taken by DAG {other.id}; choose another name or edit that DAG",
            existing_id=str(other.id),
            pointer="/name",
        )


def _now() -> datetime:
    return person_store.database_now(postgres.raw(django_connection))
