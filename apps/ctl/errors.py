"""What can go wrong, and the exit code that tells it."""

from enum import IntEnum

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


class CtlError(ChronowebError):
    """Ends the command with `code`; its text goes to standard error."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


def usage(message: str) -> CtlError:
    return CtlError(message, Exit.USAGE)
