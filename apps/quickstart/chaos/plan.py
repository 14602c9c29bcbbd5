"""Which faults happen when: a pure function of the seed, so that a run can be had again.

Kinds are drawn from a bag that is shuffled and refilled when it is empty: after one bag each kind has come.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

FLEET = {"preloader": 2, "dispatcher": 2, "worker": 3, "watchdog": 2, "web": 1}
"""Processes of each kind; they are called kind-1, kind-2, …"""

BAG = (
    *("preloader.kill", "preloader.stop", "dispatcher.kill", "dispatcher.kill", "dispatcher.stop"),
    *("worker.kill", "worker.kill", "worker.kill", "worker.stop", "worker.stop", "worker.terminate"),
    *("worker.terminate", "worker.kill_all", "watchdog.kill", "watchdog.stop", "web.kill", "web.stop"),
    *("postgres.kill", "postgres.cut_some", "postgres.cut_listeners", "postgres.read_only"),
    *("redis.kill", "redis.stop", "redis.flush", "redis.drop_inbox", "redis.cut_all", "redis.full"),
)
KAFKA_BAG = ("kafka.kill",)

_FIRST_SECONDS = 2.0
_LASTING = {
    "preloader.stop": (0.5, 40.0),
    "dispatcher.stop": (0.5, 40.0),
    "worker.stop": (0.5, 40.0),
    "watchdog.stop": (0.5, 40.0),
    "web.stop": (0.5, 8.0),
    "postgres.read_only": (0.5, 4.0),
    "redis.stop": (0.5, 6.0),
    "redis.full": (0.5, 5.0),
}
_LONG_SHARE = 0.3  # of what lasts: the rest stays in the first tenth of its range


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. at: seconds after the start. target: a process, or "". seconds: until it is undone; 0: at once.

    choice: a number from 0 to 1 that chooses among what is only known then (connections, inboxes).
    """

    at: float
    kind: str
    target: str
    seconds: float
    choice: float

    def line(self) -> str:
        """For people."""
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:7.1f} s  {self.kind}{f' {self.target}' if self.target else ''}{lasting}"


def plan(*, seed: int, seconds: float, per_minute: float, transport: str) -> list[Fault]:
    """The faults of the first `seconds`; the same arguments give the same list, a longer run begins like a shorter."""
    found = []
    for fault in islice(_endless(seed, per_minute, transport), 100_000):
        if fault.at >= seconds:
            break
        found.append(fault)
    return found


def _endless(seed: int, per_minute: float, transport: str) -> Iterator[Fault]:
    draw = random.Random(seed)  # noqa: S311 - it must be repeatable, which is the point
    bag: list[str] = []
    stopped_until: dict[str, float] = {}
    at = _FIRST_SECONDS
    while True:
        if not bag:
            bag = [*BAG, *(KAFKA_BAG if transport == "kafka" else ())]
            draw.shuffle(bag)
        kind = bag.pop()
        target = _target(kind, draw, {name for name, until in stopped_until.items() if until > at})
        fault = Fault(round(at, 3), kind, target, _seconds(kind, draw), draw.random())
        stopped_until[target] = at + fault.seconds
        yield fault
        at += 60 / per_minute * draw.uniform(0.4, 1.6)


def _target(kind: str, draw: random.Random, stopped: set[str]) -> str:
    """Rather one that is not stopped: what is killed while it is stopped never finds out that it was given up."""
    victim, act = kind.split(".")
    if victim not in FLEET or act == "kill_all":
        return ""
    names = [f"{victim}-{number}" for number in range(1, FLEET[victim] + 1)]
    return draw.choice([name for name in names if name not in stopped] or names)


def _seconds(kind: str, draw: random.Random) -> float:
    is_long, place = draw.random() < _LONG_SHARE, draw.random()
    if kind not in _LASTING:
        return 0.0
    least, most = _LASTING[kind]
    edge = least + (most - least) / 10
    return round(edge + place * (most - edge) if is_long else least + place * (edge - least), 2)
