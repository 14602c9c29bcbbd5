"""What task authors import: the decorator, the error that forbids a retry, and the context's type."""

from apps.worker.handlers.context import TaskContext
from apps.worker.handlers.registry import PermanentError, task_handler

__all__ = ["PermanentError", "TaskContext", "task_handler"]
