"""What the person who starts quickstart sees: one line a step, trouble, and nothing else; the rest goes to a file."""

import logging
import sys
from pathlib import Path

from apps.quickstart.credentials import Credentials
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.logs import JsonFormatter


class Progress:
    """Prints lines with the seconds since it was made."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._began = clock.monotonic()

    def step(self, text: str) -> None:
        seconds = self._clock.monotonic() - self._began
        print(f"{seconds:6.1f} s  {text}", flush=True)


def log_to_file(path: Path) -> None:
    """Everything that this process logs goes to `path`; warnings are shown as well, in plain words."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    whole = logging.FileHandler(path)
    whole.setFormatter(JsonFormatter())
    trouble = logging.StreamHandler(sys.stderr)
    trouble.setLevel(logging.WARNING)
    trouble.setFormatter(logging.Formatter("          %(message)s"))
    logging.getLogger().handlers = [whole, trouble]


def shown(path: Path) -> str:
    """A path as short as it can be said from here."""
    here = Path.cwd()
    return f"{path.relative_to(here)}" if path.is_relative_to(here) else str(path)


def summary(credentials: Credentials, *, login_link: str, file: Path, logs: Path) -> str:
    """The block that says where everything is."""
    return f"""
  chronoweb runs.

    Live page   {login_link}
                (logs you in as {credentials.admin_username}; works once, within an hour)
    Console     {credentials.url}/   user {credentials.admin_username}, password {credentials.admin_password}
    REST        {credentials.url}/api/v1/   API key {credentials.api_key}
    Secrets     {shown(file)}
    Logs        {shown(logs)}/*.log

  Ctrl-C stops everything; the data stays.
"""
