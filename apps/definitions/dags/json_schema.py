"""The JSON Schema of a DAG's document, for editors and other programs: docs/dag.schema.json is what this returns.

It says the shape. What a schema cannot say (cycles, references, cron expressions, the limits of a command) is said by
`manage.py dag validate`.
"""

from typing import Any

from apps.definitions import reading, validation
from apps.definitions.dags import document, nodes
from apps.definitions.graph import MOST_NODES
from apps.definitions.models import OVERLAP_POLICIES
from apps.definitions.schedules import DST_FOLD, DST_GAP, MAX_EVERY_SECONDS, SPELLINGS, TYPES
from apps.definitions.timeouts import LONGEST_SECONDS
from apps.executions import handler_spec
from apps.executions.dags import conditions, references
from apps.executions.labels import MOST as MOST_LABELS
from apps.executions.retry import BACKOFFS, LARGEST_DELAY_SECONDS, MOST_ATTEMPTS, RetryPolicy

IDENTIFIER = "https://chronoweb.invalid/dag.schema.json"
_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}


def schema() -> dict[str, Any]:
    """The schema as JSON."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": IDENTIFIER,
        "title": "chronoweb DAG",
        "description": "What manage.py dag apply and POST /api/v1/dags take. null is the same as absent.",
        "type": "object",
        "allOf": [
            {"oneOf": [{"required": ["name"]}, {"required": ["dag"]}]},
            {"oneOf": [{"required": ["nodes"]}, {"required": ["tasks"]}]},
        ],
        "properties": _properties(),
        "additionalProperties": False,
        "$defs": {
            "node": _node(),
            "edge": _edge(),
            "condition": _condition(),
            "handler": _handler(),
            "schedule": _schedule(),
            "retry_policy": _retry_policy(),
        },
    }


def _properties() -> dict[str, Any]:
    name = {**_TEXT, "minLength": 1, "maxLength": reading.NAME_CHARACTERS}
    listed = {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1, "maxItems": MOST_NODES}
    tag = {**_TEXT, "minLength": 1, "maxLength": reading.TAG_CHARACTERS}
    known = {
        "name": name,
        "description": _or_null({**_TEXT, "maxLength": validation.DESCRIPTION_CHARACTERS}),
        "tags": _or_null({"type": "array", "items": tag, "maxItems": reading.TAGS}),
        "schedule": _or_null({"$ref": "#/$defs/schedule"}),
        "strict_timing": _or_null({"type": "boolean"}),
        "catchup_seconds": _or_null(_whole(0, validation.MAX_CATCHUP_SECONDS)),
        "overlap_policy": _or_null({"enum": list(OVERLAP_POLICIES)}),
        "max_active_runs": _or_null(_whole(1, document.MOST_ACTIVE_RUNS)),
        "run_timeout_seconds": _or_null(_whole(1, document.LONGEST_RUN_SECONDS)),
        "failure_policy": _or_null({"enum": list(document.POLICIES)}),
        "parameters": _or_null(_OBJECT),
        "parameters_schema": _or_null({**_OBJECT, "description": "JSON Schema 2020-12 that a run's parameters fit"}),
        "nodes": listed,
    }
    assert set(known) == set(document.FIELDS)
    for name_of_default, default in document.DEFAULTS.items():
        known[name_of_default] = {**known[name_of_default], "default": default}
    return {**known, **{other: known[own] for other, own in document.SPELLINGS.items()}}


def _node() -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {
        "id": {**_TEXT, "pattern": f"^(?!({'|'.join(references.RESERVED)})$){references.NODE_ID.pattern}$"},
        "task": {**_TEXT, "description": "name or id of a task"},
        "approval": {
            "anyOf": [
                {"const": True},
                {
                    "type": "object",
                    "properties": {
                        "message": {**_TEXT, "maxLength": nodes.MESSAGE_CHARACTERS},
                        "timeout_seconds": _or_null(_whole(1, nodes.LONGEST_APPROVAL_SECONDS)),
                        "default": _or_null({"enum": list(nodes.ANSWERS)}),
                    },
                    "additionalProperties": False,
                },
            ]
        },
        "depends_on": {"type": "array", "items": {"$ref": "#/$defs/edge"}},
        "condition": {
            "anyOf": [{"$ref": "#/$defs/condition"}, {"type": "array", "items": {"$ref": "#/$defs/condition"}}]
        },
        "trigger_rule": {"enum": list(nodes.RULES), "default": nodes.DEFAULT_RULE},
        "map_over": {**_TEXT, "description": "a list in a parent's result, such as classify.result.items"},
        "handler": {"$ref": "#/$defs/handler"},
        "retry_policy": {"$ref": "#/$defs/retry_policy"},
        "priority": _whole(1, 10),
        "timeout_seconds": _whole(1, validation.MAX_TIMEOUT_SECONDS),
        "timeouts": {
            "type": "object",
            "properties": {name: _or_null(_whole(1, most)) for name, most in LONGEST_SECONDS.items()},
            "additionalProperties": False,
        },
        "parameters": _OBJECT,
        "idempotent": {"type": "boolean"},
        "concurrency": _OBJECT,
        "requires": {"type": "array", "items": _TEXT, "maxItems": MOST_LABELS},
    }
    properties = {name: _or_null(own[name]) if name in own else {} for name in nodes.FIELDS}
    return {
        "type": "object",
        "required": ["id"],
        "oneOf": [_has(name) for name in ("task", "handler", "approval")],
        "properties": {**properties, "id": own["id"]},
        "additionalProperties": False,
    }


def _has(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def _edge() -> dict[str, Any]:
    long = {
        "type": "object",
        "required": ["node"],
        "properties": {"node": _TEXT, "condition": _or_null({"$ref": "#/$defs/condition"})},
        "additionalProperties": False,
    }
    return {"anyOf": [_TEXT, long]}


def _condition() -> dict[str, Any]:
    operands: dict[str, Any] = {"exists": {"type": "boolean"}, "in": {"type": "array"}}
    operands |= {name: {"type": ["number", "string"]} for name in ("gt", "lt")}
    return {
        "type": "object",
        "properties": {
            "field": {**_TEXT, "description": "node.result.path, such as classify.result.type"},
            "parent": {**_TEXT, "description": "the node whose result it looks at"},
            "path": {**_TEXT, "maxLength": conditions.PATH_CHARACTERS, "description": "JSONPath (RFC 9535)"},
            "op": {"enum": list(conditions.OPERATORS)},
            "value": {},
            **{name: operands.get(name, {}) for name in conditions.OPERATORS},
        },
        "anyOf": [{"required": ["field"]}, {"required": ["path"]}],
        "oneOf": [{"required": [name]} for name in ("op", *conditions.OPERATORS)],
        "additionalProperties": False,
    }


def _handler() -> dict[str, Any]:
    kinds = [
        {
            "type": "object",
            "required": ["type", *required],
            "properties": {"type": {"const": kind}, **{field: {} for field in (*required, *optional)}},
            "additionalProperties": False,
        }
        for kind, (required, optional, _) in handler_spec.TYPES.items()
    ]
    short = {**_TEXT, "pattern": f"^{handler_spec.HANDLER_NAME.pattern}$", "description": "a Python handler's name"}
    return {"anyOf": [short, *kinds]}


def _schedule() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"enum": [*TYPES, *SPELLINGS]},
            "expression": _or_null(_TEXT),
            "timezone": _or_null(_TEXT),
            "every_seconds": _or_null(_whole(1, MAX_EVERY_SECONDS)),
            **{name: _or_null(_TEXT) for name in ("run_at", "start_at", "end_at")},
            "dst_gap": _or_null({"enum": list(DST_GAP)}),
            "dst_fold": _or_null({"enum": list(DST_FOLD)}),
        },
        "additionalProperties": False,
    }


def _retry_policy() -> dict[str, Any]:
    seconds = {"type": "number", "minimum": 0, "maximum": LARGEST_DELAY_SECONDS}
    known = {
        "max_attempts": _whole(1, MOST_ATTEMPTS),
        "backoff": {"enum": list(BACKOFFS)},
        "base_delay_seconds": seconds,
        "max_delay_seconds": seconds,
        "rules": {"type": "array"},
    }
    defaults = RetryPolicy().to_json()
    properties = {name: {**shape, **_default(defaults, name)} for name, shape in known.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _default(defaults: dict[str, Any], name: str) -> dict[str, Any]:
    return {"default": defaults[name]} if name in defaults else {}


def _whole(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high}


def _or_null(shape: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [shape, {"type": "null"}]}
