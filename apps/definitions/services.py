"""What persons do to tasks: each function is one transaction, its entry in the audit log included.

Times are decided by the database's clock. This module is the door; the rooms are tasks.py (making), edits.py,
standing.py (pause, resume, delete) and triggering.py.
"""

from apps.definitions.edits import update_task
from apps.definitions.mismatch import VersionMismatch
from apps.definitions.standing import delete_task, pause_task, resume_task
from apps.definitions.tasks import create_task
from apps.definitions.triggering import trigger, trigger_batch

__all__ = [
    "VersionMismatch",
    "create_task",
    "delete_task",
    "pause_task",
    "resume_task",
    "trigger",
    "trigger_batch",
    "update_task",
]
