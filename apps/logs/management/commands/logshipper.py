from typing import Any

from apps.logs import daemon
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.command import DaemonCommand
from chronoweb.runtime.config import Config
from chronoweb.runtime.loop import Daemon, Stop


class Command(DaemonCommand):
    help = (
        "Ship log lines: take what workers wrote from the transport, keep it compressed in Django's storage `logs`, "
        "note in PostgreSQL where it is, and delete what is older than CHRONOWEB_LOG_DAYS. Copies share the work."
    )
    daemon_name = daemon.NAME

    def build(self, settings: Config, addresses: Addresses, stop: Stop, options: dict[str, Any]) -> Daemon:
        return daemon.build(settings, addresses, stop)
