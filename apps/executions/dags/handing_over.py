"""A child that this transaction releases is begun at once by the worker that ended its last parent.

So a hop of a chain costs what the ledger costs, and not the way through the hot tier and the transport. What may not
be begun so waits for the preloader like everything else: nothing depends on a hand-over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import psycopg

from apps.executions import ids
from apps.executions.rows import Claimed
from apps.executions.store.statements import fetch, named_sql, scheduled_of
from chronoweb.runtime.postgres import int8s, uuids

_CANDIDATES_EACH = 8
"""So many are looked at for one that may be begun, however wide a fan-out is."""

_PARTS_OF_RATE = 4
"""So small a part of a tenant's rate may one worker hand over: dispatchers, which charge it, hear of it later."""

_RESERVE = 1_000
"""What must be left of a tenant's executions of the hour: what workers begin in the two seconds until all know of it,
at a rate of 500 a second and with as many workers as a rate has parts. More of either keeps more."""


class Share(NamedTuple):
    """What a run may have of an offer: how many children, and the least token of each.

    recent: how many its tenant has had in the last second. None: it may have none.
    """

    most: int
    token: int
    recent: int | None = 0


@dataclass
class Offer:
    """What a worker could begin at once. rooms: free slots by class. labels: what it carries. runs: those of which it
    ends attempts now.
    """

    worker_id: int
    rooms: Sequence[int]
    labels: Sequence[str]
    runs: Mapping[bytes, Share]
    asked: list[tuple[bytes, int]] = field(default_factory=list)
    """(id, token) of what may have been begun, if the answer of the transaction is lost."""


def hand_over(connection: psycopg.Connection, offer: Offer, made: Sequence[tuple[bytes, bytes]]) -> list[Claimed]:
    """Begin some of the (run, execution) of one day that this transaction has made; returns which."""
    chosen = sorted(_candidates(offer, made))
    if not chosen:
        return []
    identities = [identity for identity, _ in chosen]
    shares = [offer.runs[run] for _, run in chosen]
    offer.asked += [(identity, share.token) for identity, share in zip(identities, shares, strict=True)]
    parameters = {
        "ids": uuids(identities),
        "scheduled": scheduled_of(identities),
        "tokens": int8s([share.token for share in shares]),
        "most": int8s([share.most for share in shares]),
        "recent": int8s([share.recent for share in shares]),
        "parts": _PARTS_OF_RATE,
        "reserve": _RESERVE,
        "worker": offer.worker_id,
        "labels": list(offer.labels),
        "rooms": list(offer.rooms),
        # Classes share what is lent to them: together they get no more than the one that has most.
        "most_of_all": max(offer.rooms),
    }
    return fetch(connection, Claimed, named_sql("hand_over", ids.day(identities[0])), parameters)


def _candidates(offer: Offer, made: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """(execution, run): the first few of each run that has a share."""
    found: list[tuple[bytes, bytes]] = []
    left = {run: share.most * _CANDIDATES_EACH for run, share in offer.runs.items()}
    for run, identity in made:
        if left.get(run, 0) > 0:
            left[run] -= 1
            found.append((identity, run))
    return found
