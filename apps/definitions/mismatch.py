"""An edit that was made from a version which is no longer in force, and where it differs from the one that is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apps.definitions.json_values import escape
from chronoweb.runtime.errors import Conflict

MOST_DIFFERENCES = 100


class VersionMismatch(Conflict):
    """It has been edited since the caller read it. extra: version; changed (names of fields since the version that the
    caller names); differences (pointer, yours, current) between what the caller would put in force and what is.
    """


def mismatch(
    what: str,
    *,
    version: int,
    expected: int,
    seen: Mapping[str, Any] | None,
    current: Mapping[str, Any],
    yours: Any,
) -> VersionMismatch:
    """what: such as "task 0189…". seen: the document of the expected version, if there is one. yours: the fields that
    were sent; those that were not are no difference.
    """
    changed = [] if seen is None else [name for name in current if seen.get(name) != current[name]]
    differences = list(_differences(yours if isinstance(yours, Mapping) else {}, current))
    return VersionMismatch(
        f"{what} is at version {version}, not {expected}: read it again and repeat the edit",
        version=version,
        changed=changed,
        differences=differences[:MOST_DIFFERENCES],
    )


def _differences(yours: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, value in yours.items():
        if name not in current or value == current[name]:
            continue
        ours, theirs = _by_id(value), _by_id(current[name])
        if ours is None or theirs is None:
            yield {"pointer": f"/{escape(name)}", "yours": value, "current": current[name]}
            continue
        for identity in dict.fromkeys([*ours, *theirs]):
            if ours.get(identity) != theirs.get(identity):
                pointer = f"/{escape(name)}/{escape(identity)}"
                yield {"pointer": pointer, "yours": ours.get(identity), "current": theirs.get(identity)}


def _by_id(value: Any) -> dict[str, Any] | None:
    """The nodes of a DAG by their ids; None for any other value."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return None
    named = {node["id"]: node for node in value if isinstance(node, Mapping) and isinstance(node.get("id"), str)}
    return named if len(named) == len(value) else None
