"""Workers die between an end and its commit, and between a hand-over and its start, preloaders between their mark and
Redis: every run ends all the same, and no node completes twice.
"""

import random
import subprocess
import time
from collections import Counter

import pytest

from apps.executions.states import Outcome
from tests.chaos.rig import START_SECONDS, Rig
from tests.dag_tools import Runs, plan
from tests.waiting import eventually

DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
FAN = [("a", f"m{n}") for n in range(12)] + [(f"m{n}", "z") for n in range(12)]
SHAPES = (list("abcd"), DIAMOND), (["a", *(f"m{n}" for n in range(12)), "z"], FAN)
AT_ONCE = 16
"""Runs under way while daemons die."""
MORTAL = ("preloader", "preloader", "worker", "worker", "worker")
POINTS = ("worker.unlocked", "worker.unlocked", "worker.handed", "worker.handed", "worker.completed", "worker.claimed")
"""Between an end and its commit; between a hand-over's commit and its start; after the commit; after a claim."""


LEASES = {"CHRONOWEB_WORKER_LEASE_SECONDS": "5", "CHRONOWEB_HEARTBEAT_SECONDS": "1"}
"""Many die before anybody has seen their lock, or three at once: then the lease alone tells, else half a minute."""


@pytest.mark.parametrize(
    "deaths",
    [pytest.param(5, id="short"), pytest.param(200, id="long", marks=[pytest.mark.drill, pytest.mark.timeout(1800)])],
)
def test_every_run_ends_and_every_node_completes_once(rig: Rig, deaths: int) -> None:
    began = time.monotonic()
    draw = random.Random(deaths)  # noqa: S311 - draws test cases
    rig.stand_by("watchdog", "dispatcher")
    runs = Runs(rig.ledger)
    started: list[bytes] = []
    died: Counter[str] = Counter()
    alive = [_doomed(rig, name, draw) for name in MORTAL]

    def pass_on() -> bool:
        while sum(runs.status(run) == "running" for run in started[-4 * AT_ONCE :]) < AT_ONCE:
            nodes, edges = draw.choice(SHAPES)
            described = [{"name": name, "max_attempts": 1000} for name in nodes]
            started.append(runs.start(plan(rig.ledger, described, edges)))
            rig.wake()
        for position, (name, fault, process) in enumerate(alive):
            if process.poll() is not None:
                assert process.returncode == -9, rig.logs()
                died[name] += 1
                died[fault] += 1
                alive[position] = _doomed(rig, name, draw)
        return died["preloader"] + died["worker"] >= deaths

    eventually(pass_on, seconds=START_SECONDS + 16 * deaths, every=0.05)
    took = time.monotonic() - began
    for name in ("preloader", "worker", "worker"):
        rig.start(name)
    waited = START_SECONDS + len(started)
    eventually(lambda: all(runs.status(run) == "succeeded" for run in started), seconds=waited, every=0.2)
    _assert_once(rig, runs, started)
    print(f"{dict(died)} in {took:.0f} s, {len(started)} runs, all ended after {time.monotonic() - began:.0f} s")
    if deaths > len(POINTS) * 10:
        assert died["worker"] > died["preloader"] > deaths / 20
        assert all(died[point] > deaths / 20 for point in POINTS)


def _doomed(rig: Rig, name: str, draw: random.Random) -> tuple[str, str, subprocess.Popen[bytes]]:
    """A daemon that will die at its n-th passing of a point: (its name, the point, itself)."""
    point, most = ("preloader.preloaded", 12) if name == "preloader" else (draw.choice(POINTS), 6)
    return name, point, rig.start(name, fault=f"{point}:{draw.randint(1, most)}", **LEASES)


def _assert_once(rig: Rig, runs: Runs, started: list[bytes]) -> None:
    for run in started:
        rows = runs.executions(run)
        assert [runs.names[run][row["dag_node"]] for row in rows] == sorted(runs.names[run], key=runs.names[run].index)
        for row in rows:
            outcomes = Counter(rig.ledger.outcomes(row["id"].bytes))
            assert outcomes[Outcome.SUCCEEDED] == 1, (row, outcomes)
