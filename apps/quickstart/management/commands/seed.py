import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.quickstart.seeding import seed
from apps.quickstart.seeding.progress import Bar
from apps.quickstart.seeding.sizes import RUNS_EACH, SHARES, TENANTS, Sizes
from chronoweb.runtime.errors import ChronowebError

EPILOG = f"""
What there is afterwards: tasks with tags, cron schedules of some hundred kinds, versions, a few paused; executions over
--days days up to now, most of them completed, some skipped, cancelled, dead, retrying, waiting for another execution,
for a person or for a paused task, some running, and those of the next hour; an attempt or more for each that has begun,
events, dead letters of forty kinds; DAGs with {RUNS_EACH} runs each, one of 500 nodes, and one whose runs wait in its
queue; workers, and an audit log. The first tenant has {SHARES[0]:.0%} of it.

The rows go in by COPY: two million executions and a hundred thousand tasks take some minutes and 3 GB. The past that
is written is made up, but daemons that find it take it for real: so nothing is written into a database that has tasks
or executions, or whose workers are alive, unless --anyway says so. Nothing removes it again: drop the database.

  manage.py seed --dry-run                                look, say what would be written, write nothing
  manage.py seed                                          two million executions of five tenants
  manage.py seed --tenant acme --executions 50000 --tasks 2000    a small one, of one tenant
  manage.py bench pages                                   the same in services of its own, then every page's time
"""


class Command(BaseCommand):
    help = "Fill an empty database with a ledger as it is after a week, to measure on or to look at."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
        )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        plain = Sizes()
        parser.add_argument("--executions", type=int, default=plain.executions, help="(%(default)s)")
        parser.add_argument("--tasks", type=int, default=plain.tasks, help="(%(default)s)")
        parser.add_argument("--dags", type=int, default=plain.dags, help="of the first tenant (%(default)s)")
        parser.add_argument("--days", type=int, default=plain.days, help="of the past, with today (%(default)s)")
        parser.add_argument(
            "--tenant",
            action="append",
            metavar="SLUG",
            help=f"several times for several, at most {len(SHARES)}; made where there is none ({', '.join(TENANTS)})",
        )
        parser.add_argument("--seed", type=int, default=plain.seed, help="another one, another ledger (%(default)s)")
        parser.add_argument("--dry-run", action="store_true", help="say what would be written, and what is there")
        parser.add_argument(
            "--anyway", action="store_true", help="although tasks, executions or live workers are there"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        sizes = Sizes(
            executions=options["executions"],
            tasks=options["tasks"],
            dags=options["dags"],
            days=options["days"],
            tenants=tuple(options["tenant"] or TENANTS),
            seed=options["seed"],
        )
        try:
            seed.check(sizes)
            if options["dry_run"]:
                self._look(sizes)
                return
            seed.seed(sizes, bar=Bar(sys.stderr), anyway=options["anyway"])
        except ChronowebError as error:
            raise CommandError(str(error)) from error

    def _look(self, sizes: Sizes) -> None:
        found = seed.standing()
        self.stdout.write(
            f"database {found.database}: would write {sizes.executions:,} executions over {sizes.days} days,"
            f" {sizes.tasks:,} tasks and {sizes.dags:,} DAGs of the tenants {', '.join(sizes.tenants)}."
        )
        for objection in found.objections or ["nothing speaks against it"]:
            self.stdout.write(f"  {objection}")
        self.stdout.write("Nothing was written.")
