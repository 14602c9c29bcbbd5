"""Scheduling quotas: what a tenant may use in a window. Pure.

Windows are those of the calendar, in UTC: an hour for executions, a month for compute. Logs count while they are kept.
"""

from enum import IntEnum
from typing import Final


class Use(IntEnum):
    """What is counted, in the unit that `tenant_usage` keeps."""

    EXECUTIONS = 0  # dispatched, each once
    COMPUTE = 1  # microseconds of attempts, when they end
    LOGS = 2  # bytes in the storage
    LOGS_OF_DAY = 3  # the part of LOGS that goes with a day

    @property
    def quota(self) -> str:
        """The tenant's field that limits it."""
        return QUOTA_OF[self]

    def shown(self, used: int) -> float:
        """As the quota counts: executions, minutes, GB."""
        return used if self is Use.EXECUTIONS else round(used / UNITS[self], 3)


QUOTA_OF: Final = {
    Use.EXECUTIONS: "executions_per_hour",
    Use.COMPUTE: "compute_minutes_per_month",
    Use.LOGS: "log_storage_gb",
}
UNITS: Final = {Use.EXECUTIONS: 1, Use.COMPUTE: 60_000_000, Use.LOGS: 1_000_000_000}
"""One of the quota's unit in that of `tenant_usage`."""

_WINDOWS: Final = {
    Use.EXECUTIONS: ("date_trunc('hour', statement_timestamp(), 'UTC')", "interval '1 hour'"),
    Use.COMPUTE: ("date_trunc('month', statement_timestamp(), 'UTC')", "interval '1 month'"),
    Use.LOGS: ("'epoch'::timestamptz", "NULL::interval"),
}


def sql_constants() -> dict[str, str]:
    """Names that the named SQL may use in braces. USE_WINDOW: the window now of the row `v`. QUOTAS: of the tenant `t`
    each quota that it has, as `q`: kind, name, what it may use (most; shown: as people say it), since, until.
    """
    rows = [
        f"({int(use)}, '{QUOTA_OF[use]}', t.{QUOTA_OF[use]}::bigint * {UNITS[use]}, t.{QUOTA_OF[use]}, {since}, "
        f"(({since} AT TIME ZONE 'UTC') + {length}) AT TIME ZONE 'UTC')"
        for use, (since, length) in _WINDOWS.items()
    ]
    whens = " ".join(f"WHEN {int(use)} THEN {since}" for use, (since, _) in _WINDOWS.items())
    return {f"USE_{use.name}": str(int(use)) for use in Use} | {
        "THIS_HOUR": _WINDOWS[Use.EXECUTIONS][0],
        "USE_WINDOW": f"CASE v.kind {whens} END",
        "QUOTAS": f"(VALUES {', '.join(rows)}) q(kind, name, most, shown, since, until)",
    }
