import argparse
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db.models.functions import Now

from apps.console import login_links
from apps.executions.models import Worker, WorkerState
from apps.quickstart import demo


class Command(BaseCommand):
    help = (
        "Make what is missing of the demo tenant: tasks, administrator, API key, quickstart.json in the data "
        "directory. Prints the path of a login link that works once. `quickstart` runs this by itself."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--alone",
            action="store_true",
            help="the database served nobody until now: workers of an earlier start are dead, whatever leases say",
        )
        parser.add_argument("--url", required=True, help="where the web process answers, e.g. http://127.0.0.1:8000")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["alone"]:
            # What they were running is taken back by the watchdog's first look, not when their leases run out.
            Worker.objects.filter(state__in=[WorkerState.ACTIVE, WorkerState.DRAINING]).update(lease_expires_at=Now())
        demo.prepare(url=options["url"], data_dir=Path(settings.DATA_DIR))
        self.stdout.write(login_links.mint(demo.administrator()))
