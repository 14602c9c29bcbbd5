"""`ctl dlq …`: what ran out of attempts."""

from argparse import Namespace
from typing import Any

from apps.ctl.client import Client
from apps.ctl.errors import usage
from apps.ctl.output import Output

COLUMNS = {
    "ID": "id",
    "TASK": "task_name",
    "SINCE": "since",
    "ATTEMPTS": "attempt",
    "ERROR": "error.type",
    "MESSAGE": "error.message",
    "FINGERPRINT": "fingerprint",
}
REPLAY_COLUMNS = {
    "ID": "id",
    "STATE": "state",
    "TOTAL": "total",
    "REPLAYED": "replayed",
    "LEFT OUT": "left_out",
    "BEGAN": "created_at",
    "BY": "created_by",
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
    """Those that the filter finds. Without a filter that is everything, and must be asked for by --all."""
    wanted = {name: value for name, value in _filter(client, options).items() if value is not None}
    if not wanted and not (options.all or options.dry_run):
        raise usage(
            "this would run every dead letter again: name --task, --fingerprint, --since, --until, or say --all"
        )
    terms = {"per_second": options.rate, "from_start": options.from_start or None, "dry_run": options.dry_run or None}
    body = {**wanted, **{name: value for name, value in terms.items() if value is not None}}
    found = client.post("/admin/dlq/retry-all", body)
    if output.format != "table":
        output.value(found)
    elif options.dry_run:
        output.say(f"{found['matching']} would run again; nothing was done")
    else:
        pace = f"{found['per_second']} a second"
        output.say(f"{found['id']}: {found['total']} run again, {pace}; ctl dlq replays shows how far it is")


def replays(client: Client, options: Namespace, output: Output) -> None:
    output.items(client.pages("/admin/dlq/replays", limit=options.limit), REPLAY_COLUMNS)


def stop(client: Client, options: Namespace, output: Output) -> None:
    output.one(client.post(f"/admin/dlq/replays/{options.replay}/stop"))


def discard(client: Client, options: Namespace, output: Output) -> None:
    client.delete(f"/admin/dlq/{options.execution}", reason=options.reason)
    output.say(f"{options.execution}: discarded")


def _filter(client: Client, options: Namespace) -> dict[str, Any]:
    task = None if options.task is None else client.find("tasks", options.task)
    return {
        "task_id": task,
        "fingerprint": options.fingerprint,
        "since": options.since,
        "until": options.until,
    }
