"""Every button of the console: how its press is sent, what it writes, who may press it. The table of the role tests.

Those of "Break it" are not here: they are there only where a supervisor listens, and test_break_it.py tries them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from apps.console.tasks import form
from apps.tenants.models import Role
from tests.console_desk import Desk
from tests.console_ledger import now

DOCUMENT = {"name": "made-here", "handler": {"type": "python", "name": "demo.noop"}, "schedule": {"type": "event"}}


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
    also: str = ""
    """The action of a second audit row, which came before it."""
    platform: bool = False
    """Whether it is for the platform's own tenant alone."""
    told_to: str = ""
    """The desk's name for the id of another tenant that it is done to, whose audit log has it."""


def _note(_: Desk) -> Mapping[str, Any]:
    return {"note": "because"}


def _document(_: Desk) -> Mapping[str, Any]:
    return form_of(DOCUMENT)


def _crontab(_: Desk) -> Mapping[str, Any]:
    return {"text": "30 2 * * * back-up", "timezone": "UTC", "form": "user", "source": "shop"}


def _dag_text(_: Desk) -> Mapping[str, Any]:
    return {"text": "name: typed\nnodes:\n  - {id: only, handler: demo.noop}\n"}


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


def _backfill(of: str, act: str, audit: str, *tables: str) -> Button:
    """of: `dag` or `task`."""

    def address(desk: Desk) -> str:
        given = {"dag_id": desk.timed_dag.id} if of == "dag" else {"task_id": desk.timed_task_id}
        return desk.at(f"{of}_backfill_{act}", **given)

    day = {"start": "2025-06-01T00:00", "end": "2025-06-02T00:00", "zone": "UTC"}
    return Button(address, audit, tables, lambda _: day if act == "check" else {**day, "expected": "24"})


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


def _some(act: str, audit: str, *tables: str, of: str, by_id: bool) -> Button:
    """Executions, chosen one by one or by a filter."""

    def sent(desk: Desk) -> Mapping[str, Any]:
        chosen = getattr(desk, of)
        return {"id": str(chosen.id)} if by_id else {"counted_at": (now() + timedelta(seconds=1)).isoformat()}

    return Button(lambda desk: desk.at("executions_act", act=act), audit, tables, sent)


def _moves(act: str, audit: str, *tables: str, of: str = "led", **more: Any) -> Button:
    def address(desk: Desk) -> str:
        assert not of or getattr(desk, of)
        return desk.at("scheduler_act", act=act)

    return Button(address, audit, tables, least=Role.OWNER, platform=True, **more)


