"""What a line of a crontab is, as values. Line numbers count from 1."""

from dataclasses import dataclass, field

USER, SYSTEM = "user", "system"
"""The two forms: a system crontab (/etc/crontab, /etc/cron.d/*) has the user between times and command."""
KINDS = ("blank", "comment", "variable", "entry", "refused")


@dataclass(frozen=True)
class Entry:
    """A line that runs something.

    times: its five fields, or one word that begins with @. user: None in the user form. command: what the shell gets.
    stdin: what the command reads, None for nothing. environment: what the lines above it have set. single: it must
    not run beside itself (OpenBSD's -s). notes: what the reader should know about how it was read.
    """

    times: str
    user: str | None
    command: str
    stdin: str | None
    environment: dict[str, str]
    single: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line: of its four facts, at most one is set. None is set for blank lines and comments.

    variable: name and value that it sets. problem: why it is refused.
    """

    number: int
    text: str
    entry: Entry | None = None
    variable: tuple[str, str] | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        if self.problem is not None:
            return "refused"
        if self.entry is not None:
            return "entry"
        if self.variable is not None:
            return "variable"
        return "comment" if self.text.strip() else "blank"


@dataclass(frozen=True)
class Crontab:
    """A file that was read. form: USER or SYSTEM; form_reason: how that was found."""

    lines: list[Line]
    form: str
    form_reason: str
    notes: list[str] = field(default_factory=list)
