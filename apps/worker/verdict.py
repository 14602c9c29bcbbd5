"""From how an attempt ended to what is written: completed, another attempt after a delay, or the dead letter queue."""

import json
import random
import re
from typing import Any

from apps.executions.retry import RetryPolicy, delay_seconds
from apps.executions.rows import Claimed, Finish
from apps.executions.states import Outcome, Status
from apps.worker.jobs import Assignment, RunResult
from chronoweb.runtime.database_clock import DatabaseClock

_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\d+")
_FINGERPRINT_CHARACTERS = 200


def decide(claimed: Claimed, result: RunResult, policy: RetryPolicy, clock: DatabaseClock) -> Finish:
    """What to write for `result`; times are moved to the database's clock."""
    target = _target(claimed, result)
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
    )
    if result.error is not None:
        finish.error = json.dumps(result.error).encode()
    if target is Status.RETRYING:
        finish.delay_us = int(_delay(policy, claimed.attempt, result.error) * 1e6)
        if _beyond_total(result.assignment, finish):
            # Another attempt would have no time left: what is wrong with this one is what a person should see.
            finish.target, finish.delay_us = Status.DEAD_LETTER, None
    if finish.target is Status.DEAD_LETTER:
        finish.fingerprint = fingerprint(result.error).encode("utf-8", "replace")
    return finish


def _target(claimed: Claimed, result: RunResult) -> Status:
    if result.outcome is Outcome.SUCCEEDED:
        return Status.COMPLETED
    if result.outcome is Outcome.CANCELLED:
        return Status.CANCELLED
    permanent = bool(result.error and result.error.get("permanent"))
    return Status.DEAD_LETTER if permanent or claimed.attempt >= claimed.max_attempts else Status.RETRYING


def _beyond_total(assignment: Assignment, finish: Finish) -> bool:
    """Whether the next attempt would begin after total_seconds are over."""
    first = assignment.first_start_us or finish.started_us
    if assignment.total_seconds is None or first is None or finish.delay_us is None:
        return False
    return finish.finished_us + finish.delay_us >= first + assignment.total_seconds * 1e6


def _delay(policy: RetryPolicy, attempt: int, error: dict[str, Any] | None) -> float:
    """Seconds until the next attempt; a server's Retry-After may only lengthen it, up to the policy's cap."""
    own = delay_seconds(policy, attempt, unit_random=random.random())  # noqa: S311 - spreads retries, guards nothing
    asked = (error or {}).get("retry_after_seconds") or 0
    return max(own, min(float(asked), policy.max_delay_seconds))


def fingerprint(error: dict[str, Any] | None) -> str:
    """What errors of one kind share: the type and the message without its numbers and ids."""
    if not error:
        return "unknown"
    message = _VARYING.sub("#", str(error.get("message", "")))
    return f"{error.get('type', 'Error')}: {message}"[:_FINGERPRINT_CHARACTERS]
