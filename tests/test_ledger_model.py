"""The ledger against a small model, in random interleavings of everything that moves an execution.

The model is plain Python and knows the rules alone: who may move what under which token, and what is counted. Every
step is done on both; then every row, its places in `outstanding` and `slots`, who waits, and its attempts are compared.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from apps.executions import ids, person_store, store
from apps.executions.rows import Finish, Queue
from apps.executions.states import ACTIVE, PENDING, RESTING, Hold, Outcome, Overlap, Status
from tests.stack import Ledger

WORKERS = (1, 2)
MAX_ATTEMPTS = 3
PLACES = 2
EPOCH = 7


@dataclass
class Row:
    """One execution as the model knows it. tokens: every token it was ever sent under, with its worker."""

    slot: str | None
    key: str | None
    status: Status = Status.SCHEDULED
    hold: Hold = Hold.NONE
    wakes: bool = True
    token: int = 0
    worker: int | None = None
    attempt: int = 0
    max_attempts: int = MAX_ATTEMPTS
    cancel: bool = False
    sent: list[tuple[int, int]] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


class LedgerMachine(RuleBasedStateMachine):
    """Six executions of one task; three share an overlap slot, four a concurrency key of two places, and two of these
    the slot, too. They wait in order.
    """

    ledger: ClassVar[Ledger]

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[bytes, Row] = {}
        self.slots: dict[str, bytes] = {}
        self.places: set[bytes] = set()
        self.waiting: dict[str, list[bytes]] = {}
        self.held = False
        self.epoch = EPOCH

    @property
    def connection(self) -> psycopg.Connection:
        return self.ledger.connection

    @initialize()
    def begin(self) -> None:
        ledger = type(self).ledger = Ledger(self.ledger.url, self.ledger.connection)
        ledger.define(concurrency={"key": "k", "limit": PLACES, "when_full": "queue"})
        slot, key = f"task:{ledger.slug}", f"key:{ledger.tenant.hex()}:k"
        for count, mine, of_key in ((1, None, None), (2, None, key), (1, slot, None), (2, slot, key)):
            made = ledger.add(
                count,
                status=Status.SCHEDULED,
                due_in_ms=-10,
                slot_key=mine,
                concurrency_key=of_key,
                overlap=Overlap.BUFFER_ALL if mine else Overlap.ALLOW_ALL,
                max_attempts=MAX_ATTEMPTS,
            )
            self.rows |= {identity: Row(mine, of_key) for identity in made}
        self.waiting = {slot: [], key: []}
        self.key = key
        self.set_epochs()

    # ---- the steps ----

    @rule()
    def hydrate(self) -> None:
        for day in sorted({ids.day(i) for i in self.rows}):
            hydrate_day(self.ledger, day)
        for row in self.rows.values():
            if row.wakes and row.status in PENDING and row.hold is Hold.NONE:
                row.status, row.wakes = Status.PRELOADED, False

    @rule(data=st.data(), worker=st.sampled_from(WORKERS))
    def dispatch(self, data: st.DataObject, worker: int) -> None:
        chosen = self.some(data)
        for _, positions in ids.by_day(chosen):
            group = [chosen[p] for p in positions]
            held = {shard: self.epoch for shard in range(ids.SHARDS)}
            store.dispatch(self.connection, group, [worker] * len(group), window_ms=250, held=held)
            self.model_dispatch(group, worker)

    @rule(data=st.data(), worker=st.sampled_from(WORKERS))
    def take_back_and_send_again(self, data: st.DataObject, worker: int) -> None:
        """The way to a second token in one step, so that stale ones are about often."""
        self.reclaim_one(*self.any_token(data), only_unclaimed=False)
        self.hydrate()
        for identity in self.rows:
            held = {shard: self.epoch for shard in range(ids.SHARDS)}
            store.dispatch(self.connection, [identity], [worker], window_ms=250, held=held)
            self.model_dispatch([identity], worker)

    @rule(data=st.data(), worker=st.sampled_from(WORKERS))
    def dispatch_under_a_stale_epoch(self, data: st.DataObject, worker: int) -> None:
        chosen = self.some(data)
        for _, positions in ids.by_day(chosen):
            group = [chosen[p] for p in positions]
            held = {shard: self.epoch - 1 for shard in range(ids.SHARDS)}
            assert store.dispatch(self.connection, group, [worker] * len(group), window_ms=250, held=held) == []

    @rule()
    def change_dispatcher(self) -> None:
        self.epoch += 1
        self.set_epochs()

    @rule(data=st.data(), worker=st.sampled_from(WORKERS))
    def claim(self, data: st.DataObject, worker: int) -> None:
        identity, token = self.any_token(data)
        got = store.claim(self.connection, [identity], [token], worker_id=worker)
        row = self.rows[identity]
        mine = row.status is Status.DISPATCHED or (row.status is Status.RUNNING and row.worker == worker)
        may = token == row.token and mine and not row.cancel and not self.held
        assert bool(got) == may
        if may:
            row.attempt += row.status is Status.DISPATCHED
            row.status, row.worker = Status.RUNNING, worker
            assert got[0].attempt == row.attempt

    @rule(data=st.data(), worker=st.sampled_from(WORKERS), kind=st.sampled_from(["success", "failure", "permanent"]))
    def finish(self, data: st.DataObject, worker: int, kind: str) -> None:
        identity, token = self.any_token(data)
        row = self.rows[identity]
        last = kind == "permanent" or row.attempt >= row.max_attempts
        target = Status.COMPLETED if kind == "success" else Status.DEAD_LETTER if last else Status.RETRYING
        outcome = Outcome.SUCCEEDED if kind == "success" else Outcome.FAILED
        written = store.finish(
            self.connection, [self.end(identity, token, row.attempt, target, outcome)], worker_id=worker
        )
        may = token == row.token and row.status is Status.RUNNING and row.worker == worker
        assert bool(written) == may
        if may:
            if target is Status.RETRYING and row.cancel:
                target = Status.CANCELLED  # nobody tries again what is to be cancelled
            row.status, row.wakes = target, target is Status.RETRYING
            row.outcomes.append(outcome)
            self.places.discard(identity)
            if target is not Status.RETRYING:
                self.model_free(identity)

    @rule(data=st.data(), worker=st.sampled_from(WORKERS))
    def release(self, data: st.DataObject, worker: int) -> None:
        identity, token = self.any_token(data)
        row = self.rows[identity]
        mine = row.status is Status.DISPATCHED or (row.status is Status.RUNNING and row.worker == worker)
        may = token == row.token and mine
        assert bool(store.release(self.connection, [identity], [token], worker_id=worker)) == may
        if may:
            if row.status is Status.RUNNING:
                row.attempt -= 1
                row.outcomes.append(Outcome.RELEASED)
            self.model_back(identity, Status.CANCELLED if row.cancel else Status.PRELOADED)

    @rule(data=st.data(), only_unclaimed=st.booleans())
    def reclaim(self, data: st.DataObject, only_unclaimed: bool) -> None:
        self.reclaim_one(*self.any_token(data), only_unclaimed=only_unclaimed)

    def reclaim_one(self, identity: bytes, token: int, *, only_unclaimed: bool) -> None:
        row = self.rows[identity]
        taken = store.reclaim(
            self.connection, [(identity, token)], reason="test", actor="test", only_unclaimed=only_unclaimed
        )
        may = token == row.token and (row.status is Status.DISPATCHED if only_unclaimed else row.status in ACTIVE)
        assert bool(taken) == may
        if may:
            running = row.status is Status.RUNNING
            out = running and row.attempt >= row.max_attempts
            target = Status.CANCELLED if row.cancel else Status.DEAD_LETTER if out else Status.PRELOADED
            if running:
                row.outcomes.append(Outcome.CANCELLED if row.cancel else Outcome.CRASHED)
            self.model_back(identity, target)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        identity = self.one(data)
        row = self.rows[identity]
        with self.connection.transaction():
            locked = self.lock(identity)
            assert locked.status == row.status
            if row.status in PENDING:
                move = person_store.Move(locked, Status.CANCELLED, reason="cancelled by a test")
                assert person_store.move(self.connection, [move], actor="test") == 1
            elif row.status in ACTIVE:
                did = person_store.act(self.connection, "request_cancel", locked, actor="test", reason="test")
                assert did == (not row.cancel)
        if row.status in PENDING:
            row.status, row.hold, row.wakes = Status.CANCELLED, Hold.NONE, False
            for queue in self.waiting.values():
                if identity in queue:
                    queue.remove(identity)
            self.model_free(identity)
            if row.slot:
                self.model_wake(row.slot)
        elif row.status in ACTIVE:
            row.cancel = True

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        identity = self.one(data)
        row = self.rows[identity]
        with self.connection.transaction():
            locked = self.lock(identity)
            did = person_store.act(
                self.connection,
                "replay",
                locked,
                attempts=MAX_ATTEMPTS,
                from_start=False,
                edited=False,
                payload=None,
                concurrency_key=None,
                actor="test",
                reason="test",
            )
        assert did == (row.status is Status.DEAD_LETTER)
        if did:
            row.status, row.wakes, row.cancel, row.hold = Status.SCHEDULED, True, False, Hold.NONE
            row.max_attempts = row.attempt + MAX_ATTEMPTS

    @rule()
    def hold_or_let_go(self) -> None:
        """A hold stops dispatch and claims; what it refused waits until its holds are lifted."""
        if self.held:
            self.ledger.release_hold(self.ledger.task, Hold.PAUSED)
            self.lift()
        else:
            self.ledger.hold(self.ledger.task, Hold.PAUSED)
        self.held = not self.held

    @rule()
    def wake_waiters(self) -> None:
        for key in self.waiting:
            store.wake_waiters(self.connection, [key])
            self.model_wake(key)

    # ---- what must hold after each step ----

    @invariant()
    def the_rows_agree(self) -> None:
        found = self.ledger.select("SELECT * FROM executions WHERE id = ANY(%s)", self.uuids())
        seen = {
            row["id"].bytes: {
                "status": Status(row["status"]),
                "hold": Hold(row["hold"]),
                "token": row["token"],
                "attempt": row["attempt"],
                "wakes": row["wake_at"] is not None,
                "cancel": row["cancel_requested_at"] is not None,
                "rests": row["finished_at"] is not None,
            }
            for row in found
        }
        assert seen == {
            identity: {
                "status": row.status,
                "hold": row.hold,
                "token": row.token,
                "attempt": row.attempt,
                "wakes": row.wakes,
                "cancel": row.cancel,
                "rests": row.status in RESTING,
            }
            for identity, row in self.rows.items()
        }

    @invariant()
    def places_are_exact(self) -> None:
        outstanding = {identity: token for identity, (_, token) in self.ledger.outstanding().items()}
        assert outstanding == {i: row.token for i, row in self.rows.items() if row.status in ACTIVE}
        for key in self.waiting:
            if key != self.key:
                assert self.ledger.slot_holder(key) == self.slots.get(key)
            assert self.ledger.waiters(key) == self.waiting[key]
        places = self.ledger.places(self.key)
        assert set(places) <= set(range(1, PLACES + 1))
        assert sorted(places.values()) == sorted(self.places)

    @invariant()
    def attempts_are_told_and_nothing_is_committed_twice(self) -> None:
        told: dict[bytes, list[Outcome]] = {identity: [] for identity in self.rows}
        found = self.ledger.select("SELECT * FROM attempts WHERE execution_id = ANY(%s)", self.uuids())
        for attempt in found:
            told[attempt["execution_id"].bytes].append(Outcome(attempt["outcome"]))
        for identity, row in self.rows.items():
            assert sorted(told[identity]) == sorted(row.outcomes)
            assert told[identity].count(Outcome.SUCCEEDED) == (row.status is Status.COMPLETED)
            tokens = [token for token, _ in row.sent]
            assert tokens == sorted(set(tokens))

    # ---- the model's side ----

    def model_dispatch(self, group: list[bytes], worker: int) -> None:
        """Of one day. What fits into the places of its key comes first; a place that the overlap slot then keeps from
        being used is left for the next tick.
        """
        ready = [i for i in group if self.rows[i].status is Status.PRELOADED]
        for identity in ready:
            self.rows[identity].wakes = False
        if self.held:
            for identity in ready:
                self.rows[identity].status, self.rows[identity].hold = Status.SCHEDULED, Hold.PAUSED
            return
        behind = {i for i in ready if self.rows[i].key and any(w < i for w in self.waiting[self.key])}
        keyed = [i for i in ready if self.rows[i].key and i not in behind]
        unfit = behind | set(keyed[max(0, PLACES - len(self.places)) :])
        owners = dict(self.slots)
        for identity in ready:
            if (slot := self.rows[identity].slot) and identity not in unfit:
                owners.setdefault(slot, identity)
        left: list[bytes] = []
        for identity in ready:
            row = self.rows[identity]
            if row.slot and owners.get(row.slot, identity) != identity:
                self.model_wait(identity, row.slot, Hold.OVERLAP)
            elif identity in behind:
                self.model_wait(identity, row.key, Hold.CONCURRENCY)
            elif identity in unfit:
                left.append(identity)
            else:
                self.model_send(identity, worker)
        for identity in left:
            if len(self.places) >= PLACES:
                self.model_wait(identity, self.rows[identity].key, Hold.CONCURRENCY)

    def model_wait(self, identity: bytes, key: str | None, hold: Hold) -> None:
        assert key is not None
        self.rows[identity].status, self.rows[identity].hold = Status.SCHEDULED, hold
        self.waiting[key] = sorted([*self.waiting[key], identity])

    def model_send(self, identity: bytes, worker: int) -> None:
        row = self.rows[identity]
        if row.slot:
            self.slots[row.slot] = identity
        if row.key:
            self.places.add(identity)
        row.status, row.worker = Status.DISPATCHED, worker
        row.token = max(row.token + 1, self.epoch << 32)
        row.sent.append((row.token, worker))

    def model_back(self, identity: bytes, target: Status) -> None:
        row = self.rows[identity]
        row.status, row.worker, row.wakes = target, None, target is Status.PRELOADED
        row.token += 1
        self.model_free(identity)

    def model_free(self, identity: bytes) -> None:
        slot = self.rows[identity].slot
        if slot and self.slots.get(slot) == identity:
            del self.slots[slot]
        self.places.discard(identity)

    def model_wake(self, key: str) -> None:
        free = PLACES - len(self.places) if key == self.key else int(key not in self.slots)
        woken, self.waiting[key] = self.waiting[key][: max(0, free)], self.waiting[key][max(0, free) :]
        for identity in woken:
            row = self.rows[identity]
            if row.status is Status.SCHEDULED and row.hold in (Hold.OVERLAP, Hold.CONCURRENCY):
                row.hold, row.wakes = Hold.NONE, True

    def lift(self) -> None:
        """As resuming a task does: what the hold had refused waits for its time again."""
        for identity, row in self.rows.items():
            if row.status is Status.SCHEDULED and row.hold is Hold.PAUSED:
                with self.connection.transaction():
                    move = person_store.Move(self.lock(identity), Status.SCHEDULED, Hold.NONE)
                    assert person_store.move(self.connection, [move], actor="test") == 1
                row.hold, row.wakes = Hold.NONE, True

    # ---- choices and calls ----

    def uuids(self) -> list[UUID]:
        return [UUID(bytes=identity) for identity in self.rows]

    def some(self, data: st.DataObject) -> list[bytes]:
        chosen = data.draw(st.sets(st.integers(0, 5), min_size=1, max_size=4))
        return sorted(list(self.rows)[n] for n in chosen)

    def one(self, data: st.DataObject) -> bytes:
        return list(self.rows)[data.draw(st.integers(0, 5))]

    def any_token(self, data: st.DataObject) -> tuple[bytes, int]:
        """An execution that has been sent, if there is one, mostly with its token, sometimes with an earlier one."""
        sent = [i for i, row in self.rows.items() if row.sent] or list(self.rows)
        identity = sent[data.draw(st.integers(0, len(sent) - 1))]
        row = self.rows[identity]
        tokens = [*(token for token, _ in row.sent), row.token, row.token]
        return identity, tokens[data.draw(st.integers(0, len(tokens) - 1))]

    def set_epochs(self) -> None:
        self.ledger.lead(epoch=self.epoch)

    def lock(self, identity: bytes) -> Any:
        found = person_store.lock_one(
            self.connection, identity=UUID(bytes=identity), tenant_id=UUID(bytes=self.ledger.tenant)
        )
        assert found is not None
        return found

    @staticmethod
    def end(identity: bytes, token: int, attempt: int, target: Status, outcome: Outcome) -> Finish:
        at = ids.milliseconds(identity) * 1000
        return Finish(
            id=identity,
            token=token,
            attempt=attempt,
            target=target,
            outcome=outcome,
            due_us=at,
            started_us=at,
            finished_us=at,
            delay_us=0 if target is Status.RETRYING else None,
            fingerprint=b"test" if target is Status.DEAD_LETTER else None,
        )


def hydrate_day(ledger: Ledger, day: int) -> None:
    """Everything of one day that asks for it, as the preloader does."""
    ledger.lead("preloader", epoch=EPOCH)
    rooms = {Queue(1, ledger.tenant): 100}
    store.hydrate(ledger.connection, rooms, day=day, lookahead_seconds=3600, role="preloader", epoch=EPOCH)


def bounded(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


def test_random_interleavings_agree_with_the_model(ledger: Ledger) -> None:
    LedgerMachine.ledger = ledger
    run_state_machine_as_test(LedgerMachine, settings=bounded(40, 40))


@pytest.mark.drill
@pytest.mark.timeout(1800)
def test_many_random_interleavings_agree_with_the_model(ledger: Ledger) -> None:
    LedgerMachine.ledger = ledger
    run_state_machine_as_test(LedgerMachine, settings=bounded(400, 60))
