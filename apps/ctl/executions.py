"""`ctl runs …`: executions of tasks."""

from argparse import Namespace

from apps.ctl import follow
from apps.ctl.answers import Answer
from apps.ctl.client import Client
from apps.ctl.errors import CtlError, Exit
from apps.ctl.output import Output
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

COLUMNS = {
    "ID": "id",
    "TASK": "task_name",
    "STATUS": "status",
    "ATTEMPT": "attempt",
    "DUE": "run_at",
    "STARTED": "started_at",
    "FINISHED": "finished_at",
    "REASON": "reason",
}
_SHOWN = (
    *("id", "task_name", "status", "reason", "attempt", "max_attempts", "class", "origin", "run_at", "started_at"),
    *("finished_at", "parameters", "result", "error.type", "error.message", "progress.text"),
)
_FINAL = frozenset({"completed", "cancelled", "skipped", "dead_letter"})
_POLL_SECONDS = 0.5


def list_(client: Client, options: Namespace, output: Output) -> None:
    task = None if options.task is None else client.find("tasks", options.task)
    given = {"task_id": task, "status": options.status, "since": options.since, "until": options.until}
    output.items(client.pages("/executions", limit=options.limit, **given), COLUMNS)


def show(client: Client, options: Namespace, output: Output) -> None:
    _one(output, client.get(f"/executions/{options.execution}"))


def explain(client: Client, options: Namespace, output: Output) -> None:
    """Why it is not running, in the server's words."""
    found = client.get(f"/executions/{options.execution}/explain")
    if output.format != "table":
        output.value(found)
        return
    output.line(f"{found['id']}: {found['status']}")
    for reason in found.objects("reasons"):
        clears = f" (until {reason['clears_when']})" if reason.get("clears_when") else ""
        output.line(f"  {reason['code']}: {reason['text']}{clears}")
    if found.get("position"):
        place = found.object("position")
        output.line(f"  ahead of it: {'at least ' if place.get('at_least') else ''}{place['ahead']}")
    if found.get("estimated_start"):
        output.line(f"  may start about {found.object('estimated_start')['at']}")


def cancel(client: Client, options: Namespace, output: Output) -> None:
    _one(output, client.post(f"/executions/{options.execution}/cancel"))


def retry(client: Client, options: Namespace, output: Output) -> None:
    body = {"current_version": True} if options.current_version else None
    _one(output, client.post(f"/executions/{options.execution}/retry", body))


def logs(client: Client, options: Namespace, output: Output) -> None:
    """A line's text alone; with JSON each line as an object on a line of its own."""
    lines = (
        follow.follow(client, options.execution, SYSTEM_CLOCK)
        if options.follow
        else follow.kept(client, options.execution, attempt=options.attempt, limit=options.limit)
    )
    for line in lines:
        if options.attempt is not None and line.get("attempt") not in (None, options.attempt):
            continue
        if output.format == "json":
            output.jsonl(line)
        elif output.format == "yaml":
            output.value([line])
        else:
            text = f"{line['time']}  {line['text']}" if options.timestamps else str(line["text"])
            output.line(text, colours=True)


def wait(client: Client, execution_id: str, seconds: float, output: Output, clock: Clock = SYSTEM_CLOCK) -> None:
    """Until it has ended. Raises CtlError (FAILED) if it did not end well, or not within `seconds`."""
    deadline = clock.monotonic() + seconds
    found = client.get(f"/executions/{execution_id}")
    while found.text("status") not in _FINAL:
        if clock.monotonic() > deadline:
            raise CtlError(f"{execution_id} is still {found['status']} after {seconds:g} s", Exit.FAILED)
        clock.sleep(_POLL_SECONDS)
        found = client.get(f"/executions/{execution_id}")
    _one(output, found)
    if found["status"] != "completed":
        raise CtlError(f"{execution_id} is {found['status']}: {found['reason'] or 'no reason was noted'}", Exit.FAILED)


def _one(output: Output, found: Answer) -> None:
    output.one(found, _SHOWN)
