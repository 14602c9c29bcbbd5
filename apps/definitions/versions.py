"""A task's document and its versions in the ledger."""

from typing import Any

from apps.definitions.models import Task
from apps.definitions.validation import FIELDS
from apps.definitions.zones import TZDATA_VERSION
from apps.executions import routes
from apps.executions.circuits import key_of
from apps.executions.labels import required_by
from apps.executions.models import TaskVersion


def document_of(task: Task) -> dict[str, Any]:
    """The document in force, as the API shows it."""
    return {name: getattr(task, name) for name in FIELDS}


def put_document(task: Task, document: dict[str, Any]) -> None:
    """Take over a document that validation.read_document has returned; the caller plans it and saves."""
    for name in FIELDS:
        setattr(task, name, document[name])
    task.tzdata = TZDATA_VERSION


def write_version(task: Task, *, actor: str) -> TaskVersion:
    """Snapshot the document in force as version `task.version`, and name it in the task; the caller saves."""
    version = TaskVersion.objects.create(
        task_id=task.id,
        tenant_id=task.tenant_id,
        number=task.version,
        name=task.name,
        definition=document_of(task),
        circuit_key=key_of(task.handler),
        created_by=actor,
    )
    task.version_id = version.id
    task.route_id = routes.route_of(required_by(version.definition))
    return version
