"""What a viewer is not shown of definitions: values of headers and environments, which often are credentials."""

from collections.abc import Mapping
from typing import Any

from apps.tenants.models import Role

MASK = "••••••"
_CONFIDENTIAL = ("headers", "environment")


def masked_handler(handler: Mapping[str, Any], *, role: Role) -> dict[str, Any]:
    """The handler as this role may see it."""
    if role.rank >= Role.OPERATOR.rank:
        return dict(handler)
    masked = {part: dict.fromkeys(handler[part], MASK) for part in _CONFIDENTIAL if handler.get(part)}
    return {**handler, **masked}


def masked_dag(values: Mapping[str, Any], *, role: Role) -> dict[str, Any]:
    """A DAG's document as this role may see it."""
    nodes = [
        {**node, "handler": masked_handler(node["handler"], role=role)} if "handler" in node else node
        for node in values["nodes"]
    ]
    return {**values, "nodes": nodes}
