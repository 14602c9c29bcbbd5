"""Dead letters for the console's tests, in groups."""

from datetime import timedelta
from typing import Any

from apps.executions.models import DeadLetter, Execution
from apps.executions.states import Status
from tests.console_ledger import FAULT, Ledger, now


def letter(
    ledger: Ledger, *, task: str = "invoice-import", kind: str = "ValueError: amount", **fields: Any
) -> Execution:
    """One, that died as long ago as `died` says."""
    died = fields.pop("died", timedelta(minutes=1))
    row = ledger.add(Status.DEAD_LETTER, task=task, **{"error": FAULT, "attempt": 4, **fields})
    DeadLetter.objects.filter(execution_id=row.id).update(fingerprint=kind, since=now() - died)
    return row


def letters(ledger: Ledger, count: int, **fields: Any) -> list[Execution]:
    return [letter(ledger, due=timedelta(seconds=-60 - n), **fields) for n in range(count)]
