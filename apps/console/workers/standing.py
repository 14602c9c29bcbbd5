"""How a worker stands, as its row and its silence tell. Pure."""

from datetime import datetime, timedelta

from apps.executions.models import Worker, WorkerState

LIVE, DRAINING, SILENT, STOPPED, LOST = "live", "draining", "silent", "stopped", "lost"
ORDER = (SILENT, DRAINING, LIVE, LOST, STOPPED)
"""What wants to be looked at first."""
WORDS = {
    LIVE: "takes work and has been heard of",
    DRAINING: "takes no more work, ends what it runs, and leaves",
    SILENT: "has missed heartbeats; the watchdog gives it up when its lease runs out, and its work goes on elsewhere",
    STOPPED: "has left in order, and has given back what it held",
    LOST: "was given up: what it held was taken back and goes on elsewhere",
}
_ENDED = {WorkerState.STOPPED: STOPPED, WorkerState.LOST: LOST}


def of(worker: Worker, *, now: datetime, heartbeat_seconds: float) -> str:
    """One of ORDER. Silent: two heartbeats are missing."""
    if worker.state in _ENDED:
        return _ENDED[WorkerState(worker.state)]
    if now - worker.heartbeat_at > timedelta(seconds=2 * heartbeat_seconds + 1):
        return SILENT
    is_leaving = worker.state == WorkerState.DRAINING or worker.drain_requested_at is not None
    return DRAINING if is_leaving else LIVE
