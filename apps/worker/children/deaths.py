"""What is reported of a job that no child reports: it was stopped, or its child was lost."""

import logging
from typing import Any

from apps.executions.failure import FATE_UNKNOWN
from apps.executions.states import Outcome
from apps.worker import limits
from apps.worker.handlers.report import make_error
from apps.worker.jobs import Job

log = logging.getLogger(__name__)
LOST_LIMIT = 3
"""A job whose turn never came because child after child was lost is given up after so many."""

Verdict = tuple[Outcome, dict[str, Any]]


def while_running(job: Job, reason: str | None, how: str) -> Verdict:
    """For the job that ran when its child ended. reason: why the pool killed it, if it did; how: "signal 9"."""
    if reason == "timed_out":
        return Outcome.TIMED_OUT, limits.timed_out(job.assignment, " and was killed")
    if reason == "silent":
        return Outcome.TIMED_OUT, limits.silent(job.assignment, " and was killed")
    if reason == "cancelled":
        return Outcome.CANCELLED, make_error("Cancelled", "cancelled while it ran and was killed", fate=FATE_UNKNOWN)
    extra = {"action": "worker.child_lost", "execution": job.assignment.execution_id.hex()}
    log.warning("worker child lost: %s", how, extra=extra)
    return Outcome.CRASHED, make_error("WorkerChildLost", f"worker child lost: {how}", fate=FATE_UNKNOWN)


def before_its_turn(job: Job, *, cancelled: bool) -> Verdict | None:
    """For a job that a child held and did not begin; None if it is to be handed to another child."""
    if cancelled:
        return Outcome.CANCELLED, make_error("Cancelled", "cancelled before it began")
    if job.lost >= LOST_LIMIT:
        return Outcome.CRASHED, make_error("WorkerChildLost", f"{job.lost} children were lost before it began")
    return None
