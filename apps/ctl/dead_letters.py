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
    body = {name: True for name in ("from_start", "current_version") if getattr(options, name)}
    found = client.post(f"/admin/dlq/{options.execution}/replay", body)
    if output.format == "table":
        output.say(f"{found['id']}: {found['status']} again")
    else:
        output.value(found)


def retry_all(client: Client, options: Namespace, output: Output) -> None:
    """Those that the filter finds. Without a filter that is everything, and must be asked for by --all."""
    terms = {
        "per_second": options.rate,
        "from_start": options.from_start or None,
        "current_version": options.current_version or None,
    }
    found = client.post("/admin/dlq/retry-all", _many(client, options, "run every dead letter again", terms))
    if output.format != "table":
        output.value(found)
    elif options.dry_run:
        output.say(f"{found['matching']} would run again; nothing was done")
    else:
        pace = f"{found['per_second']} a second"
        refused = found.get("refused") or []
        count = found["total"] - len(refused)
        output.say(f"{found['id']}: {count} run again, {pace}; ctl dlq replays shows how far it is")
        _say_refused(output, refused)


def discard_all(client: Client, options: Namespace, output: Output) -> None:
    """As retry_all; request by request until none is left."""
    body = _many(client, options, "discard every dead letter", {"reason": options.reason})
    ids, done = body.get("ids"), 0
    refused: list[dict[str, str]] = []
    found = client.post("/admin/dlq/discard-all", body | {"dry_run": True})
    if "until" not in body:
        body["until"] = found["counted_at"]
    while not options.dry_run:
        found = client.post("/admin/dlq/discard-all", body)
        done += found["done"]
        refused += found["refused"]
        if ids is not None:
            ids = body["ids"] = ids[found["done"] + len(found["refused"]) :]
        if not found["remaining"] or not found["done"]:
            break
    if output.format != "table":
        output.value(found if options.dry_run else {"done": done, "refused": refused})
    elif options.dry_run:
        output.say(f"{found['matching']} would be discarded; nothing was done")
    else:
        output.say(f"{done} discarded")
        _say_refused(output, refused)


def replays(client: Client, options: Namespace, output: Output) -> None:
    output.items(client.pages("/admin/dlq/replays", limit=options.limit), REPLAY_COLUMNS)


def stop(client: Client, options: Namespace, output: Output) -> None:
    output.one(client.post(f"/admin/dlq/replays/{options.replay}/stop"))


def discard(client: Client, options: Namespace, output: Output) -> None:
    client.delete(f"/admin/dlq/{options.execution}", reason=options.reason)
    output.say(f"{options.execution}: discarded")


def _many(client: Client, options: Namespace, what: str, terms: dict[str, Any]) -> dict[str, Any]:
    """A body. Without a filter it is for everything, which must be asked for by --all."""
    wanted = {name: value for name, value in _filter(client, options).items() if value is not None}
    wanted |= {"ids": options.ids} if options.ids else {}
    if not wanted and not (options.all or options.dry_run):
        raise usage(f"this would {what}: name --task, --fingerprint, --since, --until, --id, or say --all")
    terms |= {"dry_run": options.dry_run or None}
    return wanted | {name: value for name, value in terms.items() if value is not None}


def _say_refused(output: Output, refused: list[dict[str, str]]) -> None:
    for one in refused:
        output.say(f"{one['id']}: left out: {one['detail']}")


def _filter(client: Client, options: Namespace) -> dict[str, Any]:
    task = None if options.task is None else client.find("tasks", options.task)
    return {
        "task_id": task,
        "fingerprint": options.fingerprint,
        "since": options.since,
        "until": options.until,
    }
