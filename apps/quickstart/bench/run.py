"""From the command's options to figures: services, one scenario after another, the median.

Django's settings are read once a process, before the services have addresses; so the measuring runs in a second
process that is given them.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import psutil
from django.conf import settings

from apps.quickstart.bench import api, classes, consoles, dags, flood, pages, pressure, scenarios
from apps.quickstart.credentials import ensure_keys
from apps.quickstart.seeding import seed
from apps.quickstart.seeding.progress import Bar
from apps.quickstart.seeding.sizes import Sizes
from apps.quickstart.services import EmbeddedServices, ServiceAddresses
from chronoweb.runtime.errors import ServiceUnavailable

_INSIDE = "CHRONOWEB_BENCH_FOLDER"
Say = Callable[[str], None]


class Document(Protocol):
    """Figures of one run."""

    def document(self) -> dict[str, object]:
        """For one line of JSON."""


def _pages(addresses: ServiceAddresses, folder: Path, options: Mapping[str, Any], say: Say) -> Document:
    sizes = Sizes(executions=options["executions"], tasks=options["tasks"], dags=options["dags"])
    if seed.standing().has_executions:
        say("a ledger was kept there: it is measured as it is")
    else:
        seed.seed(sizes, bar=Bar(sys.stderr))
    return pages.pages(sizes.tenants[0], requests=options["each"], say=say)


ALONE: dict[str, Callable[[ServiceAddresses, Path, Mapping[str, Any], Say], Document]] = {"pages": _pages}
"""Scenarios that bring their own load; they run once."""


def main(options: Mapping[str, Any], *, say: Say, tell: Say) -> None:
    """Run the command. say: for people; tell: one JSON document a line."""
    if _INSIDE in os.environ:
        _measure(options, say=say, tell=tell)
        return
    if options["keep"]:
        options["keep"].mkdir(parents=True, exist_ok=True)
        _with_services(options["keep"].resolve(), options, say=say)
        return
    with tempfile.TemporaryDirectory(prefix="chronoweb-bench-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL passes through it as another user when root runs the bench
        _with_services(Path(folder), options, say=say)


def _with_services(folder: Path, options: Mapping[str, Any], *, say: Say) -> None:
    kafka = options["transport"] == "kafka"
    more = consoles.POSTGRES_SETTINGS if options["scenario"] == "consoles" else None
    with EmbeddedServices(folder / "services", kafka=kafka, postgres_settings=more) as addresses:
        ensure_keys(folder)
        environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": "",
            **addresses.environment(),
            "CHRONOWEB_DATA_DIR": str(folder),
            _INSIDE: str(folder),
        }
        manage = [sys.executable, str(Path(settings.BASE_DIR) / "manage.py")]
        subprocess.run([*manage, "migrate", "--verbosity=0"], env=environment, check=True, stdout=sys.stderr)
        code = subprocess.run([*manage, *sys.argv[1:]], env=environment, check=False).returncode
        if code:
            raise ServiceUnavailable(f"the measuring process ended with {code}; its output tells why")


def _measure(options: Mapping[str, Any], *, say: Say, tell: Say) -> None:
    found = settings.SERVICES
    addresses = ServiceAddresses(found.database_url, found.redis_url, found.kafka_bootstrap_servers or None)
    folder = Path(os.environ[_INSIDE])
    if options["scenario"] in ALONE:
        tell(json.dumps(ALONE[options["scenario"]](addresses, folder, options, say).document()))
        return
    runs = []
    for number in range(options["runs"]):
        bench = scenarios.Bench(addresses, folder, options["transport"], options["workers"], {}, say)
        if number == 0:
            _describe_installation(bench, options, say)
        figures = _scenario(bench, options, say)
        tell(json.dumps(figures.document()))
        runs.append(figures.document())
    if len(runs) > 1:
        tell(json.dumps(_median(runs)))


def _scenario(bench: scenarios.Bench, options: Mapping[str, Any], say: Say) -> Document:
    if options["scenario"] == "flood":
        return flood.flood(bench, count=options["count"], seconds=options["seconds"], say=say)
    if options["scenario"] == "api":
        rates = {"rate": options["rate"], "requests_per_second": options["requests"]}
        return api.api(bench, **rates, seconds=options["seconds"], say=say)
    if options["scenario"] == "consoles":
        looked_at = {"sockets": options["sockets"], "page": options["page"], "nice": options["nice"]}
        return consoles.consoles(bench, rate=options["rate"], seconds=options["seconds"], **looked_at, say=say)
    if options["scenario"] == "classes":
        return classes.classes(bench, count=options["count"], seconds=options["seconds"], say=say)
    if options["scenario"] == "pressure":
        return pressure.pressure(bench, count=options["count"], say=say)
    if options["scenario"] == "drain":
        return scenarios.drain(bench, count=options["count"], kill=tuple(options["kill"]))
    if options["scenario"] == "burst":
        return scenarios.burst(bench, count=options["count"], ahead_seconds=options["ahead"])
    if options["scenario"] == "dag":
        return dags.dag(
            bench, shape=options["shape"], width=options["width"], runs=options["dag_runs"], every_ms=options["every"]
        )
    return scenarios.steady(bench, rate=options["rate"], seconds=options["seconds"], ahead_seconds=options["ahead"])


def _median(documents: list[dict[str, object]]) -> dict[str, object]:
    numbers = {key: value for key, value in documents[0].items() if isinstance(value, int | float)}
    median = {key: statistics.median(float(str(d[key])) for d in documents) for key in numbers}
    words = {key: value for key, value in documents[0].items() if isinstance(value, str)}
    return {"median_of": len(documents), **words, **median}


def _describe_installation(bench: scenarios.Bench, options: Mapping[str, Any], say: Say) -> None:
    """Every setting that is not a server's or chronoweb's default."""
    rows = bench.connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings"
        " WHERE source NOT IN ('default', 'override', 'client', 'session')"
        " AND name NOT IN ('port', 'data_directory', 'listen_addresses') ORDER BY name"
    ).fetchall()
    say(f"machine: {os.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB, {platform.platform()}")
    say("PostgreSQL, not default: " + ", ".join(f"{name}={value}" for name, value in rows))
    changed = {
        k: v for k, v in os.environ.items() if k.startswith("CHRONOWEB_") and k not in {_INSIDE, "CHRONOWEB_DATA_DIR"}
    }
    say(f"chronoweb, not default: {changed or 'nothing'}")
    say(
        f"transport {options['transport']}, {options['workers']} workers, handler bench.record, isolation process"
        " (children), synchronous_commit on, tables never analysed"
    )
