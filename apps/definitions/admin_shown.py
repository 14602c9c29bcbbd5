"""How the admin shows what definitions say."""

import json
from typing import Any

from django.utils.html import format_html


def as_json(value: Any) -> str:
    return format_html('<pre tabindex="0">{}</pre>', json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))
