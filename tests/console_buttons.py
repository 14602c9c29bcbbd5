"""Every button of the console: how its press is sent, what it writes, who may press it. The table of the role tests."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.urls import reverse

from apps.console.tasks import form
from apps.definitions import services
from apps.definitions.dags import standing
from apps.definitions.models import Dag
from apps.executions.dags import operations
from apps.executions.dead_letters import DeadLetterFilter, start_replay
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants.models import Role, Tenant
from tests.console_dags import Dags
from tests.console_ledger import Ledger, now
from tests.console_letters import letter

DOCUMENT = {"name": "made-here", "handler": {"type": "python", "name": "demo.noop"}, "schedule": {"type": "event"}}


class Desk:
    """A tenant with something for each button; each thing is made when a button first asks for it."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.ledger = Ledger(tenant)
        self.dags = Dags(tenant)

    def at(self, route: str, **arguments: Any) -> str:
        return reverse(f"console:{route}", kwargs={"slug": self.tenant.slug, **arguments})

    @cached_property
    def task_id(self) -> Any:
        return self.ledger.version("job").task_id

    @cached_property
    def paused_task_id(self) -> Any:
        services.pause_task(principal=self.dags.who, task_id=self.task_id, note="for a while")
        return self.task_id

    @cached_property
    def dead(self) -> Execution:
        return letter(self.ledger)

    @cached_property
    def replay_id(self) -> Any:
        letter(self.ledger)
        return start_replay(principal=self.dags.who, wanted=DeadLetterFilter()).id

    @cached_property
    def dag(self) -> Dag:
        nodes: list[dict[str, Any]] = [
            {"id": "a"},
            {"id": "ask", "approval": {"message": "?"}},
            {"id": "b", "depends_on": ["a"]},
        ]
        return self.dags.make("acted-on", nodes)

    @cached_property
    def paused_dag(self) -> Dag:
        standing.pause_dag(principal=self.dags.who, dag_id=self.dag.id)
        return self.dag

    @cached_property
    def run_id(self) -> Any:
        return self.dags.start(self.dag)

    @cached_property
    def paused_run_id(self) -> Any:
        operations.pause_run(principal=self.dags.who, run_id=self.run_id)
        return self.run_id

    @cached_property
    def failed_run_id(self) -> Any:
        self.dags.end(self.run_id, a=Status.DEAD_LETTER)
        return self.run_id


@dataclass(frozen=True)
class Button:
    """at: its address. sent: its form. audit: the action of its audit row; empty: it writes nothing at all.

    tables: those of the ledger whose rows it changes. least: the role that it takes.
    """

    at: Callable[[Desk], str]
    audit: str
    tables: tuple[str, ...] = ()
    sent: Callable[[Desk], Mapping[str, Any]] = field(default=lambda _: {})
    least: Role = Role.OPERATOR


def _note(_: Desk) -> Mapping[str, Any]:
    return {"note": "because"}


def _document(_: Desk) -> Mapping[str, Any]:
    return form_of(DOCUMENT)


def form_of(document: dict[str, Any]) -> Mapping[str, Any]:
    """What the task form sends of this document, written as JSON."""
    return {"mode": "json", form.DOCUMENT: json.dumps(document)}


def _task(act: str, audit: str, *tables: str, of: str = "task_id", **more: Any) -> Button:
    return Button(lambda desk: desk.at("task_act", task_id=getattr(desk, of), act=act), audit, tables, **more)


def _tasks(act: str, audit: str, *tables: str, of: str = "task_id", **more: Any) -> Button:
    def address(desk: Desk) -> str:
        assert getattr(desk, of)
        return desk.at("tasks_act", act=act) + "?expected=1"

    return Button(address, audit, tables, **more)


def _dag(act: str, audit: str, *tables: str, of: str = "dag", **more: Any) -> Button:
    return Button(lambda desk: desk.at("dag_act", dag_id=getattr(desk, of).id, act=act), audit, tables, **more)


def _run(act: str, audit: str, *tables: str, of: str = "run_id", **more: Any) -> Button:
    return Button(lambda desk: desk.at("run_act", run_id=getattr(desk, of), act=act), audit, tables, **more)


