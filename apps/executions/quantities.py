"""Amounts of memory and processor time as people write them: 512Mi, 1.5Gi, 500m, 0.5. Pure."""

import re
from decimal import Decimal
from typing import Any

UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
_BYTES = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(K|M|G|Ki|Mi|Gi)?", re.ASCII)
_CPU = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(m)?", re.ASCII)


def parse_bytes(value: Any) -> int:
    """Bytes of "512Mi", "1Gi", "2G" or a whole number. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _BYTES.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("is no amount of memory")
    return int(Decimal(match[1]) * UNITS[match[2] or ""])


def parse_cpu(value: Any) -> float:
    """Processors of "500m", "0.5", 2 or 0.5. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _CPU.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("is no amount of processor time")
    return float(Decimal(match[1]) / (1000 if match[2] else 1))
