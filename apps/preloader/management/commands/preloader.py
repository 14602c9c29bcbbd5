from typing import Any

from apps.preloader import daemon
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.command import DaemonCommand
from chronoweb.runtime.config import Config
from chronoweb.runtime.loop import Daemon, Stop


class Command(DaemonCommand):
    help = (
        "Turn schedules into executions up to an hour ahead, and move what comes due into Redis. "
        "Start as many as you like: one leads, the others stand by and take over within a second."
    )
    daemon_name = daemon.ROLE

    def build(self, settings: Config, addresses: Addresses, stop: Stop, options: dict[str, Any]) -> Daemon:
        preloader = daemon.build(settings, addresses)
        if options["once"]:
            preloader.leadership.wait_until_leader(settings.lease_ttl_seconds + 1)
        return preloader
