"""Text of a crontab → lines, by the rules of Vixie's cron and cronie (crontab(5)). Pure.

A variable's line is one whose first word is followed by `=`; everything else that is no comment is an entry. `%` ends
the command and begins its standard input, where each further `%` is a new line; `\\%` is a percent sign.
"""

import re
from collections.abc import Collection

from apps.definitions.crontab.forms import find_form
from apps.definitions.crontab.lines import SYSTEM, Crontab, Entry, Line
from chronoweb.runtime.errors import InvalidInput

MOST_BYTES = 1_000_000
"""Of a text that comes over the network."""

MOST_LINES = 10_000
MOST_ENTRIES = 1_000
LONGEST_LINE = 32_768

_VARIABLE = re.compile(r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s="'#*@]+))\s*=\s*(?P<value>.*)""")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FLAGS = re.compile(r"(?:-[nqs]+\s+)+")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?(?::[\w.-]+)?(?:/[\w.-]+)?", re.ASCII)
_IGNORED = {
    "LOGNAME": "cron ignores it, and so does chronoweb: the name of who runs the command is the worker's affair",
    "USER": "it does not change who runs the command",
    "RANDOM_DELAY": "the delay by chance is not drawn; jitter spreads the tasks",
}


def read_crontab(text: str, *, form: str | None = None, path: str = "", users: Collection[str] = ()) -> Crontab:
    """Every line of the text, in order.

    form: USER or SYSTEM; None: found by path, which names the file, or by the lines themselves, with `users` the
    accounts that are known. Raises InvalidInput at "/text" for what no crontab is; what is wrong with a line is its
    `problem`.
    """
    given = text.removeprefix("\ufeff").split("\n")
    unended = given[-1] != ""
    if not unended:
        given.pop()
    if len(given) > MOST_LINES:
        raise InvalidInput("/text", None, f"has {len(given)} lines", f"at most {MOST_LINES} lines")
    form, reason = find_form(given, form=form, path=path, users=users)
    environment: dict[str, str] = {}
    lines = [_line(number, raw, environment, form) for number, raw in enumerate(given, start=1)]
    if (count := sum(1 for line in lines if line.entry)) > MOST_ENTRIES:
        raise InvalidInput("/text", None, f"has {count} entries", f"at most {MOST_ENTRIES} entries")
    notes = ["the last line has no end; cron would ignore it, here it counts"] if unended and given[-1].strip() else []
    return Crontab(lines, form, reason, notes)


def _line(number: int, raw: str, environment: dict[str, str], form: str) -> Line:
    text = raw.removesuffix("\r")
    notes = ("a carriage return at its end was taken off",) if text != raw and text.strip() else ()
    tidy = text.strip()
    if not tidy or tidy.startswith("#"):
        return Line(number, text)
    if len(text) > LONGEST_LINE:
        return Line(number, text[:200], problem=f"is {len(text)} characters long; at most {LONGEST_LINE}")
    if match := _VARIABLE.fullmatch(text):
        return _variable(number, text, match, environment, notes)
    return _entry(number, text, environment, form, notes)


def _variable(
    number: int, text: str, match: re.Match[str], environment: dict[str, str], notes: tuple[str, ...]
) -> Line:
    name = next(part for part in (match["double"], match["single"], match["bare"]) if part is not None).strip()
    value = match["value"].strip()
    if not _NAME.fullmatch(name):
        return Line(number, text, problem=f"{name!r} is no variable name: letters, digits and _ only")
    if name.startswith("CHRONOWEB_"):
        return Line(number, text, problem="names that begin with CHRONOWEB_ are set by chronoweb")
    if value[:1] in ("'", '"'):
        end = value.find(value[0], 1)
        if end == -1 or value[end + 1 :].strip():
            return Line(number, text, problem="its value begins with a quote that does not end with the line")
        value = value[1:end]
    if name in _IGNORED:
        return Line(number, text, variable=(name, value), notes=(*notes, _IGNORED[name]))
    if "$" in value:
        notes = (*notes, "cron puts no values in place of $NAME here, and neither does chronoweb: it stays as written")
    environment[name] = value
    return Line(number, text, variable=(name, value), notes=notes)


def _entry(number: int, text: str, environment: dict[str, str], form: str, notes: tuple[str, ...]) -> Line:
    rest = text.strip()
    if rest.startswith("-"):  # cronie: root's entries that are not to be logged
        rest, notes = rest[1:].lstrip(), (*notes, "the leading - (do not log) has no meaning here: all runs are kept")
    times, rest = _times(rest)
    if not times:
        return Line(number, text, problem="has no five time fields with something to run behind them")
    user = None
    if form == SYSTEM:
        user, _, rest = _word(rest)
        if not _USER.fullmatch(user):
            problem = f"{user[:80]!r} stands where a system crontab has the user; is it a user's crontab?"
            return Line(number, text, problem=problem)
    rest = rest.strip()
    single = False
    if flags := _FLAGS.match(rest):
        rest, single = rest[flags.end() :], "s" in flags[0]
        notes = (*notes, f"{flags[0].strip()} was read as OpenBSD's flags, of which -s alone has a meaning here")
    command, stdin = split_percent(rest)
    if not command.strip():
        return Line(number, text, problem="has no command behind its times" + (" and user" if user else ""))
    if command.endswith("\\"):
        notes = (*notes, "ends with a backslash, and crontabs have no lines that go on")
    return Line(number, text, entry=Entry(times, user, command, stdin, dict(environment), single=single, notes=notes))


def _times(text: str) -> tuple[str, str]:
    """The time fields and what is behind them; empty fields where there are too few words."""
    if text.startswith("@"):
        word, _, rest = _word(text)
        if word.lower() == "@every":
            amount, _, rest = _word(rest.lstrip())
            return f"{word} {amount}", rest.lstrip()
        return word, rest.lstrip()
    fields = []
    for _ in range(5):
        word, blank, text = _word(text)
        if not blank:
            return "", ""
        fields.append(word)
        text = text.lstrip(" \t")
    return " ".join(fields), text


def _word(text: str) -> tuple[str, str, str]:
    """First word, the blank behind it, the rest."""
    match = re.search(r"[ \t]", text)
    return (text, "", "") if match is None else (text[: match.start()], match[0], text[match.end() :])


def split_percent(text: str) -> tuple[str, str | None]:
    """The command, and what it reads. As do_command.c of Vixie's cron does it."""
    command: list[str] = []
    escaped = False
    for position, sign in enumerate(text):
        if escaped:
            if sign == "%":
                command.pop()
            command.append(sign)
            escaped = False
        elif sign == "%":
            return "".join(command), _input(text[position + 1 :])
        else:
            command.append(sign)
            escaped = sign == "\\"
    return "".join(command), None


def _input(text: str) -> str:
    found: list[str] = []
    escaped = False
    for sign in text:
        if escaped and sign != "%":
            found.append("\\")
        elif not escaped and sign == "%":
            sign = "\n"
        escaped = sign == "\\"
        if not escaped:
            found.append(sign)
    if escaped:
        found.append("\\")
    read = "".join(found)
    return read if read.endswith("\n") or not read else read + "\n"
