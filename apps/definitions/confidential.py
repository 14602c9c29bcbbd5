"""What a viewer is not shown of definitions: values of headers, environments and keys in URLs, which often are
credentials. Nor does a refusal repeat them: it goes into the log of whatever program has sent them.
"""

import re
from collections.abc import Mapping
from typing import Any

from apps.logs.masking import looks_secret
from apps.tenants.models import Role

MASK = "••••••"
_CONFIDENTIAL = ("headers", "environment")
_HARMLESS = ("key", "idempotency_key", "header:Idempotency-Key")
"""Names that look like those of credentials."""
_USER = re.compile(r"(://)[^/?#\s]*@")


def masked_handler(handler: Mapping[str, Any], *, role: Role) -> dict[str, Any]:
    """The handler as this role may see it."""
    if role.rank >= Role.OPERATOR.rank:
        return dict(handler)
    masked: dict[str, Any] = {part: dict.fromkeys(handler[part], MASK) for part in _CONFIDENTIAL if handler.get(part)}
    if isinstance(handler.get("url"), str):
        masked["url"] = _masked_url(handler["url"])
    return {**handler, **masked}


def repeatable(pointer: str, value: Any) -> Any:
    """A refused value as the refusal may repeat it. pointer: where it stood."""
    names = pointer.split("/")
    if any(name in _CONFIDENTIAL or _is_credential(name) for name in names):
        return MASK
    if isinstance(value, Mapping):
        return {name: repeatable(str(name), inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [repeatable("", inner) for inner in value]
    return _masked_url(_USER.sub(rf"\1{MASK}@", value)) if isinstance(value, str) and "://" in value else value


def _is_credential(name: str) -> bool:
    return name not in _HARMLESS and looks_secret(name)


def _masked_url(url: str) -> str:
    """Without the values of those fields of its query whose names say that they are credentials."""
    before, question, query = url.partition("?")
    fields = (part.partition("=") for part in query.split("&"))
    shown = (f"{name}{equals}{MASK if equals and looks_secret(name) else value}" for name, equals, value in fields)
    return before + question + "&".join(shown)


def masked_dag(values: Mapping[str, Any], *, role: Role) -> dict[str, Any]:
    """A DAG's document as this role may see it."""
    nodes = [
        {**node, "handler": masked_handler(node["handler"], role=role)} if "handler" in node else node
        for node in values["nodes"]
    ]
    return {**values, "nodes": nodes}
