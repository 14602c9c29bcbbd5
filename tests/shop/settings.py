"""The settings of a project that installs chronoweb's apps beside its own and names it in TASKS."""

import os
from typing import Any

from chronoweb.settings import *  # noqa: F403
from chronoweb.settings import INSTALLED_APPS as CHRONOWEBS_APPS

TASKS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "apps.tasks_backend.backend.ChronowebBackend",
        "QUEUES": ["default", "mail", "patient"],
        "OPTIONS": {
            "tenant": os.environ.get("SHOP_TENANT", "shop"),
            "task": {"timeout_seconds": 60},
            "queues": {"patient": {"retry_policy": {"max_attempts": 2, "backoff": "fixed", "base_delay_seconds": 0}}},
        },
    }
}
INSTALLED_APPS = [*CHRONOWEBS_APPS, "django_tasks", "tests.shop"]
