"""States of runs and nodes as the console names and paints them. Each word has a colour and a shape of its own."""

from collections.abc import Mapping
from typing import Any

from apps.executions.dags.states import NodeState
from apps.executions.models import Execution
from apps.executions.states import Status

WIDEST = 19
"""Characters that a box has room for."""


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
    room = widest
    for at, character in enumerate(text):
        room -= 1 if character < "\u0600" else 2
        if room < 0:
            return text[: max(1, at - 1)].rstrip() + "…"
    return text


def condition(found: Mapping[str, Any]) -> str:
    """An edge's condition: `if $.type equals invoice`."""
    operator = str(found.get("op", "")).replace("_", " ")
    return f"if {found.get('path', '')} {operator} {found.get('value', '')}"
