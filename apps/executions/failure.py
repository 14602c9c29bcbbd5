"""What kind of failure an error is: what retries, rules and circuits go by. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from apps.executions.states import Outcome

HTTP_TOO_MANY_REQUESTS = 429


class FailureClass(StrEnum):
    """Stands in an error as "class"."""

    TRANSIENT = "transient"  # may pass: trying again is worth it
    RATE_LIMITED = "rate_limited"  # asked to come back later
    PERMANENT = "permanent"  # trying again cannot help
    TIMEOUT = "timeout"
    CRASH = "crash"  # what ran it died
    CANCELLED = "cancelled"


_BY_OUTCOME = {
    Outcome.TIMED_OUT: FailureClass.TIMEOUT,
    Outcome.CRASHED: FailureClass.CRASH,
    Outcome.CANCELLED: FailureClass.CANCELLED,
}
FATE_UNKNOWN = "unknown"
"""The value of an error's "fate": the work may have been done, and nobody can tell."""

_KNOWN = frozenset(kind.value for kind in FailureClass)
_SAYS_NOTHING = frozenset({"ReferenceProblem", "SecretMissing", "SecretUnavailable", "SecretUnreadable", "SecretUnfit"})
"""Faults of the configuration, such as a secret that is not there: what the work would have called was not asked."""
_NEVER_RAN = frozenset(
    {
        "UnknownHandler",
        "HandlerNotLoaded",
        "HandlersNotLoaded",
        "CommandNotStarted",
        "ContainerNotStarted",
        "UnreadableVersion",
    }
)


def classify(outcome: Outcome, error: Mapping[str, Any] | None) -> FailureClass | None:
    """The class of how an attempt ended; None of a success. What raised the error may have said it already."""
    if outcome is Outcome.SUCCEEDED:
        return None
    if outcome in _BY_OUTCOME:
        return _BY_OUTCOME[outcome]
    known = error or {}
    if known.get("class") in _KNOWN:
        return FailureClass(known["class"])
    if known.get("permanent"):
        return FailureClass.PERMANENT
    if known.get("status") == HTTP_TOO_MANY_REQUESTS:
        return FailureClass.RATE_LIMITED
    return FailureClass.TRANSIENT


def circuit_letter(failure: FailureClass | None, error: Mapping[str, Any] | None) -> str:
    """What the attempt tells the circuit: "F" it is down, "S" it answered, "" nothing.

    A permanent refusal is an answer. A crash, a cancel or a plea for patience says nothing about what is behind.
    """
    if (error or {}).get("type") in _SAYS_NOTHING:
        return ""
    if failure is None or failure is FailureClass.PERMANENT:
        return "S"
    if failure in (FailureClass.TRANSIENT, FailureClass.TIMEOUT) and (error or {}).get("type") not in _NEVER_RAN:
        return "F"
    return ""
