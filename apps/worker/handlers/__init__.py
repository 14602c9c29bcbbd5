"""What task authors import: the decorator, the errors that mean something, and the contexts' types."""

from apps.worker.handlers.context import AsyncTaskContext, TaskContext
from apps.worker.handlers.registry import Interrupted, LeaseLost, PermanentError, RateLimitedError, task_handler

__all__ = [
    "AsyncTaskContext",
    "Interrupted",
    "LeaseLost",
    "PermanentError",
    "RateLimitedError",
    "TaskContext",
    "task_handler",
]
