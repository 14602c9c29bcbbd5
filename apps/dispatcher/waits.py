"""What follows when a dispatch found slots taken: who must make room is told, and who need not wait goes on."""

from collections.abc import Sequence

import psycopg

from apps.executions import feed, store
from apps.executions.rows import Dispatched
from apps.executions.states import Hold
from chronoweb.runtime import wakeup


def settle(connection: psycopg.Connection, answered: Sequence[Dispatched]) -> list[bytes]:
    """Look at what a dispatch statement has answered; returns what was asked to make room, some of which has ended."""
    taken_for_nothing = [(row.id, row.left_over) for row in answered if row.left_over is not None]
    if taken_for_nothing:
        store.give_back_places(connection, taken_for_nothing)
    displaced: list[tuple[bytes, bytes]] = []
    if rivals := _keys(answered, Hold.OVERLAP):
        displaced += store.request_cancel_of_slot_holders(connection, rivals)
    if rivals := _keys(answered, Hold.CONCURRENCY):
        displaced += store.cancel_oldest(connection, rivals)
    feed.changed_many(displaced)
    # A slot that was given back while the statement ran had nobody to wake yet.
    keys = {row.waits_for for row in answered if row.waits_for is not None}
    keys |= {key for _, key in taken_for_nothing}
    if keys and store.wake_waiters(connection, sorted(keys)):
        wakeup.preloader.wake()
    return [identity for _, identity in displaced]


def _keys(answered: Sequence[Dispatched], hold: Hold) -> list[str]:
    """What those wait for that others make room for."""
    return sorted({row.waits_for for row in answered if row.hold == hold and row.displaces and row.waits_for})
