"""The scenario `api`: requests at a constant rate through the web process while executions run at theirs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings

from apps.quickstart import web_process
from apps.quickstart.bench import cpu, measure, scenarios
from apps.quickstart.bench.api_load import MIX
from apps.quickstart.data_directory import free_port
from apps.quickstart.processes import web_arguments
from apps.tenants.keys import issue
from apps.tenants.models import UNLIMITED, Role, Tenant
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import ServiceUnavailable

_START_SECONDS = 60.0
_AHEAD_SECONDS = 8.0
"""So long before the first execution is due they are enqueued, and the load makes its tasks."""


@dataclass(frozen=True)
class Figures:
    """Latencies in ms, from when a request was due to its answer's end; of executions from run_at to their start.

    cpu_seconds: by who used them while the load went on. load_average: of the machine, a minute before that.
    """

    requests: int
    requests_per_second: float
    errors: dict[str, int]
    p50_ms: float
    p99_ms: float
    max_ms: float
    web_cpu_ms_per_request: float
    load_cpu_ms_per_request: float
    cpu_seconds: dict[str, float]
    load_average: float
    by_kind: dict[str, dict[str, float]]
    executions: measure.Figures

    def document(self) -> dict[str, object]:
        told = self.executions
        return {
            "scenario": "api",
            "requests": self.requests,
            "requests_per_second": self.requests_per_second,
            "errors": sum(self.errors.values()),
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "max_ms": self.max_ms,
            "web_cpu_ms_per_request": self.web_cpu_ms_per_request,
            "load_cpu_ms_per_request": self.load_cpu_ms_per_request,
            "cpu_seconds": self.cpu_seconds,
            "load_average_before": self.load_average,
            "executions": told.count,
            "executions_lost": told.lost,
            "executions_lateness_p99_ms": round(told.lateness_p99_ms, 2),
            "by_kind": self.by_kind,
            "what_went_wrong": self.errors,
        }


def api(
    bench: scenarios.Bench, *, rate: int, requests_per_second: int, seconds: int, say: Callable[[str], None]
) -> Figures:
    """`rate` executions a second of one tenant, `requests_per_second` of another, for `seconds`."""
    with scenarios.running(bench, preloader=True):
        url = start_web(bench)
        wal, count = measure.wal_position(bench.connection), rate * seconds
        base = bench.now() + timedelta(seconds=_AHEAD_SECONDS)
        bench.enqueue([base + timedelta(seconds=number / rate) for number in range(count)])
        SYSTEM_CLOCK.sleep(max(0.0, (base - bench.now()).total_seconds() - 2.0))
        spent, load_average = cpu.Spent(bench.daemons, bench.connection, bench.addresses.redis_url), os.getloadavg()[0]
        spent.begin()
        results = _load(url, _key(), rate=requests_per_second, seconds=seconds)
        cpu_seconds = spent.end() | {"load": results["cpu_seconds"]}
        bench.wait(count, seconds=60)
        executions = scenarios.figures(bench, "api", count, 1.0, wal)
    found = _figures(results, executions, seconds, cpu_seconds, load_average)
    for kind, figures in found.by_kind.items():
        say(f"{kind:<28}{figures['count']:>6.0f}  p50 {figures['p50_ms']:>7.1f} ms  p99 {figures['p99_ms']:>7.1f} ms")
    for error, times in found.errors.items():
        say(f"{times} x {error}")
    return found


def start_web(bench: scenarios.Bench, *, nice: int = 0, **variables: str) -> str:
    """The web process, with these variables of its own; returns its address. nice: how much it gives way."""
    port = free_port(taken=set())
    bench.daemons.start_program("web", sys.executable, *web_arguments(port), nice=nice, **variables)
    url = f"http://127.0.0.1:{port}"
    if not web_process.answers(url, seconds=_START_SECONDS, clock=SYSTEM_CLOCK):
        raise ServiceUnavailable("the web process does not answer; see web.log in the bench's folder")
    return url


def _key() -> str:
    tenant = Tenant.objects.create(slug=f"load-{SYSTEM_CLOCK.time():.0f}", name="load", **UNLIMITED)
    return issue(tenant=tenant, name="load", role=Role.OPERATOR)


def _load(url: str, key: str, *, rate: int, seconds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "apps.quickstart.bench.api_load", url, str(rate), str(seconds)]
    environment = {**os.environ, "CHRONOWEB_API_KEY": key}
    done = subprocess.run(command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServiceUnavailable(f"the load ended with {done.returncode}: {done.stderr[-2000:]}")
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def _figures(
    results: dict[str, Any],
    executions: measure.Figures,
    seconds: int,
    cpu_seconds: dict[str, float],
    load_average: float,
) -> Figures:
    by_kind = {kind: results["latencies"][kind] for kind in MIX if results["latencies"].get(kind)}
    everything = [latency for latencies in by_kind.values() for latency in latencies]
    return Figures(
        requests=len(everything),
        requests_per_second=round(len(everything) / seconds, 1),
        errors=results["errors"],
        p50_ms=_share(everything, 0.50),
        p99_ms=_share(everything, 0.99),
        max_ms=_share(everything, 1.0),
        by_kind={
            kind: {"count": len(each), "p50_ms": _share(each, 0.50), "p99_ms": _share(each, 0.99)}
            for kind, each in by_kind.items()
        },
        web_cpu_ms_per_request=round(cpu_seconds["web"] * 1000 / max(1, results["sent"]), 2),
        load_cpu_ms_per_request=round(cpu_seconds["load"] * 1000 / max(1, results["sent"]), 2),
        cpu_seconds=cpu_seconds,
        load_average=round(load_average, 2),
        executions=executions,
    )


def _share(latencies: list[float], share: float) -> float:
    ordered = sorted(latencies)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)
