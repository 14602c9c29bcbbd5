"""One trial: start everything, load it and break it for so long, let it come to rest, audit."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import redis
from django.conf import settings

from apps.definitions.occurrences import Schedule
from apps.quickstart.chaos import audit, handlers, ledger, workload
from apps.quickstart.chaos.client import Client, LoadThread
from apps.quickstart.chaos.faults import Injector
from apps.quickstart.chaos.fleet import Fleet
from apps.quickstart.chaos.plan import Fault
from apps.quickstart.chaos.service_faults import ServiceFaults
from apps.quickstart.data_directory import free_port
from apps.quickstart.processes import child_environment
from apps.quickstart.services import ServiceAddresses
from apps.tenants import keys
from apps.tenants.models import UNLIMITED, Role, Tenant, Tier
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import ServiceUnavailable

TENANTS = ("chaos-one", "chaos-two")

_TICK_SECONDS = 0.05
_PROGRESS_SECONDS = 5.0
_START_SECONDS = 90.0
_REST_SECONDS = 180.0
_QUIET_SECONDS = 10.0
_LEAD_SECONDS = 3.0
_SETTINGS = {
    # Occurrences become executions and enter the hot tier all along, not once at the start.
    "CHRONOWEB_LOOKAHEAD_MINUTES": "1",
    "CHRONOWEB_MATERIALISE_MARGIN_SECONDS": "0",
    "CHRONOWEB_DRAIN_GRACE_SECONDS": "10",
    # Circuits may open: they must close again while it lasts.
    "CHRONOWEB_CIRCUIT_BASE_SECONDS": "1",
    "CHRONOWEB_CIRCUIT_SPREAD_SECONDS": "1",
    "CHRONOWEB_CIRCUIT_SLOW_START_SECONDS": "3",
    "LOG_LEVEL": "INFO",
}
_AWAY = (psycopg.Error, redis.RedisError, OSError)


class Trial:
    """Made for one `run`, from the main thread."""

    def __init__(
        self,
        addresses: ServiceAddresses,
        folder: Path,
        faults: Sequence[Fault],
        options: Mapping[str, Any],
        say: Callable[[str], None],
    ) -> None:
        self._addresses = addresses
        self._options = options
        self._say = say
        self._seconds = options["minutes"] * 60
        self._prefix = settings.CHRONOWEB.redis_prefix
        self._logs = folder / "logs"
        self._effects = folder / "effects"
        self._effects.mkdir(exist_ok=True)
        port = free_port(taken=set())
        self._url = f"http://127.0.0.1:{port}"
        environment = child_environment(_environment(self._effects), addresses, data_dir=folder)
        self._fleet = Fleet(environment=environment, logs=self._logs, web_port=port)
        services = ServiceFaults(addresses, folder / "services", prefix=self._prefix)
        self._injector = Injector(faults, fleet=self._fleet, services=services)
        self._loads: list[LoadThread] = []
        self._clients: list[Client] = []
        self._schedules: dict[bytes, audit.Scheduled] = {}
        self._ledger = ledger.Ledger(addresses.database_url, [])
        self._began = 0.0
        self._told_at = 0.0

    def run(self) -> dict[str, Any]:
        """The audit's document."""
        clients = [Client(self._url, self._key(slug)) for slug in TENANTS]
        self._clients = clients
        try:
            self._fleet.start()
            self._until(self._answers, seconds=_START_SECONDS, what="the web process does not answer")
            self._prepare()
            self._until(self._ledger.is_staffed, seconds=_START_SECONDS, what="the workers did not come up")
            self._attack()
            rested = self._rest()
            return self._document(rested)
        finally:
            self._fleet.stop()
            self._ledger.close()
            for client in clients:
                client.close()

    # ---- before ----

    def _key(self, slug: str) -> str:
        tenant, _ = Tenant.objects.get_or_create(slug=slug, defaults={"name": slug, "tier": Tier.SYSTEM, **UNLIMITED})
        return keys.issue(tenant=tenant, name="chaos", role=Role.OPERATOR)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self._url}/livez", timeout=2, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def _prepare(self) -> None:
        """Make the tasks, through the API as well."""
        start = self._ledger.now().replace(microsecond=0) + timedelta(seconds=_LEAD_SECONDS + 1)
        end = start + timedelta(seconds=self._seconds)
        everything: list[str] = []
        for number, client in enumerate(self._clients):
            tasks = {load.name: _created(client, load.document())["id"] for load in workload.LOADS}
            everything += tasks.values()
            rate = self._options["rate"] / len(self._clients)
            seed = self._options["seed"] * len(self._clients) + number
            self._loads.append(LoadThread(client, tasks, rate=rate, seconds=self._seconds, seed=seed))
        for document in workload.scheduled_documents(start=start, end=end):
            task = _created(self._clients[0], document)
            everything.append(task["id"])
            known = audit.Scheduled(task["name"], Schedule.parse(task["schedule"]), self._ledger.now())
            self._schedules[UUID(task["id"]).bytes] = known
        self._ledger = ledger.Ledger(self._addresses.database_url, everything)

    # ---- while ----

    def _attack(self) -> None:
        self._began = time.monotonic()
        for load in self._loads:
            load.start()
        self._injector.start()
        self._for(self._seconds)
        self._injector.stop()
        for load in self._loads:
            load.stop(seconds=20)

    def _rest(self) -> float | None:
        """Seconds until everything that was accepted, and everything that was due, is at rest; None: not in time."""
        began = time.monotonic()
        while time.monotonic() - began < _REST_SECONDS:
            self._for(0.5)
            try:
                if self._ledger.now() > self._last_due() and not self._ledger.unfinished():
                    rested = time.monotonic() - began
                    # What only cleans up may take a moment longer.
                    self._until(self._is_quiet, seconds=_QUIET_SECONDS, what=None)
                    return round(rested, 1)
            except _AWAY:
                continue
        return None

    def _is_quiet(self) -> bool:
        return not any(self._leftovers().values())

    def _leftovers(self) -> dict[str, int]:
        flying = ledger.in_flight(self._addresses.redis_url, self._prefix)
        return {**self._ledger.leftovers(), "in_flight": flying}

    def _last_due(self) -> datetime:
        ends = [task.schedule.end_at for task in self._schedules.values() if task.schedule.end_at]
        return max(ends)

    def _for(self, seconds: float) -> None:
        """Keep the fleet alive for so long, telling how it goes."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._fleet.check()
            if time.monotonic() - self._told_at > _PROGRESS_SECONDS:
                self._told_at = time.monotonic()
                self._progress()
            SYSTEM_CLOCK.sleep(_TICK_SECONDS)

    def _until(self, condition: Callable[[], bool], *, seconds: float, what: str | None) -> None:
        """Keep the fleet alive until `condition`; after `seconds` raise with `what`, or go on if there is none."""
        deadline = time.monotonic() + seconds
        while not condition():
            self._fleet.check()
            if time.monotonic() > deadline:
                if what is None:
                    return
                raise ServiceUnavailable(f"{what}; the logs in the folder of --keep tell why")
            SYSTEM_CLOCK.sleep(_TICK_SECONDS * 4)

    def _progress(self) -> None:
        accepted = sum(len(load.accepted) for load in self._loads)
        try:
            ledger_says = f"{self._ledger.completed()} completed, {self._ledger.outstanding()} outstanding"
        except _AWAY:
            ledger_says = "PostgreSQL is away"
        elapsed = time.monotonic() - self._began if self._began else 0.0
        faults = sum(self._injector.done.values())
        self._say(f"{elapsed:7.1f} s  {faults} faults, {accepted} accepted, {ledger_says}")

    # ---- after ----

    def _document(self, rested: float | None) -> dict[str, Any]:
        accepted = {identity: load for thread in self._loads for identity, load in thread.accepted.items()}
        findings = audit.examine(
            accepted=accepted,
            rows=self._ledger.rows(),
            attempts=self._ledger.attempts(),
            effects=handlers.read_effects(self._effects),
            schedules=self._schedules,
            leftovers=self._leftovers(),
        )
        refused = {text: count for thread in self._loads for text, count in thread.refused.items()}
        done, missed = self._injector.done, self._injector.missed
        return {
            "clean": findings.is_clean,
            "seed": self._options["seed"],
            "transport": self._options["transport"],
            "minutes": self._options["minutes"],
            "broken": findings.broken,
            "examples": findings.examples,
            **findings.facts,
            "seconds_to_rest": rested,
            "requests_sent_again": sum(client.retried for client in self._clients),
            "requests_refused": refused,
            "taken_back": self._ledger.reclaims(),
            "zombie_writes_suppressed": self._logged("a write of a lost lease was suppressed"),
            "workers_that_ended_as_given_up": self._logged("this worker was given up; it ends"),
            "faults": {"total": sum(done.values()), **dict(sorted(done.items()))},
            "faults_missed": dict(sorted(missed.items())),
        }

    def _logged(self, message: str) -> int:
        """How often the workers logged it."""
        return sum(file.read_text(errors="replace").count(message) for file in self._logs.glob("worker-*.log*"))


def _environment(effects: Path) -> dict[str, str]:
    return {**os.environ, **_SETTINGS, handlers.EFFECTS_VARIABLE: str(effects)}


def _created(client: Client, document: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("tasks", document)
    assert answer is not None
    if not answer.is_success:
        raise ServiceUnavailable(f"the API refused a task of the workload: {answer.text}")
    return answer.json()
