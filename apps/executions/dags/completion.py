"""Ends of attempts that belong to runs: written, and what follows released, in one transaction."""

from collections.abc import Sequence

import psycopg

from apps.executions import feed
from apps.executions.dags.handing_over import Offer, hand_over
from apps.executions.dags.settle import Outcome, settle
from apps.executions.rows import Finish
from apps.executions.store.working import finish
from chronoweb.runtime import faults, wakeup


def finish_of_runs(
    connection: psycopg.Connection, ends: Sequence[Finish], *, worker_id: int, offer: Offer | None = None
) -> tuple[set[bytes], Outcome]:
    """As store.finish, for ends of one day that belong to runs; (what was written, what followed).

    offer: what the worker could begin at once of what is released. connection: autocommit. Raises
    psycopg.errors.DeadlockDetected, after which nothing is written.
    """
    with connection.transaction():
        written = finish(connection, ends, worker_id=worker_id)
        outcome = settle(connection, [end.id for end in ends if end.id in written])
        # Nothing where another has ended one of these: as many are to begin as have ended.
        if offer is not None and outcome.made and len(written) == len(ends):
            outcome.begun = hand_over(connection, offer, outcome.made)
            outcome.released -= len(outcome.begun)
        faults.point("worker.unlocked")
    return written, outcome


def settle_ended(connection: psycopg.Connection, identities: Sequence[bytes]) -> None:
    """Let runs hear of executions that somebody else than a worker has ended, and wake whoever has to act on it.

    connection: autocommit, or in a transaction. Of those that do not rest, or belong to no run, nothing comes.
    """
    if not identities:
        return
    with connection.transaction():
        outcome = settle(connection, sorted(identities))
    feed.changed_many(outcome.changed)
    if outcome.released:
        wakeup.preloader.wake()
