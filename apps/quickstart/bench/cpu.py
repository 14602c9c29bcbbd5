"""Who used the processors meanwhile: on a machine of a few cores that is what latencies come from."""

from collections import defaultdict
from typing import Any

import psutil
import psycopg
import redis

from apps.quickstart.bench.processes import Daemons


class Spent:
    """Seconds of processor time by the part of the installation, from `begin` to `end`."""

    def __init__(self, daemons: Daemons, connection: psycopg.Connection, redis_url: str) -> None:
        self._daemons = daemons
        self._postmaster = psutil.Process(psutil.Process(connection.info.backend_pid).ppid())
        self._valkey = redis.Redis.from_url(redis_url)
        self._before: dict[str, float] = {}

    def begin(self) -> None:
        self._before = self._now()

    def end(self) -> dict[str, float]:
        """By part, the greediest first; workers and all that they started are one part."""
        spent = {name: round(seconds - self._before[name], 2) for name, seconds in self._now().items()}
        return dict(sorted(spent.items(), key=lambda part: -part[1]))

    def _now(self) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for name, process in self._daemons.running.items():
            found["workers" if name.startswith("worker-") else name] += of_family(psutil.Process(process.pid))
        found["postgresql"] = of_family(self._postmaster)
        told: Any = self._valkey.info("cpu")
        found["valkey"] = told["used_cpu_sys"] + told["used_cpu_user"]
        return found


def of_family(process: psutil.Process) -> float:
    """Seconds of its own, of its descendants, and of those that have ended."""
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it ended just now, and its parent has its time
        total += times.user + times.system + times.children_user + times.children_system
    return total
