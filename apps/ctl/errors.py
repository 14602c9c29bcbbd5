"""What can go wrong, and the exit code that tells it."""

from collections.abc import Mapping
from enum import IntEnum
from http import HTTPStatus
from typing import Any

from chronoweb.runtime.errors import ChronowebError


class Exit(IntEnum):
    """Of the command. 2 is also argparse's."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNKNOWN = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    INVALID = 6
    AWAY = 7
    FAILED = 8


MEANINGS = {
    Exit.DONE: "done",
    Exit.REFUSED: "the server refused, for another reason than those below",
    Exit.USAGE: "the command line is wrong, a file cannot be read, or no key was given",
    Exit.UNKNOWN: "there is no such thing (404)",
    Exit.NOT_ALLOWED: "the key is wrong, or may not do this (401, 403)",
    Exit.CONFLICT: "not in its present state (409, 412)",
    Exit.INVALID: "the server finds the input wrong (400, 413, 422)",
    Exit.AWAY: "the server does not answer, is overloaded or failed (429, 5xx)",
    Exit.FAILED: "what was waited for did not succeed (--wait)",
}
_BY_STATUS = {
    **dict.fromkeys((401, 403), Exit.NOT_ALLOWED),
    404: Exit.UNKNOWN,
    **dict.fromkeys((409, 412), Exit.CONFLICT),
    **dict.fromkeys((400, 413, 415, 422), Exit.INVALID),
    429: Exit.AWAY,
}


class CtlError(ChronowebError):
    """Ends the command with `code`; its text goes to standard error."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


def usage(message: str) -> CtlError:
    return CtlError(message, Exit.USAGE)


def refused(status: int, problem: Mapping[str, Any]) -> CtlError:
    """The error of an answer; problem: its problem details, or empty if it had none."""
    code = _BY_STATUS.get(status, Exit.AWAY if status >= 500 else Exit.REFUSED)
    return CtlError("\n".join([_headline(status, problem), *_details(problem)]), code)


def _headline(status: int, problem: Mapping[str, Any]) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    detail = str(problem.get("detail") or "the answer does not say why")
    return f"{status} {phrase}: {detail}"


def _details(problem: Mapping[str, Any]) -> list[str]:
    """A line for each value that is wrong, and the other members of the problem."""
    lines = []
    for error in problem.get("errors") or []:
        where = error.get("pointer") or error.get("parameter") or error.get("header") or "the document"
        legal = error.get("legal")
        more = f"; right: {legal if isinstance(legal, str) else ', '.join(map(str, legal))}" if legal else ""
        lines.append(f"  {where}: {error.get('detail')}{more}")
    known = {"type", "title", "status", "detail", "errors", "instance"}
    lines += [f"  {name}: {value}" for name, value in problem.items() if name not in known]
    return lines
