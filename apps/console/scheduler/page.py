"""What the scheduler's page shows: to the platform all of it, to a tenant what its own work meets.

Leases, shards, memory and findings sum over all tenants, so only a principal of the platform is ever read them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection as django_connection
from django.urls import reverse

from apps.console.fragments import PacedPage, Pieces
from apps.console.scheduler.buttons import FAILOVERS, FREEZE, THAW, thaw_tenant
from apps.console.wording import duration
from apps.definitions.horizon import materialised_until
from apps.executions import findings, freezing, overview, partitions, person_store, roles, summary
from apps.executions.models import Route
from apps.executions.roles import Held, Roles
from apps.executions.states import ExecutionClass
from apps.explain import hot_state
from apps.explain.hot_state import HotState
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.config import config

_FINDINGS_SHOWN = 12
_MOST_ROUTES = 20
_FULL_SHARE = 0.8
"""From here on the preloader looks less far ahead (preloader/pressure.py)."""
_DOES = {
    "preloader": "turns schedules into executions, and fills the hot tier",
    "dispatcher": "pops what is due and sends it to workers",
    "watchdog": "takes back what got stuck, and keeps partitions",
}


@dataclass(frozen=True)
class RoleCard:
    """One role. facts: (name, value) in words; leases: its own, or those of its shards; acts: (button, shown)."""

    name: str
    does: str
    led: bool
    words: str
    facts: list[tuple[str, str]]
    since: datetime | None = None
    until: datetime | None = None
    acts: list[tuple[Any, bool]] = ()  # type: ignore[assignment]


@dataclass(frozen=True)
class Shard:
    """A cell of the map. member: the number of its holder among those that live, from 1; 0: nobody. x: a bar."""

    number: int
    member: int
    holder: str
    epoch: int
    waiting: int
    words: str
    x: list[tuple[str, float, float]]
    oldest: str


_MOST_FROZEN = 50
"""Frozen tenants that are listed, with why."""


def may_move(principal: Principal) -> bool:
    """Owners of the platform's own tenant: as over the API."""
    return principal.is_platform and principal.may(Role.OWNER)


