"""Runs of DAGs, for whoever starts them: `start_run`, and what persons do to a run."""

from apps.executions.dags.queue import begin_queued, dags_that_wait
from apps.executions.dags.start import LEAD, ActiveRuns, active_runs, start_run

__all__ = ["LEAD", "ActiveRuns", "active_runs", "begin_queued", "dags_that_wait", "start_run"]
