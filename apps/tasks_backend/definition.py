"""The definition that runs a task function. Pure."""

from collections.abc import Mapping
from typing import Any

from django_tasks.base import Task

from apps.tasks_backend.priorities import chronoweb_priority


def definition_of(task: Task, options: Mapping[str, Any]) -> dict[str, Any]:
    """Its fields where they are not chronoweb's defaults. options: the backend's."""
    return {
        "schedule": {"type": "manual"},
        "handler": {"type": "python", "name": task.module_path},
        "priority": chronoweb_priority(task.priority),
        "overlap_policy": "allow_all",
        "retry_policy": {"max_attempts": 1},
        "tags": ["django-tasks", f"queue:{task.queue_name}"[:63]],
        **options.get("task", {}),
        **options.get("queues", {}).get(task.queue_name, {}),
    }