class SchedulerPage(PacedPage):
    """One principal's view."""

    templates = "console/scheduler"
    look_seconds = 1.0
    soonest_seconds = 1.0

    def pieces(self) -> Pieces:
        """At most twelve queries for the platform, six for a tenant."""
        read = {"standing": (0.0, self._standing), "roles": (0.0, self._roles), "figures": (2.0, self._figures)}
        if self._principal.is_platform:
            read |= {"shards": (1.0, self._shards), "findings": (1.0, self._findings)}
        self._now_of_database = person_store.database_now(postgres.raw(django_connection))
        self._led = roles.read(now=self._now_of_database)
        self._hot: HotState | None = self._look()
        return {name: self.piece(name, seconds, context) for name, (seconds, context) in read.items()}

    def _look(self) -> HotState | None:
        who = self._principal
        if who.is_platform:
            return hot_state.of_all()
        known = Route.objects.order_by("id").values_list("id", flat=True)[:_MOST_ROUTES]
        return hot_state.of_tenant(who.tenant_id.bytes, [0, *known])

    def _base(self) -> dict[str, Any]:
        return {
            "platform": self._principal.is_platform,
            "moves": may_move(self._principal),
            "base": reverse("console:scheduler_act", args=[self._principal.tenant_slug, "x"])[:-1],
        }

    def _standing(self, now: datetime) -> dict[str, Any]:
        who = self._principal
        found = freezing.standing_of([freezing.EVERYTHING, who.tenant_id])
        frozen = found.get(freezing.EVERYTHING)
        words = "frozen" if frozen else ""
        acts = [(act, act.shown(words)) for act in (THAW, FREEZE)] if may_move(who) else []
        own = None if who.is_platform else found.get(who.tenant_id)
        tenants = freezing.frozen_tenants() if who.is_platform else 0
        return self._base() | {
            "frozen": frozen,
            "own": own,
            "away": self._hot is None,
            "tenants": tenants,
            "which": [self._frozen_tenant(*one) for one in freezing.frozen_one_by_one(_MOST_FROZEN)] if tenants else [],
            "acts": [one for one in acts if one[1]],
        }

    def _frozen_tenant(self, tenant: Tenant, frozen: freezing.Frozen) -> dict[str, Any]:
        who = self._principal
        address = reverse("console:frozen_tenant_act", args=[who.tenant_slug, tenant.id, "x"])[:-1]
        acts = [(thaw_tenant(tenant.slug), True)] if may_move(who) else []
        return {"tenant": tenant, "frozen": frozen, "base": address, "acts": acts}

    def _roles(self, now: datetime) -> dict[str, Any]:
        led, whole, moves = self._led, self._principal.is_platform, may_move(self._principal)
        cards = [
            _single("preloader", led.roles["preloader"]),
            _dispatchers(led),
            _single("watchdog", led.roles["watchdog"]),
        ]
        shown = [_card(card, whole=whole, moves=moves) for card in cards]
        return self._base() | {"cards": shown, "ttl": config().lease_ttl_seconds}

    def _figures(self, now: datetime) -> dict[str, Any]:
        hot, settings = self._hot, config()
        usual = settings.lookahead_minutes * 60
        context = self._base() | {
            "away": hot is None,
            "oldest": "" if hot is None or hot.oldest_ms is None else _ms(hot.oldest_ms),
            "waiting": 0 if hot is None else sum(hot.waiting),
            "waiting_by_class": [] if hot is None else _by_class(hot.waiting),
            "at_least": hot is not None and hot.at_least,
            "lookahead": "" if hot is None or hot.lookahead_seconds is None else _ahead(hot.lookahead_seconds),
            "usual": _ahead(usual),
            "shrunk": hot is not None and hot.lookahead_seconds is not None and hot.lookahead_seconds < usual,
        }
        if not self._principal.is_platform:
            pulse = overview.pulse(self._principal, now=now)
            late = pulse.late or (None, None, None)
            return context | {"late50": _ms(late[0]), "late99": _ms(late[2]), "sampled": pulse.begun}
        raw = postgres.raw(django_connection)
        latencies = summary.summary(raw)["latencies"]
        late = latencies["start_lateness_ms"]
        days, made_until = partitions.existing_days(raw), materialised_until()
        today = int(self._now_of_database.timestamp() // 86_400)
        ahead = next(n for n in range(1000) if today + n + 1 not in days)
        return context | {
            "late50": _ms(late["p50"]),
            "late99": _ms(late["p99"]),
            "sampled": latencies["of_the_last"],
            "memory": None if hot is None else hot.memory,
            "is_full": bool(hot and hot.memory and (hot.memory.share or 0) > _FULL_SHARE),
            "made_until": made_until,
            "is_behind": _is_behind(made_until, self._now_of_database),
            "days_ahead": ahead,
            "days_wanted": settings.partition_days_ahead,
            "last_day": self._now_of_database + timedelta(days=ahead),
        }

    def _shards(self, now: datetime) -> dict[str, Any]:
        led, hot = self._led, self._hot
        number = {one.holder: n for n, one in enumerate(led.members, 1)}
        most = max((sum(size.waiting) for size in hot.shards), default=0) if hot else 0
        cells = [_shard(n, held, number, hot, most) for n, held in enumerate(led.shards)]
        shares = roles.holders(led.shards)
        members = [
            (number[m.holder], _short(m), len(shares.get(m.holder, [])), m.since) for m in led.members if m.holder
        ]
        return {"cells": cells, "members": members, "away": hot is None, "names": [one.word for one in ExecutionClass]}

    def _findings(self, now: datetime) -> dict[str, Any]:
        rows = findings.last(_FINDINGS_SHOWN)
        return {"findings": [(row, findings.words_of(row.kind)) for row in rows]}


def _single(name: str, held: Held | None) -> RoleCard:
    if held is None:
        return RoleCard(name, _DOES[name], False, "nobody has ever led", [])
    holder = (
        ("holder", "was deposed") if held.holder is None else ("holder" if held.led else "last holder", _short(held))
    )
    facts = [holder, ("epoch", str(held.epoch))]
    words = "leads" if held.led else "nobody leads"
    return RoleCard(name, _DOES[name], held.led, words, facts, held.since, held.until)


def _dispatchers(led: Roles) -> RoleCard:
    held = [one for one in led.shards if one is not None]
    led_now, whole = led.shards_led, led.shards_led == len(led.shards)
    if not held:
        return RoleCard("dispatcher", _DOES["dispatcher"], False, "nobody has ever led", [])
    epochs = sorted({one.epoch for one in held})
    facts = [
        ("living", str(len(led.members))),
        ("shards held", f"{led_now} of {len(led.shards)}"),
        ("epochs", str(epochs[0]) if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]}"),
    ]
    lacking = f"{len(led.shards) - led_now} of {len(led.shards)} shards unheld" if led_now else "nobody leads"
    words = "lead" if whole else lacking
    living = [one for one in held if one.led]
    since = max((one.since for one in living), default=max(one.since for one in held))
    return RoleCard("dispatcher", _DOES["dispatcher"], whole, words, facts, since)


