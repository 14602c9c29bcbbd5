"""What a write that met no row means: our own outcome, whose answer was lost on the way, or a lease that is lost."""

import logging
from collections.abc import Callable, Sequence

import psycopg
from prometheus_client import Counter

from apps.executions import store
from apps.executions.rows import Whereabouts
from apps.executions.states import Status

logger = logging.getLogger(__name__)

ZOMBIES = Counter("chronoweb_zombie_writes_suppressed_total", "Writes under a token that was no longer ours")

GivenUp = Callable[[str], None]
"""Told why this worker is believed no more."""


def look_again(connection: psycopg.Connection, refused: Sequence[tuple[bytes, int]], on_zombie: GivenUp) -> None:
    """Read the rows of (id, token) again, in order of ids; tell `on_zombie` of what is somebody else's now.

    Under our token and not running, a row shows our own outcome or a cancel: that is no zombie.
    """
    where = {w.id: w for w in store.states_of(connection, [identity for identity, _ in refused])}
    for identity, token in refused:
        if is_own(where.get(identity), token):
            continue
        ZOMBIES.inc()
        logger.warning(
            "a write of a lost lease was suppressed",
            extra={"action": "worker.zombie", "execution": identity.hex(), "token": token},
        )
        on_zombie(f"execution {identity.hex()} is held under a higher token than {token}")


def is_own(found: Whereabouts | None, token: int) -> bool:
    """Whether a row that refused a write under `token` shows what this worker wrote before, or a cancel of it."""
    return found is not None and found.token == token and found.status != Status.RUNNING
