"""`ctl dlq …`: what ran out of attempts."""

from argparse import Namespace
from typing import Any

from apps.ctl.client import Client
from apps.ctl.output import Output

COLUMNS = {
    "ID": "id",
    "TASK": "task_name",
    "SINCE": "since",
    "ATTEMPTS": "attempt",
    "ERROR": "error.type",
    "MESSAGE": "error.message",
}


def list_(client: Client, options: Namespace, output: Output) -> None:
    output.items(client.pages("/admin/dlq", limit=options.limit, **_filter(client, options)), COLUMNS)


def retry(client: Client, options: Namespace, output: Output) -> None:
    body = {"from_start": True} if options.from_start else {}
    found = client.post(f"/admin/dlq/{options.execution}/replay", body)
    if output.format == "table":
        output.say(f"{found['id']}: {found['status']} again")
    else:
        output.value(found)


def retry_all(client: Client, options: Namespace, output: Output) -> None:
    """Those that the filter finds; nothing given is everything, and must be asked for by --all."""
    wanted = {name: value for name, value in _filter(client, options).items() if value is not None}
    body: dict[str, Any] = {"filter": wanted, "dry_run": options.dry_run}
    if options.rate is not None:
        body["rate"] = options.rate
    output.one(client.post("/admin/dlq/retry-all", body))


def discard(client: Client, options: Namespace, output: Output) -> None:
    client.call("DELETE", f"/admin/dlq/{options.execution}", parameters={"reason": options.reason})
    output.say(f"{options.execution}: discarded")


def _filter(client: Client, options: Namespace) -> dict[str, Any]:
    return {"task_id": None if options.task is None else client.find("tasks", options.task)}
