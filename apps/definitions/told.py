"""Errors of input as a command line tells them: one line each, with pointer, value and legal values."""

import json
from collections.abc import Sequence
from typing import Any

from chronoweb.runtime.errors import InvalidInput, InvalidInputs

_SHOWN = 120


def lines(error: InvalidInput | InvalidInputs, *, source: str) -> list[str]:
    """`FILE /nodes/2/depends_on/0: is no node of this DAG: "clasify"; perhaps classify; known: …`."""
    errors = [error] if isinstance(error, InvalidInput) else error.errors
    return [_line(each, source) for each in errors]


def _line(error: InvalidInput, source: str) -> str:
    text = f"{source} {error.pointer}: " if error.pointer else f"{source}: "
    text += error.problem
    if error.value is not None:
        text += f": {_short(error.value)}"
    if error.legal is not None:
        text += f"; {meant(error.legal)}"
    return text


def meant(legal: Sequence[Any] | str) -> str:
    """`legal: a, b`; what begins with a guess at what was meant says so by itself."""
    text = legal if isinstance(legal, str) else ", ".join(map(str, legal))
    return text if text.startswith("perhaps ") else f"legal: {text}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
