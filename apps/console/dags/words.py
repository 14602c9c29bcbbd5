"""States of runs and nodes as the console names and paints them. Each word has a colour and a shape of its own."""

from collections.abc import Mapping
from typing import Any

from apps.executions.dags.states import NodeState
from apps.executions.models import Execution
from apps.executions.states import Status

WIDEST = 19
"""Characters of usual width that a box has room for."""
_WIDTHS = {
    **dict.fromkeys(" .,:;'|!Iijl", 0.5),
    **dict.fromkeys("-/()[]ftr", 0.75),
    **dict.fromkeys("bdghnopqu", 1.1),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&", 1.25),
    **dict.fromkeys("mwMW@%", 1.6),
}
"""Of the console's font; all others count once."""


def of_node(state: int, execution: Execution | None) -> str:
    """The word of a node: a released one is where its execution is; a mapped one runs while its items do."""
    found = NodeState(state)
    if found is not NodeState.ACTIVE:
        return found.word
    return Status.RUNNING.word if execution is None else execution.state.word


def label(word: str) -> str:
    """`upstream failed`."""
    return word.replace("_", " ")


def fitted(text: str, widest: int = WIDEST) -> str:
    """The text as far as a box has room; characters beyond Latin, Greek and Cyrillic count twice."""
    room = float(widest)
    for at, character in enumerate(text):
        room -= _WIDTHS.get(character, 1.0) if character < "\u0600" else 2
        if room < 0:
            return text[: max(1, at - 1)].rstrip() + "…"
    return text


def condition(found: Mapping[str, Any]) -> str:
    """An edge's condition: `if $.type equals invoice`."""
    operator = str(found.get("op", "")).replace("_", " ")
    return f"if {found.get('path', '')} {operator} {found.get('value', '')}"
