"""Circuit breakers: what keeps failing is left in peace for a while, then tried gently. Pure.

A circuit belongs to what executions of one tenant share: a handler, a program, a webhook's host. Whether it is open,
in its slow start or closed follows from its two instants and the clock, so no process has to move it on.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from apps.executions.retry import LARGEST_DELAY_SECONDS
from chronoweb.runtime.config import Config

SAMPLE: Final = 50
"""Outcomes of which half may not be failures."""
_BUSY_RUN: Final = SAMPLE // 4
"""Where that many outcomes are at hand, a few failures in a row may be chance: a row must be so long."""
LOTS: Final = 65_536
"""An execution's lot is a number below this, from its id: who goes first in a slow start."""
_DOUBLINGS = 32
_KEY_CHARACTERS = 300
_SCRIPT_CHARACTERS = 60
_SHELL = re.compile(r"(?:ba|da|a|z|k|mk|c|tc|fi)?sh")


def key_of(handler: Mapping[str, Any]) -> str | None:
    """What the handler's executions share: "webhook:host:port", "python:name", "command:program", "container:image".

    Of a shell's own text (`sh -c TEXT`) each is a program of its own: one that fails says nothing about another.
    """
    kind = handler.get("type")
    if kind == "webhook":
        return f"webhook:{_host(str(handler.get('url', '')))}"[:_KEY_CHARACTERS]
    if kind == "python":
        return f"python:{handler.get('name')}"[:_KEY_CHARACTERS]
    if kind == "command" and handler.get("argv"):
        return _command_key([str(word) for word in handler["argv"]])
    if kind == "container":
        return f"container:{handler.get('image')}"[:_KEY_CHARACTERS]
    return None


def name_of(key: str | None) -> str:
    """A key as people read it: the host, the handler, the program."""
    return (key or "").partition(":")[2]


def _command_key(argv: list[str]) -> str:
    if len(argv) < 3 or argv[1] != "-c" or not _SHELL.fullmatch(argv[0].rpartition("/")[2]):
        return f"command:{argv[0]}"[:_KEY_CHARACTERS]
    digest = hashlib.sha256("\0".join(argv).encode("utf-8", "replace")).hexdigest()[:8]
    shown = " ".join(argv[2].split())[:_SCRIPT_CHARACTERS]
    return f"command:{argv[0][-_SCRIPT_CHARACTERS:]} -c {shown} #{digest}"


def _host(url: str) -> str:
    """Host, and the port where the URL names one; user and password are left out."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


@dataclass(frozen=True, slots=True)
class CircuitTerms:
    """When circuits open and for how long; seconds."""

    failures: int
    sample_seconds: float
    base_seconds: float
    spread_seconds: float
    slow_start_seconds: float
    slow_start_percent: int

    @classmethod
    def of(cls, config: Config) -> "CircuitTerms":
        return cls(
            failures=config.circuit_failures,
            sample_seconds=config.circuit_sample_seconds,
            base_seconds=config.circuit_base_seconds,
            spread_seconds=config.circuit_spread_seconds,
            slow_start_seconds=config.circuit_slow_start_seconds,
            slow_start_percent=config.circuit_slow_start_percent,
        )

    def quarantine_seconds(self, trips: int, unit_random: float) -> float:
        """min(3600, base · 2^trips + U(0, spread))."""
        wanted = self.base_seconds * 2.0 ** min(trips, _DOUBLINGS) + self.spread_seconds * unit_random
        return min(LARGEST_DELAY_SECONDS, wanted)


@dataclass(frozen=True, slots=True)
class Circuit:
    """State of one circuit; instants in microseconds by the database's clock.

    recent: (instant, failed) of the last outcomes while closed, or of this slow start.
    trips: relapses since it was last closed.
    proven: whether something has succeeded since it opened; until then, the end of the slow start proves nothing.
    """

    recent: tuple[tuple[int, bool], ...] = ()
    trips: int = 0
    quarantine_until_us: int | None = None
    slow_until_us: int | None = None
    proven: bool = False

    def phase(self, now_us: int) -> str:
        """ "open": nothing runs; "slow_start": a share runs; "closed"."""
        if self.quarantine_until_us is not None and now_us < self.quarantine_until_us:
            return "open"
        if self.slow_until_us is not None and now_us < self.slow_until_us:
            return "slow_start"
        return "closed"

    @property
    def settled(self) -> bool:
        """Whether further successes are no news."""
        if self.quarantine_until_us is not None:
            return self.proven
        return not self.recent or not self.recent[-1][1]


def after(circuit: Circuit, outcomes: str, *, now_us: int, terms: CircuitTerms, unit_random: float) -> Circuit:
    """The circuit after attempts that ended as `outcomes` says: "S" it answered, "F" it is down; oldest first."""
    for letter in outcomes:
        circuit = _after_one(circuit, letter == "F", now_us, terms, unit_random)
    return circuit


def _after_one(circuit: Circuit, failed: bool, now_us: int, terms: CircuitTerms, unit_random: float) -> Circuit:
    phase = circuit.phase(now_us)
    if phase == "open":
        return circuit  # it had begun before
    if circuit.quarantine_until_us is not None:
        if phase == "slow_start" or not circuit.proven:
            return _tried_gently(circuit, failed, now_us, terms, unit_random)
        circuit = Circuit()
    oldest = now_us - int(terms.sample_seconds * 1e6)
    recent = (*(one for one in circuit.recent if one[0] > oldest), (now_us, failed))[-SAMPLE:]
    if failed and _is_down([was for _, was in recent], terms):
        return _opened(0, now_us, terms, unit_random)
    return replace(circuit, recent=recent)


def _tried_gently(circuit: Circuit, failed: bool, now_us: int, terms: CircuitTerms, unit_random: float) -> Circuit:
    """It relapses when most of what the slow start let through has failed: one failure among successes is no outage."""
    recent = (*circuit.recent, (now_us, failed))[-SAMPLE:]
    if failed and 2 * sum(was for _, was in recent) > len(recent):
        return _opened(circuit.trips + 1, now_us, terms, unit_random)
    return replace(circuit, recent=recent, proven=circuit.proven or not failed)


def _is_down(failed: list[bool], terms: CircuitTerms) -> bool:
    run = next((n for n, one in enumerate(reversed(failed)) if not one), len(failed))
    if len(failed) < SAMPLE:
        return run >= terms.failures
    return run >= max(terms.failures, _BUSY_RUN) or 2 * sum(failed) >= SAMPLE


def _opened(trips: int, now_us: int, terms: CircuitTerms, unit_random: float) -> Circuit:
    until = now_us + int(terms.quarantine_seconds(trips, unit_random) * 1e6)
    return Circuit(
        trips=trips, quarantine_until_us=until, slow_until_us=until + int(terms.slow_start_seconds * 1e6), proven=False
    )
