"""From how an attempt ended to what is written: completed, another attempt after a delay, or the dead letter queue.

The error gets its class. The policy's rules come first; then what is permanent, and what must not run again while
nobody knows whether it was done, goes to the dead letters at once.
"""

import json
import random
import re
from dataclasses import replace
from typing import Any

from apps.executions.failure import FATE_UNKNOWN, FailureClass, circuit_letter, classify
from apps.executions.retry import delay_seconds
from apps.executions.retry_rules import RetryRule
from apps.executions.rows import Claimed, Finish
from apps.executions.states import Status
from apps.worker.jobs import Assignment, RunResult
from apps.worker.versions import Terms
from chronoweb.runtime.database_clock import DatabaseClock

_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\d+")
_FINGERPRINT_CHARACTERS = 200


def decide(claimed: Claimed, result: RunResult, terms: Terms, clock: DatabaseClock) -> Finish:
    """What to write for `result`; times are moved to the database's clock."""
    failure = classify(result.outcome, result.error)
    error = None if failure is None and result.error is None else dict(result.error or {})
    rule = None
    if error is not None and failure is not None:
        error["class"] = failure.value
        rule = terms.policy.rule_for(error, failure)
    target = _target(claimed, failure, error, rule, idempotent=terms.idempotent)
    finish = Finish(
        id=claimed.id,
        token=claimed.token,
        attempt=claimed.attempt,
        target=target,
        outcome=result.outcome,
        due_us=claimed.run_at_us,
        started_us=clock.from_host_us(result.started_at_us) if result.started_at_us else None,
        finished_us=clock.from_host_us(result.finished_at_us),
        result=result.result_json,
        circuit=circuit_letter(failure, error),
        told=str((error or {}).get("message", "")) or None,
    )
    if target is Status.RETRYING:
        finish.delay_us = int(_delay(terms, claimed.attempt, error, rule) * 1e6)
        if _beyond_total(result.assignment, finish):
            # Another attempt would have no time left: what is wrong with this one is what a person should see.
            finish.target, finish.delay_us = Status.DEAD_LETTER, None
    if finish.target is Status.DEAD_LETTER:
        if _is_for_a_person(failure, error, rule, idempotent=terms.idempotent):
            assert error is not None
            error["message"] = f"fate unknown: {error.get('message', '')}"
        finish.fingerprint = fingerprint(error).encode("utf-8", "replace")
    if error is not None:
        finish.error = json.dumps(error).encode()
    return finish


def _target(
    claimed: Claimed,
    failure: FailureClass | None,
    error: dict[str, Any] | None,
    rule: RetryRule | None,
    *,
    idempotent: bool,
) -> Status:
    if failure is None:
        return Status.COMPLETED
    if failure is FailureClass.CANCELLED:
        return Status.CANCELLED
    if claimed.attempt >= claimed.max_attempts:
        return Status.DEAD_LETTER
    if rule is not None:
        return Status.RETRYING if rule.retries else Status.DEAD_LETTER
    hopeless = failure is FailureClass.PERMANENT or bool(error and error.get("permanent"))
    if hopeless or _is_for_a_person(failure, error, rule, idempotent=idempotent):
        return Status.DEAD_LETTER
    return Status.RETRYING


def _beyond_total(assignment: Assignment, finish: Finish) -> bool:
    """Whether the next attempt would begin after total_seconds are over."""
    first = assignment.first_start_us or finish.started_us
    if assignment.total_seconds is None or first is None or finish.delay_us is None:
        return False
    return finish.finished_us + finish.delay_us >= first + assignment.total_seconds * 1e6


def _is_for_a_person(
    failure: FailureClass | None, error: dict[str, Any] | None, rule: RetryRule | None, *, idempotent: bool
) -> bool:
    """Whether it may have been done and must not be done twice."""
    unknown = (error or {}).get("fate") == FATE_UNKNOWN
    return failure is not None and not idempotent and unknown and not (rule is not None and rule.retries)


def _delay(terms: Terms, attempt: int, error: dict[str, Any] | None, rule: RetryRule | None) -> float:
    """Seconds until the next attempt; a server's Retry-After may only lengthen it, up to the policy's cap."""
    policy = terms.policy
    if rule is not None and rule.base_delay_seconds is not None:
        policy = replace(policy, base_delay_seconds=rule.base_delay_seconds)
    own = delay_seconds(policy, attempt, unit_random=random.random())  # noqa: S311 - spreads retries, guards nothing
    asked = (error or {}).get("retry_after_seconds") or 0
    return max(own, min(float(asked), policy.max_delay_seconds))


def fingerprint(error: dict[str, Any] | None) -> str:
    """What errors of one kind share: the type and the message without its numbers and ids."""
    if not error:
        return "unknown"
    message = _VARYING.sub("#", str(error.get("message", "")))
    return f"{error.get('type', 'Error')}: {message}"[:_FINGERPRINT_CHARACTERS]
