"""Runs of DAGs, for whoever starts them: `start_run`, and what persons do to a run."""

from apps.executions.dags.start import active_runs, start_run

__all__ = ["active_runs", "start_run"]
