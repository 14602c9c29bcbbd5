import argparse
from datetime import UTC
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from apps.definitions import backfills, told
from apps.definitions.models import Backfill, Dag, Task
from apps.tenants.command_line import add_tenant_option, principal_of
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import ChronowebError, InvalidInput, InvalidInputs
from chronoweb.runtime.terminal import visible

_SHOWN = 1000


class Command(BaseCommand):
    help = (
        "Run a range of a schedule's past: start (with --dry-run only list the occurrences), list, stop. "
        "The preloader does the work; what the schedule brings now goes first."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        start = verbs.add_parser("start", help="run the occurrences of a range")
        what = start.add_mutually_exclusive_group(required=True)
        what.add_argument("--task", metavar="NAME")
        what.add_argument("--dag", metavar="NAME")
        start.add_argument("--start", required=True, metavar="TIME", help="the first instant of the range, ISO 8601")
        start.add_argument("--end", required=True, metavar="TIME", help="the first instant behind it")
        start.add_argument("--at-once", type=int, default=backfills.DEFAULT_AT_ONCE, metavar="N")
        start.add_argument("--order", choices=backfills.ORDERS, default=backfills.ORDERS[0])
        start.add_argument("--dry-run", action="store_true", help="list the occurrences and make nothing")
        listing = verbs.add_parser("list", help="backfills, newest first")
        stop = verbs.add_parser("stop", help="make nothing more of one and cancel what waits; what has begun goes on")
        stop.add_argument("id", type=UUID, metavar="ID")
        for each in (start, listing, stop):
            add_tenant_option(each)

    def handle(self, *args: Any, **options: Any) -> None:
        principal = principal_of(options)
        try:
            if options["verb"] == "start":
                self._start(principal, options)
            elif options["verb"] == "stop":
                self._tell(backfills.stop_backfill(principal=principal, backfill_id=options["id"]))
            else:
                for each in backfills.backfills(principal).select_related("task", "dag")[:100]:
                    self._tell(each)
        except (InvalidInput, InvalidInputs) as error:
            raise CommandError(visible("\n".join(told.lines(error, source="backfill")))) from error
        except ChronowebError as error:
            raise CommandError(str(error)) from error

    def _start(self, principal: Principal, options: dict[str, Any]) -> None:
        of = _named(principal, options)
        data = {name: options[name] for name in ("start", "end", "at_once", "order")}
        request = backfills.read_request(of, data)
        if options["dry_run"]:
            for nominal in request.preview(_SHOWN):
                self.stdout.write(nominal.astimezone(UTC).isoformat().replace("+00:00", "Z"))
            more = f", the first {_SHOWN} shown" if request.total > _SHOWN else ""
            self.stdout.write(f"{request.total} occurrences{more}; nothing was made")
            return
        self._tell(backfills.start_backfill(principal=principal, of=of, request=request))

    def _tell(self, backfill: Backfill) -> None:
        of = f"task {backfill.task}" if backfill.task else f"DAG {backfill.dag}"
        done = f"{backfill.made} of {backfill.total} made, {len(backfill.under_way)} under way"
        self.stdout.write(f"{backfill.id} {backfill.state}: {of}, {done}")


def _named(principal: Principal, options: dict[str, Any]) -> Task | Dag:
    model: Any = Task if options["task"] else Dag
    name = options["task"] or options["dag"]
    found = model.objects.filter(tenant_id=principal.tenant_id, name=name, deleted_at=None).first()
    if found is None:
        raise CommandError(
            f"no {'task' if options['task'] else 'DAG'} named {name!r} in tenant {principal.tenant_slug}"
        )
    return found
