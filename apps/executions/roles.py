"""Who leads: the leases of roles and shards, as the scheduler's API, page and command show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.executions.ids import SHARDS
from apps.executions.models import Lease

MEMBER_PREFIX = "dispatcher-member/"
SHARD_PREFIX = "dispatcher/"
SINGLE = ("preloader", "watchdog")
_NOBODY = UUID(int=0)


@dataclass(frozen=True)
class Held:
    """A lease by the database's clock. holder: None after a failover, until somebody takes it."""

    role: str
    holder: UUID | None
    epoch: int
    since: datetime
    until: datetime
    led: bool


@dataclass(frozen=True)
class Roles:
    """roles: preloader and watchdog; None: never held. shards: by number. members: dispatchers, oldest first."""

    roles: dict[str, Held | None]
    shards: list[Held | None]
    members: list[Held]

    @property
    def shards_led(self) -> int:
        return sum(one is not None and one.led for one in self.shards)


def leases() -> list[Lease]:
    """Of roles and shards, without those by which dispatchers stand for shards."""
    return list(Lease.objects.exclude(role__startswith=MEMBER_PREFIX).order_by("role"))


def read(*, now: datetime) -> Roles:
    """One query. now: by the database's clock."""
    found = {lease.role: _held(lease, now) for lease in Lease.objects.all()}
    members = [one for role, one in found.items() if role.startswith(MEMBER_PREFIX) and one.led]
    return Roles(
        roles={role: found.get(role) for role in SINGLE},
        shards=[found.get(f"{SHARD_PREFIX}{shard}") for shard in range(SHARDS)],
        members=sorted(members, key=lambda one: (one.since, one.role)),
    )


def holders(shards: Sequence[Held | None]) -> dict[UUID, list[int]]:
    """Who holds which shards now."""
    found: dict[UUID, list[int]] = {}
    for shard, one in enumerate(shards):
        if one is not None and one.led and one.holder is not None:
            found.setdefault(one.holder, []).append(shard)
    return found


def _held(lease: Lease, now: datetime) -> Held:
    holder = None if lease.holder == _NOBODY else lease.holder
    led = holder is not None and lease.expires_at > now
    return Held(lease.role, holder, lease.epoch, lease.acquired_at, lease.expires_at, led)
