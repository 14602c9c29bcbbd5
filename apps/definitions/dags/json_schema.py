"""The JSON Schema of a DAG's document, for editors and other programs: docs/dag.schema.json is what this returns.

It says the shape. What a schema cannot say (cycles, references, cron expressions, the limits of a command) is said by
`manage.py dag validate`.
"""

from typing import Any

from apps.definitions import reading, validation
from apps.definitions.dags import document, nodes
from apps.definitions.graph import MOST_NODES
from apps.definitions.json_shapes import OBJECT, TEXT, notifications, or_null, run_properties, shared, whole
from apps.definitions.models import OVERLAP_POLICIES
from apps.executions import handler_spec
from apps.executions.dags import conditions, references

IDENTIFIER = "https://chronoweb.invalid/dag.schema.json"
_HANDLER_NAME = {**TEXT, "pattern": f"^{handler_spec.HANDLER_NAME.pattern}$", "description": "a Python handler's name"}


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
            **shared(),
        },
    }


def _properties() -> dict[str, Any]:
    name = {**TEXT, "minLength": 1, "maxLength": reading.NAME_CHARACTERS}
    listed = {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1, "maxItems": MOST_NODES}
    tag = {**TEXT, "minLength": 1, "maxLength": reading.TAG_CHARACTERS}
    known = {
        "name": name,
        "description": or_null({**TEXT, "maxLength": validation.DESCRIPTION_CHARACTERS}),
        "tags": or_null({"type": "array", "items": tag, "maxItems": reading.TAGS}),
        "schedule": or_null({"$ref": "#/$defs/schedule"}),
        "strict_timing": or_null({"type": "boolean"}),
        "catchup_seconds": or_null(whole(0, validation.MAX_CATCHUP_SECONDS)),
        "overlap_policy": or_null({"enum": list(OVERLAP_POLICIES)}),
        "max_active_runs": or_null(whole(1, document.MOST_ACTIVE_RUNS)),
        "run_timeout_seconds": or_null(whole(1, document.LONGEST_RUN_SECONDS)),
        "failure_policy": or_null({"enum": list(document.POLICIES)}),
        "parameters": or_null(OBJECT),
        "parameters_schema": or_null({**OBJECT, "description": "JSON Schema 2020-12 that a run's parameters fit"}),
        "notifications": or_null(notifications()),
        "nodes": listed,
    }
    assert set(known) == set(document.FIELDS)
    for name_of_default, default in document.DEFAULTS.items():
        known[name_of_default] = {**known[name_of_default], "default": default}
    return {**known, **{other: known[own] for other, own in document.SPELLINGS.items()}}


def _node() -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {
        "id": {**TEXT, "pattern": f"^(?!({'|'.join(references.RESERVED)})$){references.NODE_ID.pattern}$"},
        "task": {**TEXT, "description": "name or id of a task"},
        "approval": {
            "anyOf": [
                {"const": True},
                {
                    "type": "object",
                    "properties": {
                        "message": {**TEXT, "maxLength": nodes.MESSAGE_CHARACTERS},
                        "timeout_seconds": or_null(whole(1, nodes.LONGEST_APPROVAL_SECONDS)),
                        "default": or_null({"enum": list(nodes.ANSWERS)}),
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
        "map_over": {**TEXT, "description": "a list in a parent's result, such as classify.result.items"},
        **run_properties(),
        "handler": {"anyOf": [_HANDLER_NAME, {"$ref": "#/$defs/handler"}]},
    }
    properties = {name: or_null(own[name]) for name in nodes.FIELDS}
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
        "properties": {"node": TEXT, "condition": or_null({"$ref": "#/$defs/condition"})},
        "additionalProperties": False,
    }
    return {"anyOf": [TEXT, long]}


def _condition() -> dict[str, Any]:
    operands: dict[str, Any] = {"exists": {"type": "boolean"}, "in": {"type": "array"}}
    operands |= {name: {"type": ["number", "string"]} for name in ("gt", "lt")}
    return {
        "type": "object",
        "properties": {
            "field": {**TEXT, "description": "node.result.path, such as classify.result.type"},
            "parent": {**TEXT, "description": "the node whose result it looks at"},
            "path": {**TEXT, "maxLength": conditions.PATH_CHARACTERS, "description": "JSONPath (RFC 9535)"},
            "op": {"enum": list(conditions.OPERATORS)},
            "value": {},
            **{name: operands.get(name, {}) for name in conditions.OPERATORS},
        },
        "anyOf": [{"required": ["field"]}, {"required": ["path"]}],
        "oneOf": [{"required": [name]} for name in ("op", *conditions.OPERATORS)],
        "additionalProperties": False,
    }
