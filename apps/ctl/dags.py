"""`ctl dags …`"""

from argparse import Namespace
from typing import Any

from apps.ctl import files
from apps.ctl.answers import Answer
from apps.ctl.client import Client
from apps.ctl.output import Output

COLUMNS = {"NAME": "name", "NODES": "nodes", "VERSION": "version", "NEXT": "next_fire_at", "ID": "id"}
RUN_COLUMNS = {
    "ID": "id",
    "STATUS": "status",
    "OPEN": "nodes_open",
    "NODES": "nodes_total",
    "DUE": "run_at",
    "FINISHED": "finished_at",
    "SECONDS": "duration_seconds",
}
NODE_COLUMNS = {
    "NODE": "id",
    "STATE": "state",
    "ATTEMPT": "attempt",
    "SECONDS": "duration_seconds",
    "EXECUTION": "execution_id",
    "ERROR": "error.message",
}


def list_(client: Client, options: Namespace, output: Output) -> None:
    given = {"search": options.search, "name": options.name, "tag": options.tag, "paused": options.paused}
    output.items(client.pages("/dags", limit=options.limit, **given), COLUMNS)


def apply(client: Client, options: Namespace, output: Output) -> None:
    """By name: the difference, as the server sees it, then the DAG."""
    for document in files.read(options.file):
        wanted = client.post("/dags/validate", document)
        name = document.get("name")
        differences = wanted.objects("differences")
        for each in differences:
            output.say(f"  {_difference(each)}")
        if not differences:
            output.say(f"{name}: no difference, version {wanted['version']} stays in force")
        elif options.dry_run:
            output.say(f"{name}: would become version {wanted['version']}; nothing was written")
        else:
            made = _put(client, wanted, document)
            if output.format == "table":
                output.say(f"{made['name']}: version {made['version']} is in force, id {made['id']}")
            else:
                output.value(made)


def trigger(client: Client, options: Namespace, output: Output) -> None:
    given = {"run_at": options.run_at, "parameters": files.parameters(options.parameters, options.parameter)}
    body = {name: value for name, value in given.items() if value is not None}
    made = client.post(f"/dags/{client.find('dags', options.dag)}/trigger", body)
    if output.format == "table":
        output.say(f"{made['id']}: the run is asked for; ctl dags run {made['id']}")
    else:
        output.value(made)


def runs(client: Client, options: Namespace, output: Output) -> None:
    path = f"/dags/{client.find('dags', options.dag)}/executions"
    output.items(client.pages(path, limit=options.limit, status=options.status), RUN_COLUMNS)


def run(client: Client, options: Namespace, output: Output) -> None:
    found = client.get(f"/dags/executions/{options.run}")
    if output.format != "table":
        output.value(found)
        return
    output.line(f"{found['id']}: {found['status']}, {found['nodes_open']} of {found['nodes_total']} nodes are open")
    output.items(found.objects("nodes"), NODE_COLUMNS)


def _put(client: Client, wanted: Answer, document: dict[str, Any]) -> Answer:
    if wanted["id"] is None:
        return client.post("/dags", document)
    return client.put(f"/dags/{wanted['id']}", document, version=wanted.number("version") - 1)  # what was compared


def _difference(each: Answer) -> str:
    if each["change"] == "added":
        return f"+ {each['pointer']}: {each['after']!r}"
    if each["change"] == "removed":
        return f"- {each['pointer']}: {each['before']!r}"
    return f"~ {each['pointer']}: {each['before']!r} → {each['after']!r}"
