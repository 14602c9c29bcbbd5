from typing import Any

from apps.dispatcher import daemon
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.command import DaemonCommand
from chronoweb.runtime.config import Config
from chronoweb.runtime.loop import Daemon, Stop


class Command(DaemonCommand):
    help = (
        "Pop what is due from Redis, mark it with a higher fencing token and send it to workers. "
        "Start as many as you like: they share the work evenly, and take over from one that dies within a second."
    )
    daemon_name = daemon.NAME

    def build(self, settings: Config, addresses: Addresses, stop: Stop, options: dict[str, Any]) -> Daemon:
        dispatcher = daemon.build(settings, addresses)
        if options["once"]:
            dispatcher.shards.wait_until_held(settings.lease_ttl_seconds + 1)
        return dispatcher
