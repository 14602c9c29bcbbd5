import argparse
import pwd
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tzlocal import get_localzone_name

from apps.definitions.crontab import importing, reading, wording
from apps.definitions.crontab.lines import SYSTEM, USER
from apps.definitions.crontab.planning import LONGEST_SOURCE
from apps.definitions.zones import zone_names
from apps.tenants.command_line import add_tenant_option, principal_of
from chronoweb.runtime.errors import ChronowebError, InvalidInput
from chronoweb.runtime.terminal import visible

REFUSED_CODE = 3


class Command(BaseCommand):
    help = (
        "Make the lines of a crontab tasks of a tenant, and tell in plain words when each will run. Importing again "
        "changes what has changed and adds nothing twice. Ends with 3 when a line was refused."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="- is standard input, as in: crontab -l | … import_crontab -")
        add_tenant_option(parser)
        parser.add_argument("--dry-run", action="store_true", help="only show what would change")
        parser.add_argument("--timezone", metavar="ZONE", help="of lines without CRON_TZ (default: this machine's)")
        parser.add_argument(
            "--strict-timing",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="start at the very minute, as cron does; else up to two minutes before or after, to spread the load",
        )
        parser.add_argument("--source", metavar="NAME", help="what the file is known by (default: its own name)")
        parser.add_argument("--prune", action="store_true", help="delete tasks of this file whose lines are gone")
        forms = parser.add_mutually_exclusive_group()
        for form, words in (
            (SYSTEM, "behind the times stands the user"),
            (USER, "behind the times stands the command"),
        ):
            forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=words)

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["file"]
        try:
            crontab = reading.read_crontab(
                _text(path),
                form=options["form"],
                path="" if path == "-" else str(Path(path).absolute()),
                users=_users(),
            )
            done = importing.import_crontab(
                principal=principal_of(options),
                crontab=crontab,
                source=options["source"] or ("crontab" if path == "-" else Path(path).name[:LONGEST_SOURCE]),
                timezone=options["timezone"] or _own_zone(),
                strict_timing=options["strict_timing"],
                prune=options["prune"],
                dry_run=options["dry_run"],
            )
        except InvalidInput as error:
            raise CommandError(visible(f"{path}: {error.problem}")) from error
        except ChronowebError as error:
            raise CommandError(visible(str(error))) from error
        for line in [*wording.report(done), *(wording.GENERAL if done.entries else ())]:
            self.stdout.write(visible(line))
        if refused := done.count(importing.REFUSED):
            raise CommandError(f"{refused} of its lines were refused, see above", returncode=REFUSED_CODE)


def _text(path: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise CommandError(f"{path} is not UTF-8: line {line}, byte {error.start}") from None


def _users() -> set[str]:
    return {entry.pw_name for entry in pwd.getpwall()}


def _own_zone() -> str:
    """A crontab's times are those of its machine."""
    name = get_localzone_name() or "UTC"
    return name if name in zone_names() else "UTC"
