"""Shapes of definitions as JSON Schema 2020-12, for editors, programs and the API's description.

They say the form. What a schema cannot say (cron expressions, hosts that may not be reached, the limits of an
installation) is said when a document is read.
"""

from collections.abc import Mapping
from typing import Any

from apps.definitions import reading, validation
from apps.definitions.models import OVERLAP_POLICIES
from apps.definitions.notifications import CHANNELS_AT_MOST, EVENTS
from apps.definitions.schedules import DST_FOLD, DST_GAP, MAX_EVERY_SECONDS, SPELLINGS, TYPES
from apps.definitions.timeouts import LONGEST_SECONDS
from apps.executions import concurrency, labels
from apps.executions.handler_shapes import handler
from apps.executions.retry import BACKOFFS, LARGEST_DELAY_SECONDS, MOST_ATTEMPTS, RetryPolicy
from apps.executions.retry_rules import ACTIONS, LEGAL_ERROR, MOST_RULES
from apps.tenants.channel_kinds import KINDS, NAME

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
OBJECT: Shape = {"type": "object"}
BOOLEAN: Shape = {"type": "boolean"}


def whole(low: int, high: int) -> Shape:
    return {"type": "integer", "minimum": low, "maximum": high}


def or_null(shape: Mapping[str, Any]) -> Shape:
    return {"anyOf": [dict(shape), {"type": "null"}]}


def shared() -> dict[str, Shape]:
    """What tasks and nodes of DAGs have in common, by the names under which schemas refer to it (#/$defs/…)."""
    return {"handler": handler(), "schedule": schedule(), "retry_policy": retry_policy()}


def task_properties() -> dict[str, Shape]:
    """The fields of a task, as they are given; null is the same as absent, but for what is required."""
    tag = {**TEXT, "minLength": 1, "maxLength": reading.TAG_CHARACTERS}
    known = {
        "name": {**TEXT, "minLength": 1, "maxLength": reading.NAME_CHARACTERS},
        "description": {**TEXT, "maxLength": validation.DESCRIPTION_CHARACTERS},
        "tags": {"type": "array", "items": tag, "maxItems": reading.TAGS},
        "schedule": {"$ref": "#/$defs/schedule"},
        "strict_timing": BOOLEAN,
        "overlap_policy": {"enum": list(OVERLAP_POLICIES)},
        "catchup_seconds": whole(0, validation.MAX_CATCHUP_SECONDS),
        **run_properties(),
        "notifications": notifications(),
    }
    assert set(known) == set(validation.FIELDS)
    shapes = {name: shape if name in validation.REQUIRED else or_null(shape) for name, shape in known.items()}
    with_defaults = {name: {**shapes[name], "default": default} for name, default in validation.DEFAULTS.items()}
    return {name: with_defaults.get(name, shapes[name]) for name in validation.FIELDS}


def run_properties() -> dict[str, Shape]:
    """What a task, or a node of a DAG, says of how it is run."""
    return {
        "handler": {"$ref": "#/$defs/handler"},
        "retry_policy": {"$ref": "#/$defs/retry_policy"},
        "priority": {**whole(1, 10), "description": "1 the most urgent, 10 the least"},
        "timeout_seconds": {**whole(1, validation.MAX_TIMEOUT_SECONDS), "description": "of one attempt"},
        "timeouts": {
            "type": "object",
            "properties": {name: or_null(whole(1, most)) for name, most in LONGEST_SECONDS.items()},
            "additionalProperties": False,
        },
        "parameters": OBJECT,
        "idempotent": BOOLEAN,
        "concurrency": _concurrency(),
        "requires": {"type": "array", "items": TEXT, "maxItems": labels.MOST},
    }


def notifications() -> Shape:
    uri = {**TEXT, "pattern": f"^({'|'.join(KINDS)})://{NAME.pattern}$"}
    named = or_null({"type": "array", "items": uri, "maxItems": CHANNELS_AT_MOST})
    return {"type": "object", "properties": dict.fromkeys(EVENTS, named), "additionalProperties": False}


def schedule() -> Shape:
    return {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"enum": [*TYPES, *SPELLINGS]},
            "expression": or_null({**TEXT, "description": "five fields, or six with seconds first"}),
            "timezone": or_null({**TEXT, "description": "an IANA name such as Europe/Paris"}),
            "every_seconds": or_null(whole(1, MAX_EVERY_SECONDS)),
            **{name: or_null(TEXT) for name in ("run_at", "start_at", "end_at")},
            "dst_gap": or_null({"enum": list(DST_GAP)}),
            "dst_fold": or_null({"enum": list(DST_FOLD)}),
        },
        "additionalProperties": False,
    }


def retry_policy() -> Shape:
    seconds = {"type": "number", "minimum": 0, "maximum": LARGEST_DELAY_SECONDS}
    rule = {
        "type": "object",
        "required": ["error", "action"],
        "properties": {
            "error": {**TEXT, "description": LEGAL_ERROR},
            "action": {"enum": list(ACTIONS)},
            "base_delay_seconds": or_null(seconds),
        },
        "additionalProperties": False,
    }
    known = {
        "max_attempts": {**whole(1, MOST_ATTEMPTS), "description": "counts the first: 1 means no retry"},
        "backoff": {"enum": list(BACKOFFS)},
        "base_delay_seconds": seconds,
        "max_delay_seconds": seconds,
        "rules": {"type": "array", "items": rule, "maxItems": MOST_RULES, "description": "the first match decides"},
    }
    defaults = RetryPolicy().to_json()
    properties = {
        name: {**shape, **({"default": defaults[name]} if name in defaults else {})} for name, shape in known.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _concurrency() -> Shape:
    return {
        "type": "object",
        "required": ["key", "limit"],
        "properties": {
            "key": {
                **TEXT,
                "minLength": 1,
                "maxLength": concurrency.TEMPLATE_CHARACTERS,
                "description": "such as customer-{{ parameters.customer }}",
            },
            "limit": whole(1, concurrency.MOST_PLACES),
            "when_full": {**or_null({"enum": list(concurrency.WHEN_FULL)}), "default": "queue"},
        },
        "additionalProperties": False,
    }
