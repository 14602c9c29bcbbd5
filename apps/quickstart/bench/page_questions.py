"""What the scenario `pages` asks each list: frequent and rare values, several together, other orders, far pages.

In braces: samples by their names (pages.samples).
"""

from collections.abc import Mapping

from apps.executions.states import Status

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "tasks": (
        "sort=urgent&q=nothing-has-this",
        "paused=true&q=rd&sort=urgent",
        "sort=changed",
        "sort=new",
        "sort=urgent",
        "q=orders",
        "q=ship",
        "q=rd",
        "q=-004711",
        "q=nothing-has-this",
        "q=orders&sort=changed",
        "tag=billing",
        "tag=billing&tag=clean&sort=changed",
        "paused=true",
        "paused=true&sort=changed",
        "after={task_id}",
        "sort=changed&after={task_id}",
    ),
    "executions": (
        *(f"state={status.word}" for status in Status),
        "before={identity}",
        "state=scheduled&state=retrying",
        "q=orders",
        "error=ConnectionError",
        "error=NothingOfThisKind",
        "state=dead_letter&error=ValueError",
        "why=overlap",
        "class=critical",
        "due=ahead",
        "due=24h&state=cancelled",
        "task={task_id}",
        "task={task_id}&state=skipped",
        "run={run_id}",
        "worker=9999",
        "worker=9999&class=critical&state=cancelled",
        "worker={worker_id}&state=skipped",
        "error=ConnectionError&state=cancelled",
        "error=ConnectionError&q=orders&class=bulk",
        "why=paused&q=-004711",
        "q=-004711",
        "q=nothing-has-this",
        "q=orders&state=skipped",
        "due=35d&state=waiting",
        "since={three_days_ago}&until={two_days_ago}",
        "since={three_days_ago}&until={two_days_ago}&state=cancelled&q=ship",
        "before={far_identity}",
        "before={far_identity}&state=skipped",
    ),
    "audit": (
        "actor=nobody",
        "action=task.update&actor=user:ada",
        "span=24h",
        "since={three_days_ago}&action=dag.trigger",
    ),
    "letters": ("task={task_id}", "fingerprint=nothing"),
    "find": ("q=orders", "q=-004711", "q=nothing-has-this", "q={identity}"),
    "dags": ("q=nightly", "q=-0404", "q=nothing-has-this", "tag=etl", "paused=true"),
}
"""Query strings that are asked besides the page without any, by the URL's name."""
SMALL: Mapping[str, tuple[str, ...]] = {
    "executions": ("", "state=cancelled", "q=orders", "worker=9999", "error=ConnectionError&state=cancelled"),
    "tasks": ("", "sort=urgent"),
}
"""What is asked of the tenant that has least, beside the others' many."""
API: Mapping[str, tuple[str, ...]] = {
    "executions": (
        "",
        "ordering=scheduled_at",
        "status=cancelled",
        "status=running,dispatched",
        "status=waiting&origin=manual",
        "status=retrying&ordering=scheduled_at",
        "task_id={task_id}&status=skipped",
        "dag_run_id={run_id}",
        "since={three_days_ago}&until={two_days_ago}&status=skipped",
        "limit=200",
    ),
    "tasks": ("", "ordering=-priority", "ordering=-updated_at", "tag=billing&paused=true", "ordering=-created_at"),
    "tasks/{task_id}/executions": ("", "status=cancelled"),
    "admin/dlq": ("", "fingerprint=nothing", "task_id={task_id}", "since={three_days_ago}"),
    "audit-log": ("", "actor=nobody", "action=task.update&actor=user:ada", "until={three_days_ago}", "ordering=at"),
    "dags": ("", "ordering=-updated_at"),
    "dags/{dag_id}/executions": ("", "status=failed"),
    "backfills": ("",),
}
"""Lists of the API, below /api/v1/, and what each is asked."""
