"""What the commands of the daemons share: their options, and the way from options to a running loop."""

import argparse
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chronoweb.runtime import checks, health, metrics
from chronoweb.runtime.addresses import Addresses, configured
from chronoweb.runtime.config import Config, config
from chronoweb.runtime.errors import ConfigurationError
from chronoweb.runtime.loop import Daemon, Stop, run_until_signal

EPILOG = """
The daemon runs until SIGTERM or SIGINT; a second signal hurries it. It outlasts the absence of PostgreSQL, Redis and
the broker. With --health-port it answers /livez (touches nothing), /readyz (was the last pass good and recent?) and
/metrics (Prometheus).
"""


class DaemonCommand(BaseCommand):
    """A management command that runs one daemon. Subclasses name it and build it."""

    daemon_name = ""
    check_tags: tuple[str, ...] = (checks.DAEMON,)
    """Which system checks must pass before it starts."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        return super().create_parser(
            prog_name, subcommand, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
        )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="make one pass and exit; errors are raised")
        parser.add_argument(
            "--health-port", type=int, metavar="PORT", help="answer /livez, /readyz and /metrics there (0: any free)"
        )
        parser.add_argument("--health-host", default="127.0.0.1", help="address to answer on (default %(default)s)")

    def build(self, settings: Config, addresses: Addresses, stop: Stop, options: dict[str, Any]) -> Daemon:
        """Make the daemon."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        self.check(tags=list(self.check_tags), include_deployment_checks=True)
        stop = Stop()
        stop.install()
        try:
            run_daemon(
                lambda: self.build(config(), configured(), stop, options),
                stop=stop,
                name=self.daemon_name,
                options=options,
            )
        except ConfigurationError as error:
            raise CommandError(str(error)) from error


def run_daemon(build: Callable[[], Daemon], *, stop: Stop, name: str, options: dict[str, Any]) -> None:
    """Build and run a daemon until `stop`."""
    state = health.Health(name)
    if options["health_port"] is not None:
        server = health.serve(state, port=options["health_port"], host=options["health_host"])
        metrics.watch_progress(state)
        metrics.announce(name, server.server_port)
    daemon = build()
    run_until_signal(daemon, stop=stop, health=state, once=options["once"])
