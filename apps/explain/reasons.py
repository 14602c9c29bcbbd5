"""From facts to reasons: every one that holds, each with its figures. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from apps.executions import concurrency
from apps.executions.labels import no_worker_text
from apps.executions.states import RESTING, Hold, Origin, Status
from apps.explain import words
from apps.explain.facts import Facts, StandingHold
from apps.explain.turn import at_rate
from apps.explain.words import Code, Reason
from chronoweb.runtime.config import Config

_WRITTEN_WITHIN = timedelta(seconds=2)
_BY_HAND = (Origin.MANUAL, Origin.RERUN)
_RESTING = {
    Status.COMPLETED: Code.COMPLETED,
    Status.CANCELLED: Code.CANCELLED,
    Status.SKIPPED: Code.SKIPPED,
    Status.DEAD_LETTER: Code.DEAD_LETTER,
}


def reasons(facts: Facts, config: Config) -> list[Reason]:
    """Why it is not running, or that it runs, or how it ended. What is due and held by nothing waits for its turn."""
    if facts.status in RESTING:
        return [_rests(facts)]
    if facts.status is Status.RUNNING:
        return [*_asked_to_stop(facts), *(_full_worker(facts) if _is_claimed_ahead(facts) else ()), _runs(facts)]
    if facts.status is Status.WAITING:
        return [*_asked_to_stop(facts), _approval(facts)]
    if facts.status is Status.DISPATCHED:
        return [*_asked_to_stop(facts), *_standing(facts), *_full_worker(facts), _awaits_claim(facts, config)]
    found = [*_standing(facts), *_quotas(facts), *_timing(facts, config), *_shared(facts), *_circuit(facts, config)]
    found += [*_tenant_limits(facts, alone=not found), *_workers(facts), *_roles(facts, config)]
    return found or [Reason(Code.IN_QUEUE, words.DUE_NOW, {"class": facts.execution_class.word})]


# ---- not waiting ----------------------------------------------------------------------------------------------------


def _rests(facts: Facts) -> Reason:
    code = _RESTING[facts.status]
    error = facts.error if isinstance(facts.error, dict) else {}
    event = facts.event or {}
    told = event.get("reason") if event.get("target") == int(facts.status) else None
    figures = {"attempt": facts.attempt, "max_attempts": facts.max_attempts, "error": error.get("message")}
    text = words.noted(f"it is {facts.status.word.replace('_', ' ')}", told or error.get("message"))
    return Reason(code, text, figures, since=facts.finished_at)


def _runs(facts: Facts) -> Reason:
    figures = {"worker_id": facts.worker_id, "attempt": facts.attempt, "max_attempts": facts.max_attempts}
    verb = "waits in" if _is_claimed_ahead(facts) else "runs on"
    return Reason(Code.RUNNING, f"{verb} worker-{facts.worker_id}", figures, since=facts.started_at)


def _is_claimed_ahead(facts: Facts) -> bool:
    """Whether its worker has claimed it and not begun it: a start that lasts is written within two seconds."""
    if facts.started_at is not None or facts.dispatched_at is None:
        return False
    return facts.now - max(facts.dispatched_at, facts.run_at) > _WRITTEN_WITHIN


def _asked_to_stop(facts: Facts) -> Iterator[Reason]:
    if facts.cancel_requested_at is not None:
        yield Reason(Code.CANCEL_REQUESTED, words.ASKED_TO_STOP, since=facts.cancel_requested_at)


def _awaits_claim(facts: Facts, config: Config) -> Reason:
    figures = {"worker_id": facts.worker_id, "deadline_seconds": config.claim_deadline_seconds}
    return Reason(Code.AWAITING_CLAIM, words.AWAITING_CLAIM, figures, since=facts.dispatched_at)


def _approval(facts: Facts) -> Reason:
    node = facts.node or {}
    figures = {
        "run_id": None if facts.dag_run_id is None else str(facts.dag_run_id),
        "node": node.get("node"),
        "message": node.get("message"),
    }
    since, until = _moment(node.get("released_at")), _moment(node.get("deadline_at"))
    return Reason(Code.APPROVAL, words.noted(words.APPROVAL, node.get("message")), figures, since, until)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


# ---- what persons and quotas forbid ---------------------------------------------------------------------------------


def _standing(facts: Facts) -> Iterator[Reason]:
    if hold := facts.held(facts.task_id, Hold.DELETED):
        yield Reason(Code.TASK_DELETED, words.TASK_DELETED, _by(hold), hold.since)
    paused = facts.held(facts.task_id, Hold.PAUSED)
    if paused and facts.origin not in _BY_HAND:
        yield Reason(Code.TASK_PAUSED, words.task_paused(paused.note), _by(paused), paused.since)
    for code, hold in (
        (Code.TENANT_FROZEN, facts.held(facts.tenant_id, Hold.FROZEN)),
        (Code.SCHEDULER_FROZEN, facts.frozen_everything),
    ):
        if hold:
            yield Reason(code, words.frozen(code, hold.note), _by(hold), hold.since)


def _by(hold: StandingHold) -> dict[str, str]:
    return {"note": hold.note, "by": hold.actor}


def _quotas(facts: Facts) -> Iterator[Reason]:
    hold = facts.held(facts.tenant_id, Hold.QUOTA)
    for quota in facts.quotas:
        if quota.is_over and quota.most is not None:
            code = Code(quota.use.quota)
            used, limit = quota.use.shown(quota.used), int(quota.use.shown(quota.most))
            since = hold.since if hold else None
            yield Reason(code, words.quota(code, used, limit), {"used": used, "limit": limit}, since, quota.until)


# ---- when -----------------------------------------------------------------------------------------------------------


def _timing(facts: Facts, config: Config) -> Iterator[Reason]:
    if facts.run_at > facts.now:
        yield _not_yet(facts)
    waits_for_preloader = facts.wake_at is not None and facts.hold is Hold.NONE
    ahead = (facts.run_at - facts.now).total_seconds()
    if waits_for_preloader and facts.line is None and ahead <= config.lookahead_minutes * 60:
        figures = {"ahead": facts.waiting_ahead, "most_loaded": config.hot_tier_entries}
        yield Reason(Code.NOT_LOADED, words.NOT_LOADED, figures)


def _not_yet(facts: Facts) -> Reason:
    lead = words.attempt_lead(facts.attempt + 1, facts.max_attempts)
    figures: dict[str, Any] = {"attempt": facts.attempt + 1, "max_attempts": facts.max_attempts}
    if facts.hold is Hold.RETRY_BUDGET:
        lead = words.attempt_lead(facts.attempt + 1, facts.max_attempts, budget=True)
        return words.counted_down(
            Code.RETRY_BUDGET, f"{lead} in", f"{lead} is due", facts.run_at, facts.now, figures=figures
        )
    if facts.status is Status.RETRYING or facts.again:
        error = facts.error.get("message") if isinstance(facts.error, dict) else None
        figures |= {"error": error}
        return words.counted_down(
            Code.RETRY_DELAY, f"{lead} in", f"{lead} is due", facts.run_at, facts.now, figures=figures
        )
    return words.counted_down(Code.NOT_DUE, "due in", words.DUE_NOW, facts.run_at, facts.now)


# ---- what it shares with others -------------------------------------------------------------------------------------


def _shared(facts: Facts) -> Iterator[Reason]:
    if facts.slot_holder is not None and facts.slot_holder != facts.id:
        yield Reason(Code.OVERLAP, words.OVERLAP, {"held_by": [str(facts.slot_holder)], "ahead": facts.waiters_ahead})
    if facts.concurrency_key is None or facts.id in facts.place_holders or facts.places_taken < facts.places:
        return
    figures = {
        "key": concurrency.shown(facts.concurrency_key),
        "running": facts.places_taken,
        "limit": facts.places,
        "held_by": [str(holder) for holder in facts.place_holders],
        "ahead": facts.waiters_ahead,
        "when_full": facts.when_full,
    }
    text = concurrency.waits_text(facts.concurrency_key, running=facts.places_taken, places=facts.places)
    yield Reason(Code.CONCURRENCY_KEY, text, figures)


def _circuit(facts: Facts, config: Config) -> Iterator[Reason]:
    circuit = facts.circuit
    if circuit is None or facts.circuit_key is None:
        return
    figures = {"circuit_id": circuit.id, "key": facts.circuit_key, "last_error": circuit.last_error}
    if circuit.quarantine_until is not None and facts.now < circuit.quarantine_until:
        figures |= {"failures": circuit.failures, "slow_start_until": _iso(circuit.slow_start_until)}
        text = words.circuit_open(facts.circuit_key)
        yield Reason(Code.CIRCUIT_OPEN, text, figures, circuit.opened_at, circuit.quarantine_until)
    elif (
        circuit.slow_start_until is not None
        and facts.now < circuit.slow_start_until
        and (facts.hold is Hold.CIRCUIT or facts.lot >= circuit.admit_below)
    ):
        figures |= {"percent": config.circuit_slow_start_percent}
        text = words.circuit_slow_start(facts.circuit_key)
        yield Reason(Code.CIRCUIT_SLOW_START, text, figures, circuit.quarantine_until, circuit.slow_start_until)


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _tenant_limits(facts: Facts, *, alone: bool) -> Iterator[Reason]:
    """alone: nothing else that was found keeps it from its turn."""
    most = facts.max_concurrent_workers
    full = most is not None and facts.tenant_outstanding >= most
    if full and most is not None:
        figures = {"used": facts.tenant_outstanding, "limit": most}
        yield Reason(Code.MAX_CONCURRENT_WORKERS, words.max_concurrent(facts.tenant_outstanding, most), figures)
    if facts.over_rate is not None and facts.rate_limit_rps is not None:
        ahead = None if facts.line is None else facts.line.of_tenant
        yield at_rate(facts.rate_limit_rps, now=facts.now, ahead=ahead, is_all=alone and not full)


# ---- who would run it -----------------------------------------------------------------------------------------------


def _workers(facts: Facts) -> Iterator[Reason]:
    fleet = facts.fleet
    if fleet is None:
        if facts.hold is Hold.NO_WORKER:
            yield Reason(Code.NO_WORKER, no_worker_text(facts.requires), {"labels": list(facts.requires)})
        return
    if not fleet.able:
        figures = {"labels": list(facts.requires), "workers_alive": fleet.alive}
        yield Reason(Code.NO_WORKER, no_worker_text(facts.requires), figures)
    elif not fleet.free:
        word = facts.execution_class.word
        figures = {
            "class": word,
            "slots": fleet.slots,
            "free": 0,
            "outstanding": facts.class_outstanding,
            "workers": fleet.able,
        }
        yield Reason(Code.NO_FREE_SLOT, words.no_free_slot(word, fleet.slots), figures)


def _full_worker(facts: Facts) -> Iterator[Reason]:
    """The worker that it was sent to takes it when one of its slots is free."""
    if facts.fleet is None or facts.fleet.sent_to is None or facts.fleet.sent_to[1]:
        return
    word, slots = facts.execution_class.word, facts.fleet.sent_to[0]
    figures = {
        "class": word,
        "slots": slots,
        "free": 0,
        "outstanding": facts.class_outstanding,
        "workers": 1,
    }
    yield Reason(Code.NO_FREE_SLOT, words.no_free_slot(word, slots), figures)


def _roles(facts: Facts, config: Config) -> Iterator[Reason]:
    """Roles that it needs and that nobody holds now."""
    if "preloader" not in facts.leases:
        yield Reason(Code.NO_PRELOADER, "no preloader leads", {"takeover_seconds": config.lease_ttl_seconds})
    if f"dispatcher/{facts.shard}" not in facts.leases:
        figures = {"shard": facts.shard, "takeover_seconds": config.lease_ttl_seconds}
        yield Reason(Code.NO_DISPATCHER, words.no_dispatcher(facts.shard), figures)
