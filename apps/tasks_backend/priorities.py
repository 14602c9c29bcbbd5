"""Django's priorities, -100 to 100 where more is sooner, as chronoweb's, 10 to 1. Pure."""

from django_tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY

_LEAST, _MOST = 10, 1
_STEP = (TASK_MAX_PRIORITY - TASK_MIN_PRIORITY) // (_LEAST - _MOST + 1)


def chronoweb_priority(priority: int) -> int:
    """Twenty of theirs are one of ours. 0 is 5, the default of both; from 40 on is critical, below -40 is bulk."""
    return max(_MOST, _LEAST - (priority - TASK_MIN_PRIORITY) // _STEP)
