"""Which time limit an attempt has run into, in words. The limits themselves stand in its assignment."""

from typing import Any

from apps.executions.failure import FATE_UNKNOWN
from apps.worker.handlers.report import make_error
from apps.worker.jobs import Assignment


def timed_out(assignment: Assignment, end: str, **more: Any) -> dict[str, Any]:
    """The error of an attempt that ran for too long. end: what became of it (" and was killed")."""
    if assignment.total_is_nearer:
        text = f"all attempts together ran longer than total_seconds ({assignment.total_seconds:g} s)"
        return make_error("TotalTimeout", f"{text}{end}", permanent=True, **{"fate": FATE_UNKNOWN, **more})
    text = f"ran longer than timeout_seconds ({assignment.timeout_seconds:g} s)"
    return make_error("TimedOut", f"{text}{end}", **{"fate": FATE_UNKNOWN, **more})


def silent(assignment: Assignment, end: str, **more: Any) -> dict[str, Any]:
    """The error of an attempt that stopped telling that it lives."""
    text = f"said nothing for heartbeat_seconds ({assignment.heartbeat_seconds:g} s){end}"
    return make_error("HeartbeatTimeout", text, **{"fate": FATE_UNKNOWN, **more})


def no_time_left(assignment: Assignment) -> dict[str, Any]:
    """The error of an attempt that need not begin."""
    text = f"total_seconds ({assignment.total_seconds:g} s) were over before this attempt began"
    return make_error("TotalTimeout", text, permanent=True)
