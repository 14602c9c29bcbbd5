"""What it means that a job has ended: reported, or handed back unfinished to run elsewhere."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from apps.executions.failure import FATE_UNKNOWN
from apps.executions.states import Outcome
from apps.worker.attempt_secrets import values_to_mask
from apps.worker.hiding import hide
from apps.worker.jobs import Job, Report, RunResult
from apps.worker.roster import Roster
from chronoweb.runtime.clock import Clock

log = logging.getLogger(__name__)

_STOPPED = "its worker was stopped while it ran"


class Endings:
    """Gathers results and passes them on in batches. Used by the runner's thread."""

    def __init__(self, roster: Roster, on_results: Callable[[list[RunResult]], None], clock: Clock) -> None:
        self._roster = roster
        self._on_results = on_results
        self._clock = clock
        self._results: list[RunResult] = []

    def ended(
        self, job: Job, outcome: int, started_us: int, finished_us: int, result: bytes | None, error: Any
    ) -> None:
        """A job has ended, one way or another; the first word counts."""
        if job.done:
            return
        job.done = True
        if job.assignment.secrets:
            result, error = hide(values_to_mask(job.assignment), result, error)
        if job.log is not None:
            job.log.end()
        end = judge(job, outcome, error)
        if end.handed_back:
            self._roster.hand_back(job)
        else:
            self._results.append(RunResult(job.assignment, end.outcome, started_us, finished_us, result, end.error))
        self._roster.remove(job)

    def report(self, job: Job, report: Report, *, finished_us: int) -> None:
        """A job that ran in the worker itself has ended, or was abandoned."""
        self.ended(job, report.outcome, job.started_us, finished_us, report.result_json, report.error)

    def refuse(self, job: Job, outcome: Outcome, error: dict[str, Any]) -> None:
        """A job that does not begin."""
        now = int(self._clock.time() * 1e6)
        self.ended(job, int(outcome), now, now, None, error)

    def deliver(self) -> None:
        """Pass on what has been gathered."""
        if not self._results:
            return
        results, self._results = self._results, []
        try:
            self._on_results(results)
        except Exception:
            log.exception("%s results were refused", len(results), extra={"action": "runner.results_refused"})


class Ending(NamedTuple):
    """outcome, error: what is reported. handed_back: nothing is; it goes back unfinished."""

    outcome: Outcome
    error: dict[str, Any] | None
    handed_back: bool = False


def judge(job: Job, outcome: int, error: dict[str, Any] | None) -> Ending:
    """Of a job that ran, or was refused, with that outcome. What may be done already is never handed back, if it must
    not be done twice.
    """
    if outcome == Outcome.RELEASED:
        outcome, error = _interrupted(job, error or {})
    if job.released and outcome != Outcome.SUCCEEDED:
        if not _is_for_a_person(job, error):
            return Ending(Outcome(outcome), error, handed_back=True)
        if outcome == Outcome.CANCELLED:
            return Ending(Outcome.CRASHED, {**(error or {}), "type": "WorkerStopped", "message": _STOPPED})
    return Ending(Outcome(outcome), error)


def _interrupted(job: Job, error: dict[str, Any]) -> tuple[Outcome, dict[str, Any]]:
    """What it means that a handler has let itself be interrupted."""
    if job.asked == "drain":
        job.released = True
    if job.asked == "cancel":
        return Outcome.CANCELLED, {**error, "type": "Cancelled"}
    return Outcome.FAILED, {**error, "message": f"{error['message']} (nobody had asked it to stop)"}


def _is_for_a_person(job: Job, error: dict[str, Any] | None) -> bool:
    """Whether it had begun and may not begin again."""
    return not job.assignment.idempotent and error is not None and error.get("fate") == FATE_UNKNOWN
