"""From the command's options to the audit: services in this process, the rest in a second one.

Django's settings are read once a process, before the services have addresses; so the inner process is given them. The
outer one keeps the services alive: what the inner one kills, it starts again at the same address.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.quickstart import child_process, processes
from apps.quickstart.chaos import plan
from apps.quickstart.chaos.trial import Trial
from apps.quickstart.credentials import ensure_keys
from apps.quickstart.errors import EmbeddedServiceFailed
from apps.quickstart.services import EmbeddedServices, ServiceAddresses
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.logs import JsonFormatter

logger = logging.getLogger(__name__)

Say = Callable[[str], None]

_INSIDE = "CHRONOWEB_CHAOS_FOLDER"
_POSTGRES_SETTINGS = {
    # After each kill, one call instead of one for each of the thousand files that day partitions are.
    "recovery_init_sync_method": "syncfs",
}
_LOOK_SECONDS = 0.05
_INNER_STOP_SECONDS = 30.0


def main(options: Mapping[str, Any], *, say: Say, tell: Say) -> int:
    """Run the command; returns its exit code. say: for people; tell: the audit, as JSON."""
    faults = plan.plan(
        seed=options["seed"],
        seconds=options["minutes"] * 60,
        per_minute=options["faults_per_minute"],
        transport=options["transport"],
    )
    if options["plan"]:
        for fault in faults:
            tell(fault.line())
        return 0
    if _INSIDE in os.environ:
        return _inside(Path(os.environ[_INSIDE]), faults, options, say=say, tell=tell)
    if options["keep"]:
        options["keep"].mkdir(parents=True, exist_ok=True)
        return _outside(options["keep"].resolve(), options)
    with tempfile.TemporaryDirectory(prefix="chronoweb-chaos-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL passes through it as another user when root runs this
        return _outside(Path(folder), options)


def _outside(folder: Path, options: Mapping[str, Any]) -> int:
    services = EmbeddedServices(
        folder / "services", kafka=options["transport"] == "kafka", postgres_settings=_POSTGRES_SETTINGS
    )
    _log_to(folder / "logs" / "services.log")
    with services as addresses:
        environment = processes.child_environment(os.environ, addresses, data_dir=folder)
        ensure_keys(folder)
        environment |= {_INSIDE: str(folder)}
        processes.run_to_end(
            "migrate", "--verbosity=0", environment=environment, log_path=folder / "logs" / "migrate.log"
        )
        wrapper = (sys.executable, "-I", "-S", str(child_process.EXEC_WITH_PARENT), "--parent", str(os.getpid()))
        inner = subprocess.Popen(
            [*wrapper, "--signal", str(int(signal.SIGTERM)), "--", *processes.manage(*sys.argv[1:])], env=environment
        )
        try:
            return _keep_alive(services, inner)
        finally:
            child_process.stop(inner, ((signal.SIGTERM, _INNER_STOP_SECONDS),))


def _keep_alive(services: EmbeddedServices, inner: "subprocess.Popen[bytes]") -> int:
    while (code := inner.poll()) is None:
        try:
            services.revive()
        except EmbeddedServiceFailed as error:
            # Killed again while it started: so it is started again.
            logger.info("not revived: %s", str(error).splitlines()[0])
        SYSTEM_CLOCK.sleep(_LOOK_SECONDS)
    return code


def _inside(folder: Path, faults: list[plan.Fault], options: Mapping[str, Any], *, say: Say, tell: Say) -> int:
    _log_to(folder / "logs" / "chaos.log")
    found = settings.SERVICES
    addresses = ServiceAddresses(found.database_url, found.redis_url, found.kafka_bootstrap_servers or None)
    document = Trial(addresses, folder, faults, options, say).run()
    text = json.dumps(document, indent=2)
    tell(text)
    if options["json"]:
        options["json"].write_text(text + "\n")
    return 0 if document["clean"] else 1


def _log_to(path: Path) -> None:
    """Standard error is for the progress."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path)
    handler.setFormatter(JsonFormatter())
    logging.getLogger().handlers = [handler]
