from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from chronoweb.runtime import checks


class ExecutionsConfig(AppConfig):
    name = "apps.executions"

    def ready(self) -> None:
        checks.register_all()
        post_migrate.connect(_make_partitions, sender=self)


def _make_partitions(*, using: str, **_: Any) -> None:
    """A migrated database can take executions at once; from then on the watchdog keeps the partitions."""
    from apps.executions import partitions
    from chronoweb.runtime import postgres
    from chronoweb.runtime.config import config

    with postgres.connect_like_django("partitions", using) as connection:
        partitions.keep(connection, config())
