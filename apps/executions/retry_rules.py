"""Rules of a retry policy: for this kind of error, this action. The first that matches decides. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.executions.failure import FailureClass
from chronoweb.runtime.errors import InvalidInput

ACTIONS = ("retry", "dead_letter")
MOST_RULES = 50
LEGAL_ERROR = (
    'an exception type ("ValueError"), "http:4xx", "http:429", "exit:3" (1 to 255), or "class:" and one of '
    "transient, rate_limited, permanent, timeout, crash"
)
_FIELDS = ("error", "action", "base_delay_seconds")
_TYPE = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)
_HTTP = re.compile(r"http:([3-5])(xx|\d\d)", re.ASCII)
_EXIT = re.compile(r"exit:([1-9]\d{0,2})", re.ASCII)
_MATCHABLE = frozenset(f"class:{kind}" for kind in FailureClass if kind is not FailureClass.CANCELLED)


@dataclass(frozen=True, slots=True)
class RetryRule:
    """error: which errors, as the API writes it. base_delay_seconds: in place of the policy's; None: the policy's."""

    error: str
    action: str
    base_delay_seconds: float | None = None

    @property
    def retries(self) -> bool:
        return self.action == "retry"

    def matches(self, error: Mapping[str, Any], failure: FailureClass) -> bool:
        """Whether an error of class `failure` is one of those meant."""
        kind, colon, wanted = self.error.partition(":")
        if not colon:
            return error.get("type") == self.error
        if kind == "class":
            return failure == wanted
        if kind == "exit":
            return str(error.get("exit_code")) == wanted
        status = str(error.get("status", ""))
        return status[:1] == wanted[:1] and (wanted.endswith("xx") or status == wanted)

    def to_json(self) -> dict[str, Any]:
        given = {"error": self.error, "action": self.action}
        return given if self.base_delay_seconds is None else {**given, "base_delay_seconds": self.base_delay_seconds}


def parse_rules(data: Any, *, longest_delay_seconds: float) -> tuple[tuple[RetryRule, ...], list[InvalidInput]]:
    """(the rules, what is wrong); pointers relative to the policy ("/rules/0/error")."""
    if not isinstance(data, list) or len(data) > MOST_RULES:
        return (), [InvalidInput("/rules", data, "must be a list of rules", f"at most {MOST_RULES} rules")]
    rules, found = [], []
    for position, given in enumerate(data):
        problems = list(_problems(f"/rules/{position}", given, longest_delay_seconds))
        found += problems
        if not problems:
            rules.append(RetryRule(given["error"], given["action"], given.get("base_delay_seconds")))
    return tuple(rules), found


def _problems(pointer: str, given: Any, longest: float) -> list[InvalidInput]:
    if not isinstance(given, Mapping):
        return [InvalidInput(pointer, given, "must be an object", ", ".join(_FIELDS))]
    found = [
        InvalidInput(f"{pointer}/{name}", value, "unknown field of a rule", ", ".join(_FIELDS))
        for name, value in given.items()
        if name not in _FIELDS
    ]
    if not _is_pattern(given.get("error")):
        problem = "names no kind of error" if "error" in given else "is missing"
        found.append(InvalidInput(f"{pointer}/error", given.get("error"), problem, LEGAL_ERROR))
    if given.get("action") not in ACTIONS:
        problem = "unknown action" if "action" in given else "is missing"
        found.append(InvalidInput(f"{pointer}/action", given.get("action"), problem, ACTIONS))
    delay = given.get("base_delay_seconds")
    at = f"{pointer}/base_delay_seconds"
    if delay is None:
        return found
    if given.get("action") == "dead_letter":
        found.append(InvalidInput(at, delay, "belongs to the action retry alone", "null"))
    elif type(delay) not in (int, float) or not 0 <= delay <= longest:
        found.append(InvalidInput(at, delay, "must be a number of seconds", f"0 to {longest:g}"))
    return found


def _is_pattern(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    exit_code = _EXIT.fullmatch(text)
    if exit_code:
        return int(exit_code[1]) <= 255
    return bool(text in _MATCHABLE or _HTTP.fullmatch(text) or _TYPE.fullmatch(text))
