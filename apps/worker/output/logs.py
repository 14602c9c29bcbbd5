"""The logs of jobs: made when a job first needs one, closed when it ends."""

from apps.logs.attempt_log import AttemptLog
from apps.logs.desk import LogDesk
from apps.logs.masking import secrets_of_task
from apps.worker.attempt_secrets import values_to_mask
from apps.worker.jobs import Assignment, Job


class JobLogs:
    """desk: None where nobody keeps logs."""

    def __init__(self, desk: LogDesk | None) -> None:
        self._desk = desk

    @property
    def kept(self) -> bool:
        return self._desk is not None

    @property
    def patience_seconds(self) -> float:
        """How long who prints waits for room."""
        return self._desk.block_seconds if self._desk is not None else 0.0

    def of(self, job: Job) -> AttemptLog | None:
        """The job's log; the runner's thread alone makes it."""
        if job.log is None and self._desk is not None and not job.done:
            job.log = self._desk.open(job.assignment, lambda: _secrets(job.assignment))
        return job.log


def _secrets(assignment: Assignment) -> frozenset[str]:
    return secrets_of_task(assignment.handler, assignment.parameters_json, values_to_mask(assignment))
