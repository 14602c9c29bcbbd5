"""The limits of a command: what a handler may ask for, what the installation allows. Pure.

A limit holds for each process of the command, except `processes`, which the kernel counts for the whole user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.executions.program_checks import Found, escape
from apps.executions.quantities import parse_bytes
from chronoweb.runtime.config import PREFIX, Config
from chronoweb.runtime.errors import InvalidInput

MEBIBYTE = 1024**2


@dataclass(frozen=True, slots=True)
class _Limit:
    setting: str
    """The field of Config with the largest amount."""
    unit: int
    """What one of the setting is in the limit's own unit."""
    low: int
    example: str
    in_bytes: bool = False


LIMITS = {
    "memory": _Limit("command_memory_mib", MEBIBYTE, 8 * MEBIBYTE, '"512Mi"', in_bytes=True),
    "file_size": _Limit("command_file_size_mib", MEBIBYTE, 1, '"1Gi"', in_bytes=True),
    "processes": _Limit("command_processes", 1, 1, "64"),
    "open_files": _Limit("command_open_files", 1, 8, "256"),
    "cpu_seconds": _Limit("command_cpu_seconds", 1, 1, "60"),
}


def caps(config: Config) -> dict[str, int]:
    """The largest amount of each limit, and what holds for a command that names none; bytes, numbers, seconds."""
    return {name: int(getattr(config, limit.setting)) * limit.unit for name, limit in LIMITS.items()}


def effective(given: Mapping[str, Any], largest: Mapping[str, int]) -> dict[str, int]:
    """What is set for a command: what its handler names, never more than the installation allows."""
    asked = {name: _amount(LIMITS[name], value) for name, value in given.items() if name in LIMITS}
    return {name: min(asked.get(name, cap), cap) for name, cap in largest.items()}


def check_limits(pointer: str, value: Any, found: Found, largest: Mapping[str, int]) -> None:
    """Add what is wrong with a handler's "limits" to `found`."""
    if not isinstance(value, Mapping):
        found.append(InvalidInput(pointer, value, "must be an object of limits", tuple(LIMITS)))
        return
    for name, amount in value.items():
        at = f"{pointer}/{escape(str(name))}"
        limit = LIMITS.get(name)
        if limit is None:
            found.append(InvalidInput(at, amount, "unknown limit", tuple(LIMITS)))
            continue
        legal = f"{limit.low} to {largest[name]}{' bytes' if limit.in_bytes else ''}, such as {limit.example}"
        try:
            number = _amount(limit, amount)
        except ValueError as problem:
            found.append(InvalidInput(at, amount, str(problem), legal))
            continue
        if not limit.low <= number <= largest[name]:
            setting = f"{PREFIX}{limit.setting.upper()}"
            found.append(InvalidInput(at, amount, f"is out of range ({setting} is the most)", legal))


def _amount(limit: _Limit, value: Any) -> int:
    if limit.in_bytes:
        return parse_bytes(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value