def _card(card: RoleCard, *, whole: bool, moves: bool) -> RoleCard:
    """As it may be seen: who and which epoch are the platform's business, whether somebody leads is everybody's."""
    facts = card.facts if whole else []
    acts = [(FAILOVERS[card.name], True)] if moves and card.since is not None else []
    since, until = (card.since, card.until) if whole else (None, None)
    return RoleCard(card.name, card.does, card.led, card.words, facts, since, until, acts)


def _shard(number: int, held: Held | None, members: dict[Any, int], hot: HotState | None, most: int) -> Shard:
    size = hot.shards[number] if hot else None
    member = members.get(held.holder, 0) if held and held.led else 0
    holder = _short(held) if held and held.led else "nobody"
    counts = size.waiting if size else (0, 0, 0)
    oldest = max((ms for ms in size.oldest_ms if ms is not None), default=None) if size else None
    words = f"shard {number}: held by {holder}, epoch {held.epoch if held else 0}"
    if size:
        words += f"; {', '.join(_by_class(counts))} wait" + (f"; {size.popped} ticks under way" if size.popped else "")
    return Shard(
        number=number,
        member=member,
        holder=holder,
        epoch=held.epoch if held else 0,
        waiting=sum(counts),
        words=words,
        x=_parts(counts, most),
        oldest=_ms(oldest) if oldest is not None else "",
    )


def _parts(counts: tuple[int, ...], most: int) -> list[tuple[str, float, float]]:
    """(class, x, width) in hundredths, on a scale that the fullest shard fills."""
    made, x = [], 0.0
    for one in ExecutionClass:
        width = 100 * counts[one] / max(most, 1)
        made.append((one.word, round(x, 1), round(width, 1)))
        x += width
    return [part for part in made if part[2]]


def _by_class(counts: tuple[int, ...]) -> list[str]:
    return [f"{counts[one]:,} {one.word}" for one in ExecutionClass]


def _short(held: Held) -> str:
    return "nobody" if held.holder is None else held.holder.hex[-8:]


def _ms(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else duration(timedelta(milliseconds=milliseconds))


def _ahead(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds < 7200 or seconds % 3600 else f"{seconds // 3600} h"


def _is_behind(until: datetime | None, now: datetime) -> bool:
    """Whether an occurrence should have been an execution by now: half a minute is a pass that takes long."""
    return until is not None and until < now + timedelta(minutes=1)
