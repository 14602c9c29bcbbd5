"""When a failed attempt is tried again: the policy, its check, and the delay. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from apps.executions.failure import FailureClass
from apps.executions.retry_rules import RetryRule, parse_rules
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.spelling import meant

BACKOFFS = ("fixed", "linear", "exponential", "exponential_jitter")
LARGEST_DELAY_SECONDS = 3600.0
MOST_ATTEMPTS = 1000
_DOUBLINGS = 64
"""More doublings than this exceed every cap; a float would overflow at 1024."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """max_attempts counts the first one: 1 means no retry. Delays are seconds. Of the rules the first match decides."""

    max_attempts: int = 4
    backoff: str = "exponential_jitter"
    base_delay_seconds: float = 60.0
    max_delay_seconds: float = LARGEST_DELAY_SECONDS
    rules: tuple[RetryRule, ...] = ()

    @classmethod
    def parse(cls, data: Any) -> "RetryPolicy":
        """The policy that `data` (a JSON object; None for the defaults) describes; what it lacks is the default.

        Raises InvalidInputs, pointers relative to the object ("/max_attempts").
        """
        if data is None:
            return cls()
        if not isinstance(data, Mapping):
            raise InvalidInputs([InvalidInput("", data, "must be an object", ", ".join(_names()))])
        errors = [
            InvalidInput(f"/{name}", value, f"unknown field{meant(name, _names())}", ", ".join(_names()))
            for name, value in data.items()
            if name not in _names()
        ]
        given = {name: data[name] for name in _names() if name in data}
        rules, problems = parse_rules(given.pop("rules", []), longest_delay_seconds=LARGEST_DELAY_SECONDS)
        errors += [error for name, value in given.items() if (error := _problem(name, value))] + problems
        if errors:
            raise InvalidInputs(errors)
        policy = cls(**given, rules=rules)
        both_given = "base_delay_seconds" in given and "max_delay_seconds" in given
        if both_given and policy.max_delay_seconds < policy.base_delay_seconds:
            legal = f"{policy.base_delay_seconds:g} to {LARGEST_DELAY_SECONDS:g}"
            problem = "is smaller than base_delay_seconds"
            raise InvalidInputs([InvalidInput("/max_delay_seconds", policy.max_delay_seconds, problem, legal)])
        return policy

    def to_json(self) -> dict[str, Any]:
        """The object that `parse` reads."""
        plain = {name: getattr(self, name) for name in _names() if name != "rules"}
        return {**plain, "rules": [rule.to_json() for rule in self.rules]} if self.rules else plain

    def rule_for(self, error: Mapping[str, Any], failure: FailureClass) -> RetryRule | None:
        """The first rule that means this error."""
        return next((rule for rule in self.rules if rule.matches(error, failure)), None)


def delay_seconds(policy: RetryPolicy, attempt: int, *, unit_random: float) -> float:
    """Seconds to wait after attempt number `attempt` (from 1) failed; never above max_delay_seconds.

    unit_random: a number from 0 up to 1; used by exponential_jitter alone, where it spreads the delay over half
    to one and a half times the exponential one. The other kinds never fall as attempts grow.
    """
    n = max(1, attempt)
    base = policy.base_delay_seconds
    if policy.backoff == "fixed":
        wanted = base
    elif policy.backoff == "linear":
        wanted = base * n
    else:
        wanted = base * 2.0 ** min(n - 1, _DOUBLINGS)
        if policy.backoff == "exponential_jitter":
            wanted *= 0.5 + unit_random
    return min(policy.max_delay_seconds, wanted)


def _names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(RetryPolicy))


def _problem(name: str, value: Any) -> InvalidInput | None:
    pointer = f"/{name}"
    if name == "backoff":
        return None if value in BACKOFFS else InvalidInput(pointer, value, "unknown backoff", BACKOFFS)
    if name == "max_attempts":
        if type(value) is int and 1 <= value <= MOST_ATTEMPTS:
            return None
        return InvalidInput(pointer, value, "must be a whole number of attempts", f"1 to {MOST_ATTEMPTS}")
    if type(value) in (int, float) and 0 <= value <= LARGEST_DELAY_SECONDS:
        return None
    # Neither NaN nor an infinity compares as lying in the range.
    return InvalidInput(pointer, value, "must be a number of seconds", f"0 to {LARGEST_DELAY_SECONDS:g}")
