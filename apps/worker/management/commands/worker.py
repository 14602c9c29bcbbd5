import argparse
import os
from typing import Any

from apps.worker import daemon
from apps.worker.children.confinement import hide_memory
from chronoweb.runtime import checks
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.command import DaemonCommand
from chronoweb.runtime.config import Config
from chronoweb.runtime.loop import Daemon, Stop


class Command(DaemonCommand):
    help = (
        "Run executions: Python handlers, webhooks, commands, containers. Start one or more on each machine that shall "
        "do work. SIGTERM drains: running attempts get a grace to finish, the rest is given back and runs elsewhere."
    )
    daemon_name = daemon.NAME
    check_tags = (checks.DAEMON, checks.SECRETS)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--slots", type=int, help="attempts that run at once (default CHRONOWEB_WORKER_SLOTS, 16)")
        parser.add_argument(
            "--label",
            action="append",
            metavar="LABEL",
            help="what this worker has: cpu, gpu, io, any word, or a word and a value (region=eu); tenant=SLUG keeps "
            "it for one tenant. May be repeated (default CHRONOWEB_WORKER_LABELS)",
        )

    def build(self, settings: Config, addresses: Addresses, stop: Stop, options: dict[str, Any]) -> Daemon:
        if os.geteuid() != 0:
            hide_memory()  # commands run as the same user and must not read this process's environment
        slots = options["slots"] or settings.worker_slots
        return daemon.build(settings, addresses, stop, slots=slots, labels=options["label"])
