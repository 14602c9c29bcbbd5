"""What somebody may have meant by a word that is none of the legal ones, for refusals. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches

ELSEWHERE = {
    "at": "run_at",
    "args": "argv",
    "bash": "command",
    "catchup": "catchup_seconds",
    "cmd": "argv",
    "command": "argv",
    "cron": "expression",
    "crontab": "cron",
    "needs": "depends_on",
    "dependencies": "depends_on",
    "data": "body",
    "docker": "container",
    "env": "environment",
    "every": "every_seconds",
    "http": "webhook",
    "json": "body",
    "labels": "tags",
    "max_retries": "max_attempts",
    "once": "one_shot",
    "overlap": "overlap_policy",
    "params": "parameters",
    "payload": "body",
    "resources": "resource_requirements",
    "retries": "retry_policy",
    "seconds": "every_seconds",
    "shell": "command",
    "timeout": "timeout_seconds",
    "tz": "timezone",
    "zone": "timezone",
}
"""Words of other schedulers, and ours for them."""


def meant(word: object, legal: Iterable[str]) -> str:
    """The end of a sentence, such as "; did you mean timezone?", or nothing where no legal word is near."""
    if not isinstance(word, str) or len(word) > 80:
        return ""
    words = {each.lower(): each for each in legal}
    low = word.strip().lower().replace("-", "_")
    found = words.get(low) or words.get(ELSEWHERE.get(low, ""))
    if found is None and (near := get_close_matches(low, words, n=1, cutoff=0.8)):
        found = words[near[0]]
    return f"; did you mean {found}?" if found else ""
