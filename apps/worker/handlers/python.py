"""Calling a Python handler: the same way in a child, in a thread and on the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any

from apps.worker.handlers.context import AsyncTaskContext, Entry, TaskContext, build_context, decode_parameters
from apps.worker.handlers.line import Line
from apps.worker.handlers.registry import Handler, is_coroutine_function
from apps.worker.handlers.report import report_exception, report_result
from apps.worker.jobs import Assignment, Report


def entry_of(seq: int, assignment: Assignment, name: str) -> Entry:
    """What a child needs of an assignment."""
    a = assignment
    return Entry(
        seq,
        name,
        a.parameters_json,
        a.execution_id,
        a.tenant,
        a.task_name,
        a.attempt,
        a.max_attempts,
        a.nominal_at_us,
        a.scheduled_at_us,
        a.idempotency_key,
        a.token,
        a.timeout_seconds,
        a.checkpoint_json,
        a.run_json,
        a.traceparent,
    )


def blocking(function: Callable[..., Any]) -> tuple[Callable[..., Any], type[TaskContext]]:
    """(`function` itself, or what runs an async one to its end; the context that it takes)."""
    if not is_coroutine_function(function):
        return function, TaskContext

    def run_to_end(*args: Any, **parameters: Any) -> Any:
        return asyncio.run(function(*args, **parameters))

    return run_to_end, AsyncTaskContext


def call(
    function: Callable[..., Any], entry: Entry, started: float, line: Line, kind: type[TaskContext] = TaskContext
) -> Report:
    """Run a plain function to its end. Nothing that it raises gets out, SystemExit included."""
    try:
        parameters = decode_parameters(entry.parameters_json)
        value = function(build_context(entry, parameters, started, line, kind), **parameters)
    except BaseException as raised:
        return report_exception(raised, __file__)
    return report_result(value)


async def call_async(handler: Handler, entry: Entry, started: float, line: Line) -> Report:
    """Run a coroutine function to its end; cancellation passes through."""
    try:
        parameters = decode_parameters(entry.parameters_json)
        context = build_context(entry, parameters, started, line, AsyncTaskContext)
        value = await handler.function(context, **parameters)
    except asyncio.CancelledError:
        raise
    except BaseException as raised:
        return report_exception(raised, __file__)
    return report_result(value)
