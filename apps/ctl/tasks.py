"""`ctl tasks …`"""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from apps.ctl import executions, files
from apps.ctl.answers import Answer
from apps.ctl.client import Client
from apps.ctl.output import Output

COLUMNS = {
    "NAME": "name",
    "SCHEDULE": "schedule.expression",
    "HANDLER": "handler.type",
    "PRIORITY": "priority",
    "NEXT": "next_fire_at",
    "PAUSED": "paused_at",
    "ID": "id",
}


def list_(client: Client, options: Namespace, output: Output) -> None:
    given = {"search": options.search, "name": options.name, "tag": options.tag, "paused": options.paused}
    found = client.pages("/tasks", limit=options.limit, **given)
    output.items([_line(task) for task in found] if output.format == "table" else found, COLUMNS)


def show(client: Client, options: Namespace, output: Output) -> None:
    output.one(client.get(f"/tasks/{client.find('tasks', options.task)}"))


def create(client: Client, options: Namespace, output: Output) -> None:
    for document in files.read(options.file):
        task = client.post("/tasks", document)
        _defined(output, task, "created")


def apply(client: Client, options: Namespace, output: Output) -> None:
    """By name: the task becomes what the document says; what that does not name takes its default.

    It is replaced at the version that was looked at, or not at all.
    """
    for document in files.read(options.file):
        name = document.get("name")
        found = client.get("/tasks", name=name, limit=1).objects("items") if isinstance(name, str) else []
        if not found:
            _apply_new(client, document, options, output)
            continue
        before = found[0]
        for field in [field for field, value in document.items() if differs(value, before.get(field))]:
            output.say(f"  {field}: {before.get(field)!r} → {document[field]!r}")
        if options.dry_run:
            output.say(f"{name}: version {before['version']} is in force; nothing was written")
            continue
        task = client.put(f"/tasks/{before['id']}", document, version=before["version"])
        _defined(output, task, "unchanged" if task["version"] == before["version"] else "edited")


def differs(given: Any, shown: Any) -> bool:
    """Whether a document says otherwise than what is shown, which has the defaults filled in."""
    if isinstance(given, Mapping) and isinstance(shown, Mapping):
        return any(differs(value, shown.get(name)) for name, value in given.items())
    return bool(given != shown)


def pause(client: Client, options: Namespace, output: Output) -> None:
    body = {} if options.note is None else {"note": options.note}
    task = client.post(f"/tasks/{client.find('tasks', options.task)}/pause", body)
    _told(output, task, f"{task['name']}: paused; triggers by hand still run")


def resume(client: Client, options: Namespace, output: Output) -> None:
    task = client.post(f"/tasks/{client.find('tasks', options.task)}/resume")
    _told(output, task, f"{task['name']}: goes on, next at {task['next_fire_at']}")


def trigger(client: Client, options: Namespace, output: Output) -> None:
    given = {
        "run_at": options.run_at,
        "parameters": files.parameters(options.parameters, options.parameter),
        "idempotency_key": options.idempotency_key,
    }
    body = {name: value for name, value in given.items() if value is not None}
    made = client.post(f"/tasks/{client.find('tasks', options.task)}/trigger", body)
    if options.wait is None:
        _told(output, made, f"{made['id']}: {made['status']}, due at {made['run_at']}")
    else:
        executions.wait(client, made["id"], options.wait, output)


def delete(client: Client, options: Namespace, output: Output) -> None:
    client.delete(f"/tasks/{client.find('tasks', options.task)}")
    output.say(f"{options.task}: deleted; its history stays")


def _apply_new(client: Client, document: dict[str, Any], options: Namespace, output: Output) -> None:
    if options.dry_run:
        output.say(f"{document.get('name')}: would be created; nothing was written")
    else:
        _defined(output, client.post("/tasks", document), "created")


def _defined(output: Output, task: Answer, what: str) -> None:
    _told(output, task, f"{task['name']}: {what}, version {task['version']}, id {task['id']}")
    for warning in task.objects("warnings") if task.get("warnings") else []:
        output.say(f"  {warning['pointer']}: {warning['detail']}")


def _told(output: Output, value: Mapping[str, Any], text: str) -> None:
    if output.format == "table":
        output.say(text)
    else:
        output.value(value)


def _line(task: Answer) -> dict[str, Any]:
    """The schedule in a word, whatever its type."""
    schedule = task.object("schedule")
    words = {
        "cron": f"{schedule['expression']} ({schedule['timezone']})",
        "interval": f"every {schedule['every_seconds']} s",
        "one_shot": f"once, {schedule['run_at']}",
    }
    return {**task, "schedule": {"expression": words.get(schedule.text("type"), schedule["type"])}}