def _node(act: str, audit: str, *tables: str, node: str = "a") -> Button:
    def address(desk: Desk) -> str:
        return desk.at("node_act", run_id=desk.run_id, node_id=node, act=act)

    return Button(address, audit, tables, _note)


def _letters(act: str, audit: str, *tables: str, sent: Callable[[Desk], Mapping[str, Any]]) -> Button:
    def address(desk: Desk) -> str:
        assert desk.dead
        return desk.at("letters_act", act=act)

    return Button(address, audit, tables, sent)


def _letter(act: str, audit: str, *tables: str, sent: Callable[[Desk], Mapping[str, Any]]) -> Button:
    return Button(lambda desk: desk.at("letter_act", identity=desk.dead.id, act=act), audit, tables, sent)


BUTTONS: dict[str, Button] = {
    "task: run now": _task("run", "task.trigger", "executions"),
    "task: pause": _task("pause", "task.pause", "tasks", "holds", sent=_note),
    "task: resume": _task("resume", "task.resume", "tasks", "holds", of="paused_task_id"),
    "task: delete": _task("delete", "task.delete", "tasks"),
    "tasks: pause": _tasks("pause", "task.pause", "tasks", "holds", sent=_note),
    "tasks: resume": _tasks("resume", "task.resume", "tasks", "holds", of="paused_task_id"),
    "tasks: trigger": _tasks("trigger", "task.trigger", "executions"),
    "tasks: delete": _tasks("delete", "task.delete", "tasks"),
    "task form: check": Button(lambda desk: desk.at("task_new_check"), "", sent=_document),
    "task form: save": Button(
        lambda desk: desk.at("task_new_save"), "task.create", ("tasks", "task_versions"), sent=_document
    ),
    "task edit: check": Button(lambda desk: desk.at("task_check", task_id=desk.task_id), "", sent=_document),
    "task edit: save": Button(
        lambda desk: desk.at("task_save", task_id=desk.task_id),
        "task.update",
        ("tasks", "task_versions"),
        lambda _: {**form_of({**DOCUMENT, "name": "job", "priority": 2}), "version": "1"},
    ),
    "dead letters: replay a few": _letters("canary", "execution.replay", "executions", sent=lambda _: {"few": "1"}),
    "dead letters: replay": _letters("replay", "replay.start", "replays", sent=lambda _: {}),
    "dead letters: discard": _letters(
        "discard",
        "execution.discard",
        "executions",
        "dead_letters",
        sent=lambda _: {"note": "old", "counted_at": now().isoformat()},
    ),
    "dead letters: stop": Button(
        lambda desk: desk.at("stop_replay", replay_id=desk.replay_id),
        "replay.stop",
        ("replays",),
    ),
    "dead letter: replay": _letter(
        "replay", "execution.replay", "executions", "dead_letters", sent=lambda _: {"parameters": '{"region": "us"}'}
    ),
    "dead letter: discard": _letter("discard", "execution.discard", "executions", "dead_letters", sent=_note),
    "DAG: run now": _dag("run", "dag.trigger", "dag_runs", "executions"),
    "DAG: pause": _dag("pause", "dag.pause", "dags", sent=_note),
    "DAG: resume": _dag("resume", "dag.resume", "dags", of="paused_dag", sent=_note),
    "run: pause": _run("pause", "dag_run.pause", "dag_runs", sent=_note),
    "run: resume": _run("resume", "dag_run.resume", "dag_runs", of="paused_run_id", sent=_note),
    "run: cancel": _run("cancel", "dag_run.cancel", "dag_runs", "executions", sent=_note),
    "run: rerun": _run("rerun", "dag_run.rerun_from_failed", "dag_runs", of="failed_run_id", sent=_note),
    "node: clear": _node("clear", "dag_run.clear", "run_nodes"),
    "node: clear downstream": _node("clear-downstream", "dag_run.clear", "run_nodes"),
    "node: mark success": _node("success", "dag_run.mark", "run_nodes"),
    "node: mark failed": _node("failed", "dag_run.mark", "run_nodes"),
    "node: skip": _node("skip", "dag_run.skip", "run_nodes"),
    "node: approve": _node("approve", "dag_run.approve", "run_nodes", node="ask"),
    "node: reject": _node("reject", "dag_run.reject", "run_nodes", node="ask"),
}
