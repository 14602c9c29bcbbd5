"""`ctl workers`, `ctl drain` and `ctl whoami`."""

from argparse import Namespace

from apps.ctl.client import Client
from apps.ctl.output import Output

COLUMNS = {
    "ID": "id",
    "STATE": "state",
    "ACTIVE": "active",
    "SLOTS": "slots",
    "LABELS": "labels",
    "STARTED": "started_at",
    "HEARTBEAT": "heartbeat_at",
}


def workers(client: Client, options: Namespace, output: Output) -> None:
    output.items(client.get("/workers").objects("items"), COLUMNS)


def drain(client: Client, options: Namespace, output: Output) -> None:
    found = client.post(f"/workers/{options.worker}/drain")
    if output.format == "table":
        output.line(f"worker {found['id']} has been asked to drain; it runs {found['active']} now")
    else:
        output.value(found)


def whoami(client: Client, options: Namespace, output: Output) -> None:
    found = client.get("/tenants/me")
    if output.format == "table":
        output.line(f"{found['role']} of {found['name']} ({found['slug']}) at {client.url}")
    else:
        output.value({**found, "url": client.url})
