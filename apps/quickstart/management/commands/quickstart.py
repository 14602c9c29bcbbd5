import argparse
import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.quickstart.backing import TRANSPORTS
from apps.quickstart.stack import Stack
from chronoweb.runtime import checks
from chronoweb.runtime.errors import ChronowebError


class Command(BaseCommand):
    help = (
        "Run all of chronoweb here: PostgreSQL and Valkey unless the environment names others, the web process, the "
        "daemons, and a demo tenant with living tasks. Ctrl-C stops everything; the next start finds its data."
    )
    requires_system_checks = [checks.ALWAYS]  # the others ask for the addresses that this command gives

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="of the web process (default %(default)s)")
        folder = Path(os.environ.get("CHRONOWEB_DATA_DIR") or "var")
        parser.add_argument("--data-dir", type=Path, default=folder, help="default CHRONOWEB_DATA_DIR, else var")
        parser.add_argument("--workers", type=int, default=2, help="worker processes (default %(default)s)")
        parser.add_argument(
            "--transport", choices=TRANSPORTS, help="default: kafka if KAFKA_BOOTSTRAP_SERVERS is set, else redis"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        stack = Stack(
            port=options["port"],
            data_dir=options["data_dir"].absolute(),
            workers=options["workers"],
            transport=options["transport"],
            environment=os.environ,
        )
        try:
            stack.run()
        except ChronowebError as error:
            raise CommandError(str(error)) from error
