"""Time limits of one document that cannot both hold: one of them would never count. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from chronoweb.runtime.errors import Contradiction, InvalidInput

_TIMEOUT = "/timeout_seconds"


def contradictions(values: Mapping[str, Any], *, stated: Collection[str]) -> Contradiction | None:
    """What contradicts, both named. values: a document that has been read; stated: the fields that it says itself.

    A limit that is only the default contradicts nothing: it gives way.
    """
    if "timeout_seconds" not in stated:
        return None
    attempt = values["timeout_seconds"]
    timeouts, handler = values["timeouts"], values["handler"]
    found: list[InvalidInput] = []

    def clash(pointer: str, value: Any, why: str) -> None:
        name = pointer[1:].replace("/", ".")
        if not found:
            both = f"is {attempt} s, which contradicts {name} ({value:g} s)"
            found.append(InvalidInput(_TIMEOUT, attempt, both, "limits of which each can be reached"))
        legal = f"at most {attempt}, or a larger timeout_seconds"
        if pointer == "/timeouts/total_seconds":
            legal = f"at least {attempt}, or a smaller timeout_seconds"
        found.append(InvalidInput(pointer, value, f"contradicts timeout_seconds ({attempt} s): {why}", legal))

    total, silence = timeouts.get("total_seconds"), timeouts.get("heartbeat_seconds")
    if "timeouts" in stated and total is not None and total < attempt:
        clash("/timeouts/total_seconds", total, "all attempts together would end before one of them may")
    if "timeouts" in stated and silence is not None and silence > attempt:
        clash("/timeouts/heartbeat_seconds", silence, "an attempt would end before its silence is noticed")
    if "handler" in stated:
        inner = (handler.get("resource_requirements") or {}).get("timeout_seconds")
        if inner is not None and inner > attempt:
            why = "the attempt would end before the container's own limit"
            clash("/handler/resource_requirements/timeout_seconds", inner, why)
        for name in ("connect_timeout_seconds", "read_timeout_seconds"):
            wait = handler.get(name)
            if wait is not None and wait > attempt:
                clash(f"/handler/{name}", wait, "the attempt would end before this wait does")
    return Contradiction(found) if found else None
