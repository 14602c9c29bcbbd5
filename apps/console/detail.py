"""Values of the ledger as text."""

import json
from typing import Any

_TURNS = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}
"""What turns the direction of the text behind it. In JSON its escape means the same; lines behind it stay legible."""


def readable(value: Any) -> str:
    """JSON for people: indented, keys as they are, other scripts unescaped."""
    return json.dumps(value, indent=2, ensure_ascii=False).translate(_TURNS)


_SAID_ELSEWHERE = ("type", "message", "traceback", "class", "permanent")
"""Of an error: its headline, and what decides whether it is tried again."""


def fault(error: Any) -> str:
    """An error as text: its traceback; else its message, and what it holds besides, texts as they were printed."""
    if not isinstance(error, dict):
        return "" if error is None else readable(error)
    if error.get("traceback"):
        return str(error["traceback"])
    parts = [str(error["message"]).strip()] if error.get("message") else []
    for name, value in error.items():
        if name in _SAID_ELSEWHERE or value in (None, ""):
            continue
        text = value.strip() if isinstance(value, str) else readable(value)
        parts.append(f"{name}:\n{text}" if "\n" in text or isinstance(value, str) else f"{name}: {text}")
    return "\n\n".join(parts)
