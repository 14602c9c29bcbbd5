from typing import Any

from apps.watchdog import daemon
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.command import DaemonCommand
from chronoweb.runtime.config import Config
from chronoweb.runtime.loop import Daemon, Stop


class Command(DaemonCommand):
    help = (
        "Find what silently did not happen: take work from lost workers and from dispatches that nobody claimed, give "
        "the hot tier back what it lost, free stuck slots, make the day partitions. One leads, the others stand by."
    )
    daemon_name = daemon.ROLE

    def build(self, settings: Config, addresses: Addresses, stop: Stop, options: dict[str, Any]) -> Daemon:
        watchdog = daemon.build(settings, addresses)
        if options["once"]:
            watchdog.leadership.wait_until_leader(settings.lease_ttl_seconds + 1)
        return watchdog
