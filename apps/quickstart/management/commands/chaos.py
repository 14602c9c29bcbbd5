import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.quickstart.chaos import run
from chronoweb.runtime.errors import ChronowebError

EPILOG = """
Starts PostgreSQL and Valkey (and, for Kafka, a broker) in a temporary folder and the whole fleet beside them: web, 2
preloaders, 2 dispatchers, 3 workers, 2 watchdogs. A client triggers tasks through the REST API, others have schedules;
meanwhile processes and servers are killed, stopped, cut off, emptied and filled, in an order that the seed decides.
At the end all is let come to rest and audited: what the client was promised, and what handlers left on disk, against
the ledger. The audit goes to standard output as JSON (docs/chaos.md tells how to read it), all else to standard error.
Exit code 1: something was lost, committed twice, or another promise is broken.
"""


class Command(BaseCommand):
    help = "Prove that nothing is lost and nothing is committed twice, by breaking everything under load."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
        )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--minutes", type=float, default=2.0, help="how long it is attacked (%(default)s)")
        parser.add_argument("--seed", type=int, default=1, help="the same seed, the same faults (%(default)s)")
        parser.add_argument("--transport", choices=["redis", "kafka"], default="redis")
        parser.add_argument("--rate", type=float, default=200, help="triggers a second (%(default)s)")
        parser.add_argument("--faults-per-minute", type=float, default=36, metavar="N", help="(%(default)s)")
        parser.add_argument("--plan", action="store_true", help="print the faults that would come, and end")
        parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work there and keep it, logs included")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the audit there as well")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            code = run.main(options, say=self.stderr.write, tell=self.stdout.write)
        except ChronowebError as error:
            raise CommandError(str(error)) from error
        if code:
            raise SystemExit(code)
