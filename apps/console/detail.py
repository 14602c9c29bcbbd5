"""Values of the ledger as text."""

import json
from typing import Any


def readable(value: Any) -> str:
    """JSON for people: indented, keys as they are, other scripts unescaped."""
    return json.dumps(value, indent=2, ensure_ascii=False)
