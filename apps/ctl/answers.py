"""What a server has answered: an object of chronoweb's, or an error that says why it is none."""

import json
from typing import Any

from apps.ctl.errors import CtlError, Exit

ADVICE = "is the address right, and does nothing in between (a proxy, a page to log in) answer instead?"


class Answer(dict[str, Any]):
    """An object within an answer. Asked for what chronoweb always says and this one does not, it raises CtlError."""

    def __missing__(self, name: str) -> Any:
        raise foreign(f"it has no {name!r}")

    def object(self, name: str) -> "Answer":
        return _object(self[name], name)

    def text(self, name: str) -> str:
        found = self[name]
        if not isinstance(found, str):
            raise foreign(f"its {name!r} is no text")
        return found

    def number(self, name: str) -> int:
        found = self[name]
        if not isinstance(found, int):
            raise foreign(f"its {name!r} is no whole number")
        return found

    def objects(self, name: str) -> list["Answer"]:
        found = self[name]
        if not isinstance(found, list):
            raise foreign(f"its {name!r} is no list")
        return [_object(item, name) for item in found]


class Foreign(CtlError):
    """A success that is none of chronoweb's."""


def read(text: str | bytes) -> Answer:
    """The object that a body is. Raises CtlError for anything else."""
    try:
        found = json.loads(text, object_pairs_hook=Answer)
    except (ValueError, RecursionError):
        raise foreign("it is not JSON" if text else "it is empty") from None
    if not isinstance(found, Answer):
        raise foreign("it is JSON, but no object")
    return found


def foreign(what: str) -> Foreign:
    return Foreign(f"this is not chronoweb's API, it does not answer as chronoweb does ({what}): {ADVICE}", Exit.AWAY)


def _object(found: Any, name: str) -> Answer:
    if not isinstance(found, Answer):
        raise foreign(f"its {name!r} holds no object where one belongs")
    return found