def _set(route: str, audit: str, *tables: str, least: Role = Role.OPERATOR, of: str = "", **more: Any) -> Button:
    """Of the settings. of: the address's parameter, which the desk has under the same name or as `member`, `secret`."""
    act = more.pop("act", "")
    names = {"username": "member", "name": "secret"}

    def address(desk: Desk) -> str:
        given = {of: getattr(desk, names.get(of, of))} if of else {}
        return desk.at(route, **given, **({"act": act} if act else {}))

    return Button(address, audit, tables, lambda _: more, least)


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
    "dead letters: replay the chosen": _letters(
        "replay", "replay.start", "replays", sent=lambda desk: {"chosen": "on", "id": str(desk.dead.id)}
    ),
    "dead letters: discard the chosen": _letters(
        "discard",
        "execution.discard",
        "executions",
        "dead_letters",
        sent=lambda desk: {"chosen": "on", "id": str(desk.dead.id), "note": "old", "counted_at": now().isoformat()},
    ),
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
    "DAG: delete": _dag("delete", "dag.delete", "dags"),
    "DAG form: check": Button(lambda desk: desk.at("dag_new_check"), "", sent=_dag_text),
    "DAG form: save": Button(
        lambda desk: desk.at("dag_new_save"), "dag.create", ("dags", "dag_versions", "dag_nodes"), sent=_dag_text
    ),
    "DAG edit: check": Button(lambda desk: desk.at("dag_check", dag_id=desk.dag.id), "", sent=_dag_text),
    "DAG edit: save": Button(
        lambda desk: desk.at("dag_save", dag_id=desk.dag.id),
        "dag.update",
        ("dags", "dag_versions", "dag_nodes"),
        lambda desk: {**_dag_text(desk), "version": "1"},
    ),
    "DAG backfill: check": _backfill("dag", "check", ""),
    "DAG backfill: start": _backfill("dag", "start", "backfill.start", "backfills"),
    "task backfill: check": _backfill("task", "check", ""),
    "task backfill: start": _backfill("task", "start", "backfill.start", "backfills"),
    "backfill: stop": Button(
        lambda desk: desk.at("stop_backfill", backfill_id=desk.backfill_id), "backfill.stop", ("backfills",)
    ),
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
    "execution: cancel": Button(
        lambda desk: desk.at("execution_act", identity=desk.waiting.id, act="cancel"),
        "execution.cancel",
        ("executions",),
    ),
    "execution: run again": Button(
        lambda desk: desk.at("execution_act", identity=desk.resting.id, act="retry"), "execution.retry", ("executions",)
    ),
    "execution: try now": Button(
        lambda desk: desk.at("execution_act", identity=desk.failing.id, act="anew"),
        "task.trigger",
        ("executions",),
        also="execution.cancel",
    ),
    "execution: replay": Button(
        lambda desk: desk.at("execution_act", identity=desk.dead.id, act="retry"),
        "execution.replay",
        ("executions", "dead_letters"),
    ),
    "executions: cancel the chosen": _some("cancel", "execution.cancel", "executions", of="waiting", by_id=True),
    "executions: cancel the found": _some("cancel", "execution.cancel", "executions", of="waiting", by_id=False),
    "executions: run the chosen again": _some("retry", "execution.retry", "executions", of="resting", by_id=True),
    "worker: drain": Button(
        lambda desk: desk.at("worker_act", worker_id=desk.worker_id, act="drain"),
        "worker.drain",
        ("workers",),
        least=Role.OWNER,
    ),
    "shared worker: drain": Button(
        lambda desk: desk.at("worker_act", worker_id=desk.shared_worker_id, act="drain"),
        "worker.drain",
        ("workers",),
        least=Role.OWNER,
        platform=True,
    ),
    "scheduler: freeze": _moves("freeze", "scheduler.freeze", "holds", of="", sent=_note),
    "scheduler: thaw": _moves("thaw", "scheduler.thaw", "holds", of="frozen"),
    "scheduler: thaw a tenant": Button(
        lambda desk: desk.at("frozen_tenant_act", tenant_id=desk.frozen_tenant_id, act="thaw"),
        "tenant.thaw",
        ("holds",),
        least=Role.OWNER,
        platform=True,
        told_to="frozen_tenant_id",
    ),
    "preloader: fail over": _moves("failover-preloader", "failover", "leases"),
    "dispatcher: fail over": _moves("failover-dispatcher", "failover", "leases"),
    "watchdog: fail over": _moves("failover-watchdog", "failover", "leases"),
    "first steps: put away": Button(lambda desk: desk.at("put_away"), ""),
    "crontab: check": Button(lambda desk: desk.at("crontab_check"), "", sent=_crontab),
    "crontab: import": Button(
        lambda desk: desk.at("crontab_import"), "task.create", ("tasks", "task_versions"), _crontab
    ),
    "member: add": Button(
        lambda desk: desk.at("member_add"),
        "membership.create",
        ("memberships",),
        lambda desk: {"username": desk.newcomer, "role": "viewer"},
        Role.OWNER,
    ),
    "member: role": _set(
        "member_act", "membership.change", "memberships", of="username", act="role", least=Role.OWNER, role="operator"
    ),
    "member: remove": _set(
        "member_act", "membership.delete", "memberships", of="username", act="remove", least=Role.OWNER
    ),
    "key: make": _set("key_make", "api_key.create", "api_keys", least=Role.OWNER, name="ci", role="viewer", life="30"),
    "key: revoke": _set("key_act", "api_key.revoke", "api_keys", of="key_id", act="revoke", least=Role.OWNER),
    "secret: make": _set(
        "secret_make", "secret.create", "tenant_secrets", name="OTHER", store="database", value="hidden"
    ),
    "secret: replace": _set(
        "secret_act", "secret.replace", "tenant_secrets", of="name", act="replace", store="database", value="other"
    ),
    "secret: delete": _set("secret_act", "secret.delete", "tenant_secrets", of="name", act="delete"),
    "channel: make": _set(
        "channel_make", "channel.create", "notification_channels", kind="email", name="night", to="b@example.com"
    ),
    "channel: replace": _set(
        "channel_act", "channel.replace", "notification_channels", of="channel_id", act="replace", to="c@example.com"
    ),
    "channel: delete": _set("channel_act", "channel.delete", "notification_channels", of="channel_id", act="delete"),
    "circuit: close": _set("circuit_act", "circuit.reset", "circuit_breakers", of="circuit_id", act="close"),
}
