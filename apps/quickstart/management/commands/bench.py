import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.quickstart.bench import consoles, run
from apps.quickstart.bench.shapes import SHAPES
from apps.quickstart.processes import WEB_NICE
from chronoweb.runtime.errors import ChronowebError

SCENARIOS = ("drain", "burst", "steady", "flood", "classes", "pressure", "dag", "api", "pages", "consoles")
EPILOG = """
Starts PostgreSQL, Valkey (and, for Kafka, a Kafka-protocol broker) in a temporary folder, and the daemons as the
README starts them: preloader, dispatcher, watchdog and workers, each a process with its default settings. The work is
a Python handler in the default isolation that notes the execution it ran. Lost and duplicates are counted from the
ledger and from those notes; lateness is start - run_at by the database's clock.

  drain    a backlog that is due already; from the first dispatch to the last completion
  burst    everything due at one instant; from that instant to the last completion
  steady   a constant rate, enqueued a little ahead
  flood    a backlog of --count of one tenant, and what another tenant feels of it for --seconds
  classes  a backlog of --count bulk executions of 50 ms and, for --seconds, a critical one every 200 ms; then none
  dag      --dag-runs runs of a DAG of --shape, one each --every ms: from the trigger to the last node's end
  api      --requests a second through the web process, reads and writes mixed, while --rate executions a second run
  pressure --count entries over an hour in the hot tier, then Redis runs short of memory
  pages    every page of console and admin, --each times, on what `manage.py seed` writes: --executions, --tasks, --dags
  consoles so many --sockets of the console, step by step, each for --seconds, on a --page of five tenants or on several
           kinds mixed, while --rate executions a second run

One JSON line a run goes to standard output, everything else to standard error.
"""


class Command(BaseCommand):
    help = "Measure throughput and lateness on this machine."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
        )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("scenario", choices=SCENARIOS)
        parser.add_argument("--count", type=int, default=50_000, help="executions; of all but steady (%(default)s)")
        parser.add_argument(
            "--rate", type=int, default=500, help="executions a second, steady, api, consoles (%(default)s)"
        )
        parser.add_argument("--requests", type=int, default=100, help="requests a second of api (%(default)s)")
        parser.add_argument(
            "--seconds", type=int, default=30, help="length of steady, flood, classes, api, consoles (%(default)s)"
        )
        parser.add_argument("--ahead", type=float, default=5.0, help="seconds enqueued ahead (%(default)s)")
        parser.add_argument("--shape", choices=sorted(SHAPES), default="diamond", help="of dag (%(default)s)")
        parser.add_argument("--width", type=int, default=1000, help="of a fan, or the length of a chain (%(default)s)")
        parser.add_argument("--dag-runs", type=int, default=200, help="runs of dag (%(default)s)")
        parser.add_argument("--every", type=float, default=50.0, help="ms between the triggers of dag (%(default)s)")
        parser.add_argument("--executions", type=int, default=2_000_000, help="in the ledger of pages (%(default)s)")
        parser.add_argument("--tasks", type=int, default=100_000, help="of pages (%(default)s)")
        parser.add_argument("--dags", type=int, default=1000, help="of pages (%(default)s)")
        parser.add_argument("--each", type=int, default=20, help="requests of each page (%(default)s)")
        parser.add_argument(
            "--sockets", type=int, nargs="+", default=consoles.STEPS, help="of consoles, step by step %(default)s"
        )
        parser.add_argument(
            "--page",
            choices=["mix", *consoles.PAGES, consoles.BIG_RUN],
            default="mix",
            help="what consoles looks at (%(default)s)",
        )
        parser.add_argument(
            "--nice", type=int, default=WEB_NICE, help="how much the web process of consoles gives way (%(default)s)"
        )
        parser.add_argument("--transport", choices=["redis", "kafka"], default="redis")
        parser.add_argument("--workers", type=int, default=2, help="worker processes (%(default)s)")
        parser.add_argument("--runs", type=int, default=1, help="how often; the median is told at the end")
        parser.add_argument(
            "--kill",
            nargs="*",
            default=[],
            choices=["dispatcher", "worker-1", "worker-2", "preloader"],
            help="drain only: kill -9 these in the middle, and start them anew",
        )
        parser.add_argument(
            "--keep",
            type=Path,
            metavar="FOLDER",
            help="work there and keep it, logs included; pages measures what it has kept",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run.main(options, say=self.stderr.write, tell=self.stdout.write)
        except ChronowebError as error:
            raise CommandError(str(error)) from error
