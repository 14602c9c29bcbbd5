"""One node of a DAG's document, read: what it runs, and how it differs from the task that it refers to."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.definitions.dags import edges
from apps.definitions.reading import DocumentReader
from apps.definitions.schedules import Schedule
from apps.definitions.validation import DEFAULTS as TASK_DEFAULTS
from apps.definitions.validation import FIELDS as TASK_FIELDS
from apps.definitions.validation import read_document
from apps.executions.concurrency import key_of
from apps.executions.dags import handler_references, references
from apps.executions.dags.plan import NodeKind, TriggerRule
from apps.executions.retry import RetryPolicy
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import Resolve

RULES = tuple(rule.word for rule in TriggerRule)
_NOT_OF_NODES = (
    *("name", "description", "tags", "schedule", "strict_timing", "overlap_policy", "catchup_seconds"),
    "notifications",
)
RUN_FIELDS = tuple(name for name in TASK_FIELDS if name not in _NOT_OF_NODES)
"""What an inline node says of its task; of a node that refers to a task, all but the handler override the task's."""
FIELDS = ("id", "task", "approval", "depends_on", "condition", "trigger_rule", "map_over", *RUN_FIELDS)
DEFAULT_RULE = TriggerRule.ALL_SUCCESS.word
APPROVAL_FIELDS = ("message", "timeout_seconds", "default")
ANSWERS = ("approve", "reject")
LONGEST_APPROVAL_SECONDS = 90 * 86_400
MESSAGE_CHARACTERS = 2000
_MANUAL = Schedule.parse({"type": "manual"}).to_json()
_ID = "a letter or _, then letters, digits, _ and -, at most 100; not run, item or index"


@dataclass(slots=True)
class Node:
    """A node that has been read. stored: as the document keeps it, without what is default.

    task_document: what runs, in full, as a task's document; None where a task of the tenant's is taken as it is.
    """

    id: str
    kind: NodeKind
    edges: edges.Edges
    stored: dict[str, Any]
    task_name: str | None
    task_document: dict[str, Any] | None


def defaults_of_run_fields() -> dict[str, Any]:
    """What an inline node is given where it says nothing; the retry policy in full."""
    return {**{name: TASK_DEFAULTS.get(name) for name in RUN_FIELDS}, "retry_policy": RetryPolicy.parse({}).to_json()}


class NodeReader:
    """Reads the nodes of one document. tasks: the tenant's tasks that nodes refer to, by the words they use."""

    def __init__(
        self, *, dag_name: str, tasks: Mapping[str, Mapping[str, Any]], now: datetime, resolve: Resolve
    ) -> None:
        self._dag_name = dag_name
        self.tasks = tasks
        self._now = now
        self._resolve = resolve
        self._defaults = defaults_of_run_fields()

    def read(self, data: Any, errors: list[InvalidInput]) -> Node | None:
        """One node; None, and `errors` with pointers relative to it, where something is wrong."""
        if not isinstance(data, Mapping):
            errors.append(InvalidInput("", data, "a node is an object", ", ".join(FIELDS)))
            return None
        reader = DocumentReader(data, what="a node", fields=FIELDS, defaults={"trigger_rule": DEFAULT_RULE}, sound=True)
        found = reader.errors
        identity = _identity(data.get("id"), found)
        rule = reader.choice("trigger_rule", RULES)
        into = edges.read(data.get("depends_on"), data.get("condition"), found)
        source = _source(data, found)
        kind = NodeKind.APPROVAL if source == "approval" else NodeKind.MAPPED if data.get("map_over") else NodeKind.TASK
        stored: dict[str, Any] = {"id": identity}
        document = self._body(source, data, stored, found)
        if into.names:
            stored["depends_on"] = into.to_json()
        if rule != DEFAULT_RULE:
            stored["trigger_rule"] = rule
        if data.get("map_over") is not None:
            stored["map_over"] = _map_over(data["map_over"], into, found)
        if found:
            errors += found
            return None
        task_name = None if stored.get("task") is None else str(stored["task"])
        return Node(str(identity), kind, into, stored, task_name, document)

    def _body(
        self, source: str, data: Mapping[str, Any], stored: dict[str, Any], errors: list[InvalidInput]
    ) -> dict[str, Any] | None:
        given = {name: data[name] for name in RUN_FIELDS if data.get(name) is not None}
        if source == "approval":
            return self._approval(data, given, stored, errors)
        if source == "handler":
            if isinstance(given["handler"], str):
                given["handler"] = {"type": "python", "name": given["handler"]}
            document = self._document(str(data.get("id")), given, None, errors)
            if document is not None:
                stored |= {n: document[n] for n in RUN_FIELDS if document[n] != self._defaults.get(n)}
            return document
        if source == "task":
            return self._of_task(data["task"], given, stored, errors)
        return None

    def _of_task(
        self, name: Any, given: dict[str, Any], stored: dict[str, Any], errors: list[InvalidInput]
    ) -> dict[str, Any] | None:
        base = self.tasks.get(name) if isinstance(name, str) else None
        if base is None:
            legal = "the name or id of a task of this tenant, or a handler of the node's own"
            errors.append(InvalidInput("/task", name, "is no task", legal))
            return None
        stored["task"] = base["name"]
        if not given:
            errors += [InvalidInput("/task", name, e.problem, e.legal) for e in _key_of_references(base)]
        document = self._document(base["name"], given, base, errors) if given else None
        if document is not None:
            stored |= {field: document[field] for field in given}
        return document

    def _document(
        self, name: str, given: dict[str, Any], base: Mapping[str, Any] | None, errors: list[InvalidInput]
    ) -> dict[str, Any] | None:
        """What runs, as a task's document."""
        handler = given.get("handler")
        if isinstance(handler, Mapping) and isinstance(handler.get("url"), str):
            given["handler"] = {**handler, "url": handler_references.tight(handler["url"])}
        plain = {"name": f"{self._dag_name[:99]}.{name}", "schedule": _MANUAL, "overlap_policy": "allow_all"}
        try:
            document = read_document(
                {**(base or plain), **given},
                now=self._now,
                before=base or {"schedule": _MANUAL, "handler": None, "parameters": None},
                resolve=self._resolve,
                sound=True,
            )
        except InvalidInputs as several:
            errors += several.errors
            return None
        errors += _key_of_references(document)
        errors += [
            InvalidInput(f"/handler{at}", f"{{{{ {expression} }}}}", problem, "a text without references")
            for at, expression, problem in handler_references.misplaced(document["handler"])
        ]
        return document

    def _approval(
        self, data: Mapping[str, Any], given: dict[str, Any], stored: dict[str, Any], errors: list[InvalidInput]
    ) -> dict[str, Any]:
        priority = given.pop("priority", None)
        for name in (*given, *(["map_over"] if data.get("map_over") is not None else [])):
            errors.append(InvalidInput(f"/{name}", data[name], "means nothing for an approval", "null"))
        approval = _approval(data["approval"], errors)
        stored["approval"] = {name: value for name, value in approval.items() if value not in (None, "")}
        if priority is not None:
            stored["priority"] = priority
            if type(priority) is not int or not 1 <= priority <= 10:
                errors.append(InvalidInput("/priority", priority, "must be a whole number in its range", "1 to 10"))
        plain = {"name": f"{self._dag_name[:99]}.{data.get('id')}", "description": "", "tags": []}
        return {
            **dict.fromkeys(TASK_FIELDS),
            **TASK_DEFAULTS,
            **plain,
            "schedule": _MANUAL,
            "overlap_policy": "allow_all",
            "priority": priority or TASK_DEFAULTS["priority"],
            "retry_policy": RetryPolicy(max_attempts=1).to_json(),
            "handler": {"type": "approval", **stored["approval"]},
        }


