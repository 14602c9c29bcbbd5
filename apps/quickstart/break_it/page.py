"""What the page shows, live: the promises in figures, what was broken and how it recovered, and who is alive."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.template.loader import render_to_string

from apps.console.fragments import Pieces
from apps.console.rows import short_token
from apps.console.wording import duration
from apps.executions.states import RESTING, Status
from apps.quickstart.break_it import channel, ledger
from apps.quickstart.break_it.ledger import Reading
from apps.quickstart.break_it.notes import Act, Notebook, Notes
from apps.quickstart.break_it.recovery import Victim, recovery
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

MOST_VICTIMS = 12
_LOOK_SECONDS = 0.4
WORDS = {
    "worker": "killed",
    "dispatcher": "killed",
    "preloader": "killed",
    "redis": "emptied",
    "postgres": "restarted",
}
_PARTS = (
    ("completed", (Status.COMPLETED,)),
    ("running", (Status.DISPATCHED, Status.RUNNING)),
    ("retrying", (Status.RETRYING,)),
    ("scheduled", (Status.SCHEDULED, Status.PRELOADED)),
)


class BreakItPage:
    """One tenant's. folder: of the supervisor's socket and the notes."""

    look_seconds = 0.5
    soonest_seconds = 0.25

    def __init__(self, principal: Principal, folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._principal = principal
        self._folder = folder
        self._notebook = Notebook(folder)
        self._clock = clock
        self._last: Reading | None = None
        self._processes: dict[str, Any] = {}

    def pieces(self) -> Pieces:
        """Whatever is away: what was known last is shown, and who is away is said."""
        notes = self._notebook.read()
        processes = self._look()
        away = self._read(notes, [pid for _, pid in processes])
        reading = self._last or Reading(self._clock.now())
        context = {
            "tenant_slug": self._principal.tenant_slug,
            "reading": reading,
            "away": away,
            "notes": notes,
            "parts": _parts(reading),
            "token": short_token(max((one.token for one in reading.standing.values()), default=0)),
            "others": {
                name: count for name, count in reading.broken.items() if name not in ("lost", "committed_twice")
            },
            "acts": [
                self._act(act, reading, after) for act, after in zip(notes.acts, [None, *notes.acts], strict=False)
            ],
            "processes": [_process(name, pid, reading) for name, pid in processes],
        }
        return {
            name: render_to_string(f"quickstart/break_it/_{name}.html", context)
            for name in ("figures", "acts", "alive")
        }

    def _read(self, notes: Notes, pids: Sequence[int]) -> bool:
        try:
            self._last = ledger.read(settings.SERVICES.database_url, notes, pids)
        except psycopg.Error:
            return True
        return False

    def _look(self) -> list[tuple[str, int]]:
        """Names and pids; what was known last while the supervisor is busy."""
        try:
            found = channel.ask(self._folder / "control.sock", {"act": "look"}, seconds=_LOOK_SECONDS)
            self._processes = found.get("processes") or self._processes
        except OSError:
            pass  # it restarts PostgreSQL just now; the next look tells
        return sorted(self._processes.items())

    def _act(self, act: Act, reading: Reading, after: Act | None) -> dict[str, Any]:
        """after: what was broken next."""
        until = None if after is None else after.at
        found = recovery(act, reading.standing, now=self._clock.now(), until=until)
        victims = sorted((one for one in found.victims if one.needed), key=lambda victim: victim.standing.id)
        return {
            "act": act,
            "word": WORDS[act.act],
            "found": found,
            "after": duration(found.after),
            "latest": duration(found.latest),
            "victims": [_victim(victim) for victim in victims[:MOST_VICTIMS]],
            "more": max(0, len(victims) - MOST_VICTIMS),
        }


def _process(name: str, pid: int, reading: Reading) -> dict[str, Any]:
    """A worker has its number from the ledger, as on every other page: the supervisor's own counts its places."""
    if not name.startswith("worker-"):
        return {"place": name, "name": name, "pid": pid, "worker": False, "starts": False}
    shown = reading.workers.get(pid)
    return {"place": name, "name": shown or "worker", "pid": pid, "worker": True, "starts": shown is None}


def _victim(victim: Victim) -> dict[str, Any]:
    one = victim.standing
    return {
        "id": one.id,
        "short": str(one.id)[-8:],
        "state": one.status.word,
        "ended": one.status in RESTING,
        "worker": one.worker,
        "before": short_token(victim.before),
        "token": short_token(one.token),
        "grown": one.token > victim.before,
        "took": duration(victim.took),
        "version": f"{one.token}.{int(one.status)}",
    }


def _parts(reading: Reading) -> list[dict[str, Any]]:
    """The load as a bar: state, count, x and width in thousandths."""
    made, x = [], 0.0
    for state, statuses in _PARTS:
        if count := reading.count(*statuses):
            width = 1000 * count / max(len(reading.standing), 1)
            made.append({"state": state, "count": count, "x": round(x, 1), "width": round(width, 1)})
            x += width
    return made
