"""The processes of one chronoweb on one machine: their programs, their environment, their logs."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from apps.quickstart import child_process
from apps.quickstart.errors import EmbeddedServiceFailed
from apps.quickstart.services import ServiceAddresses
from apps.quickstart.supervisor import ManagedProcess

DAEMONS = ("preloader", "dispatcher", "watchdog", "logshipper")
WEB_GROUP, DAEMON_GROUP = 0, 1
WEB_NICE = 5
"""Where processors are short the web process gets a third of what each daemon gets: work begins on time first."""

# What quickstart wants otherwise than a server's installation; whatever the environment says goes before it.
DEFAULTS = {
    # The demo's webhook calls this very machine, which is refused elsewhere.
    "CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS": "127.0.0.0/8,::1/128",
    # What the demo's tasks call; it fails in some minutes, on purpose.
    "DEMO_ENDPOINTS": "true",
    # Ctrl-C shall end everything within ten seconds; what runs longer is given back and runs at the next start.
    "CHRONOWEB_DRAIN_GRACE_SECONDS": "4",
}


def child_environment(environment: Mapping[str, str], addresses: ServiceAddresses, *, data_dir: Path) -> dict[str, str]:
    """Ours, with the services' addresses; a direct address that belongs to another database is not passed on.

    A project's own settings and modules stay: workers import its functions by them.
    """
    variables = {**DEFAULTS, **environment, **addresses.environment()}
    if environment.get("DATABASE_URL") and environment.get("DATABASE_DIRECT_URL"):
        variables["DATABASE_DIRECT_URL"] = environment["DATABASE_DIRECT_URL"]
    return {
        **variables,
        "KAFKA_BOOTSTRAP_SERVERS": addresses.kafka_bootstrap_servers or "",
        "CHRONOWEB_DATA_DIR": str(data_dir),
        "DJANGO_SETTINGS_MODULE": environment.get("DJANGO_SETTINGS_MODULE") or "chronoweb.settings",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(settings.BASE_DIR), environment.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
    }


def define(
    *, port: int, workers: int, logs: Path, environment: Mapping[str, str], web: Mapping[str, str] | None = None
) -> list[ManagedProcess]:
    """The web process and the daemons, for the supervisor. Each daemon answers probes on a free port of its own.

    web: what the web process alone is told.
    """
    argv: tuple[str, ...] = (sys.executable, *web_arguments(port))
    told = {**environment, **(web or {})}
    found = [ManagedProcess("web", argv, told, logs / "web.log", WEB_GROUP, nice=WEB_NICE)]
    for name in (*DAEMONS, *(f"worker-{number}" for number in range(1, workers + 1))):
        argv = manage(name.partition("-")[0], "--health-port", "0")
        found.append(ManagedProcess(name, argv, environment, logs / f"{name}.log", DAEMON_GROUP))
    return found


def web_arguments(port: int) -> tuple[str, ...]:
    """Python's arguments for the web process."""
    return ("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "--no-server-name", "chronoweb.asgi:application")


def manage(*arguments: str) -> tuple[str, ...]:
    """The argv of a management command."""
    return (sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments)


def run_to_end(*arguments: str, environment: Mapping[str, str], log_path: Path) -> str:
    """Run a management command in a process of its own, which dies with us; returns its standard output.

    A process of its own, since the settings of this one were read before the services had addresses. Raises
    EmbeddedServiceFailed with the end of its log.
    """
    process = child_process.spawn(
        manage(*arguments),
        environment=environment,
        log_path=log_path,
        death_signal=signal.SIGKILL,
        stdout=subprocess.PIPE,
    )
    try:
        output, _ = process.communicate()
    finally:
        child_process.stop(process, ())
    if process.returncode != 0:
        raise EmbeddedServiceFailed(
            f"manage.py {arguments[0]} ended with code {process.returncode}. "
            f"The end of {log_path}:\n{child_process.last_lines(log_path)}"
        )
    return output.decode()
