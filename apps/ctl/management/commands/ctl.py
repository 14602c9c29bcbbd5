import os
import sys

from django.core.management.base import BaseCommand

from apps.ctl.main import main


class Command(BaseCommand):
    help = "Speak to a chronoweb server over its API: tasks, executions, logs, DAGs, dead letters, workers."
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Its arguments are its own: neither --settings nor --traceback, and no database."""
        sys.exit(main(argv[2:], environment=os.environ))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        main(["--help"], environment=os.environ)
