import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.executions import draining
from chronoweb.runtime.errors import Conflict, NotFound


class Command(BaseCommand):
    help = (
        "Ask a worker to drain and leave, as SIGTERM does, wherever it runs: it takes nothing more, what ends within "
        "CHRONOWEB_DRAIN_GRACE_SECONDS ends, the rest goes on elsewhere, uncounted. Its supervisor may start another."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("worker", type=int, help="its number, as `ctl workers` and the console show it")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            worker = draining.ask(worker_id=options["worker"], actor="command:drain_worker")
        except (NotFound, Conflict) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{worker} has been asked to drain; it runs {worker.active} now")
