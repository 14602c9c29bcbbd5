"""A page of the audit log: its entries as lines, in at most eight queries."""

from dataclasses import dataclass
from datetime import datetime

from apps.console.audit.asked import Asked
from apps.console.audit.differences import Differences, Line, told
from apps.console.audit.targets import Target, Targets
from apps.tenants import audit_reading
from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal

SHOWN = 50
MOST_LINES = 20


@dataclass(frozen=True)
class Entry:
    """One act. Each query narrows the page to what it names. whence: console · 198.51.100.7."""

    row: AuditEntry
    target: Target
    changes: list[Line]
    left_out: int
    told: list[tuple[str, str]]
    whence: str
    by_actor: str
    by_action: str
    by_target: str


@dataclass(frozen=True)
class Page:
    """older: the query of the next page; empty: this is all."""

    asked: Asked
    entries: list[Entry]
    older: str


def read(principal: Principal, asked: Asked, *, now: datetime) -> Page:
    found = list(audit_reading.entries(principal, asked.wanted(now), before=asked.before)[: SHOWN + 1])
    shown = found[:SHOWN]
    targets, differences = Targets(principal, shown), Differences(principal, shown)
    return Page(
        asked=asked,
        entries=[_entry(row, targets.of(row), differences.of(row), asked) for row in shown],
        older=asked.query(before=shown[-1].pk) if len(found) > SHOWN else "",
    )


def whence(row: AuditEntry) -> str:
    return " · ".join(part for part in (row.via, row.address) if part)


def _entry(row: AuditEntry, target: Target, lines: list[Line], asked: Asked) -> Entry:
    return Entry(
        row=row,
        target=target,
        changes=lines[:MOST_LINES],
        left_out=max(0, len(lines) - MOST_LINES),
        told=told(row, lines, target.label),
        whence=whence(row),
        by_actor=asked.query(actor=row.actor),
        by_action=asked.query(action=row.action),
        by_target=asked.query(target_type=row.target_type, target_id=row.target_id),
    )
