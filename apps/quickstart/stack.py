"""All of chronoweb on one machine, from nothing to running: services, migrations, demo, web, daemons."""

import logging
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from apps.quickstart import backing, child_process, processes, web_process
from apps.quickstart.break_it.breaker import Breaker
from apps.quickstart.break_it.channel import PATH_VARIABLE, Channel
from apps.quickstart.credentials import credentials_path, ensure_keys, read_credentials
from apps.quickstart.data_directory import close_to_others
from apps.quickstart.services import EmbeddedServices
from apps.quickstart.supervisor import Supervisor
from apps.quickstart.terminal import Progress, log_to_file, shown, summary
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

_WEB_SECONDS = 60.0


@dataclass
class Stack:
    """What to run. environment: this process's; data_dir: absolute."""

    port: int
    data_dir: Path
    workers: int
    transport: str | None
    environment: Mapping[str, str]
    clock: Clock = SYSTEM_CLOCK

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    def run(self) -> None:
        """Start all, keep it alive until SIGINT, SIGTERM or SIGHUP, stop all. Call from the main thread.

        Raises a ChronowebError when something cannot start; then nothing still runs.
        """
        progress = Progress(self.clock)
        services, description = backing.choose(
            data_dir=self.data_dir, transport=self.transport, environment=self.environment
        )
        web_process.refuse_taken_port(self.port, self.clock)
        close_to_others(self.data_dir)
        log_to_file(self.logs / "quickstart.log")
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGHUP, _interrupt)
        print(f"chronoweb, data in {shown(self.data_dir)}", flush=True)
        try:
            addresses = services.start()
            progress.step(description)
            environment = processes.child_environment(self.environment, addresses, data_dir=self.data_dir)
            ours = isinstance(services, EmbeddedServices)
            login_path = self._prepare(progress, environment, services_are_ours=ours)
            channel = Channel(self.data_dir)
            supervisor = Supervisor(
                processes.define(
                    port=self.port,
                    workers=self.workers,
                    logs=self.logs,
                    environment=environment,
                    web={PATH_VARIABLE: str(channel.path)},
                )
            )
            channel.answer = Breaker(supervisor, services if isinstance(services, EmbeddedServices) else None)
            threading.Thread(target=self._announce, args=(progress, login_path), daemon=True).start()
            try:
                supervisor.run_until_signal(services.revive, listener=channel)
            finally:
                channel.close()
        except KeyboardInterrupt:
            logger.info("interrupted while starting")
        finally:
            print(flush=True)
            progress.step("stopping")
            services.stop()
            progress.step(f"stopped; the data stays in {shown(self.data_dir)}")

    def _prepare(self, progress: Progress, environment: Mapping[str, str], *, services_are_ours: bool) -> str:
        """Bring the database up to date and make the demo; returns the path of the login link."""
        ensure_keys(self.data_dir)
        processes.run_to_end(
            "migrate", "--no-input", "--verbosity=0", environment=environment, log_path=self.logs / "migrate.log"
        )
        progress.step("the database is up to date")
        known = read_credentials(self.data_dir) is not None
        alone = ["--alone"] if services_are_ours else []
        output = processes.run_to_end(
            "quickstart_demo", "--url", self.url, *alone, environment=environment, log_path=self.logs / "demo.log"
        )
        progress.step("the demo tenant is there, as you left it" if known else "the demo tenant is made")
        return output.strip()

    def _announce(self, progress: Progress, login_path: str) -> None:
        """From a thread, while the supervisor has the main one: say when the web process answers, and how to get in."""
        while not web_process.answers(self.url, seconds=_WEB_SECONDS, clock=self.clock):
            log = self.logs / "web.log"
            end = child_process.last_lines(log, 5)
            logger.warning("the web process does not answer yet. The end of %s:\n%s", log, end)
        progress.step(f"web, preloader, dispatcher, watchdog, logshipper and {self.workers} worker(s) are up")
        credentials = read_credentials(self.data_dir)
        assert credentials is not None
        file = credentials_path(self.data_dir)
        print(summary(credentials, login_link=self.url + login_path, file=file, logs=self.logs), flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Until the supervisor listens, each of its signals ends the start as Ctrl-C does."""
    raise KeyboardInterrupt