def _key_of_references(document: Mapping[str, Any]) -> list[InvalidInput]:
    """A place is taken when the node is released, before references are put in."""
    key = key_of(document["concurrency"], document["parameters"], tenant_id=b"")
    if key is None or "{{" not in key:
        return []
    problem = "has a key that depends on a reference, which has no value yet when the node waits for its place"
    legal = "a key of parameters without references, or null"
    return [InvalidInput("/concurrency", document["concurrency"], problem, legal)]


def _identity(value: Any, errors: list[InvalidInput]) -> str | None:
    if not isinstance(value, str) or not references.NODE_ID.fullmatch(value) or value in references.RESERVED:
        errors.append(InvalidInput("/id", value, "is required" if value is None else "is no node id", _ID))
        return None
    return value


def _source(data: Mapping[str, Any], errors: list[InvalidInput]) -> str:
    sources = [name for name in ("task", "handler", "approval") if data.get(name) is not None]
    if len(sources) == 1:
        return sources[0]
    both = f"says {' and '.join(sources)}: what of them runs?" if sources else "does not say what it runs"
    errors.append(InvalidInput("", data.get("id"), both, "exactly one of task, handler, approval"))
    return ""


def _approval(value: Any, errors: list[InvalidInput]) -> dict[str, Any]:
    if value is True:
        value = {}
    if not isinstance(value, Mapping):
        errors.append(InvalidInput("/approval", value, "must be an object", ", ".join(APPROVAL_FIELDS)))
        return {}
    reader = DocumentReader(
        value, what="an approval", fields=APPROVAL_FIELDS, defaults={"message": "", "timeout_seconds": None}, sound=True
    )
    approval = {
        "message": reader.text("message", MESSAGE_CHARACTERS),
        "timeout_seconds": reader.whole("timeout_seconds", 1, LONGEST_APPROVAL_SECONDS),
        "default": reader.choice("default", ANSWERS),
    }
    if approval["default"] and not approval["timeout_seconds"]:
        reader.refuse("default", "is never used without timeout_seconds", "null, or a timeout_seconds beside it")
    errors += [InvalidInput(f"/approval{e.pointer}", e.value, e.problem, e.legal) for e in reader.errors]
    return approval


def _map_over(value: Any, into: edges.Edges, errors: list[InvalidInput]) -> str | None:
    legal = "a list in the result of a node that depends_on names, such as classify.result.items"
    try:
        reference = references.parse(value) if isinstance(value, str) else None
    except references.ReferenceProblem as problem:
        errors.append(InvalidInput("/map_over", value, problem.problem, legal))
        return None
    if reference is None or reference.node is None or reference.steps[1] != "result" or "|" in value:
        errors.append(InvalidInput("/map_over", value, "is not a node's result", legal))
    elif reference.node not in into.names:
        errors.append(InvalidInput("/map_over", value, "is of a node that depends_on does not name", legal))
    return str(value).strip()
