"""The shapes of definitions (apps/definitions/json_shapes.py) under the names that the API's schemas have."""

from typing import Any

from apps.api.openapi.shapes import MOMENT, UUID, Shape, or_null, record

NAMES = {
    "handler": "Handler",
    "schedule": "ScheduleInput",
    "retry_policy": "RetryPolicy",
    "node": "DagNode",
    "edge": "DagEdge",
    "condition": "Condition",
}
"""Name in #/$defs/ → name of the API's schema."""

STANDING: dict[str, Shape] = {
    "version": {"type": "integer", "minimum": 1},
    "paused_at": or_null(MOMENT),
    "paused_note": {"type": "string"},
    "next_fire_at": {
        **or_null(MOMENT),
        "description": "the next occurrence of its schedule after now, before jitter; null while it is paused or "
        "nothing follows",
    },
    "created_at": MOMENT,
    "updated_at": MOMENT,
}
"""What tasks and DAGs have beside their documents."""


def lifted(shape: Any) -> Any:
    """The shape with its references to #/$defs/… pointing at the API's schemas."""
    if isinstance(shape, dict):
        return {name: _moved(part) if name == "$ref" else lifted(part) for name, part in shape.items()}
    return [lifted(part) for part in shape] if isinstance(shape, list) else shape


def _moved(reference: str) -> str:
    return f"#/components/schemas/{NAMES[reference.removeprefix('#/$defs/')]}"


def partial(shape: Shape) -> Shape:
    """The same fields, none of them required: what PATCH takes."""
    return {name: part for name, part in shape.items() if name not in ("required", "allOf")}


def shown(properties: dict[str, Any], *, nullable: frozenset[str], **instead: Shape | str) -> Shape:
    """A document as it is answered: every field, null only where it may be, the schedule in full."""
    fields: dict[str, Shape | str] = {"id": UUID}
    for name, shape in properties.items():
        plain = {key: part for key, part in lifted(shape).items() if key != "default"}
        whole = plain.get("anyOf", [])
        if name not in nullable and len(whole) == 2 and whole[1] == {"type": "null"}:
            plain = whole[0]
        fields[name] = instead.get(name, plain)
    return record({**fields, "schedule": "Schedule"})
