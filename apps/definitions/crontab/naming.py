"""Names for tasks that crontabs never named. Pure.

A name is seen by everybody, and arguments may hold passwords: it tells the program, and at most a plain word behind it.
"""

import re
import shlex
from collections.abc import Callable
from itertools import count

_BETWEEN = frozenset({"&&", "||", ";", "|", "&", "|&", "then", "do", "else"})
_PREFIXES = frozenset(
    {
        *("if", "while", "exec", "command", "env", "nice", "ionice", "nohup", "chronic", "time", "!", "(", "{"),
        *("sudo", "timeout", "flock", "setsid", "chrt", "taskset", "stdbuf", "eval", "fi", "done"),
    }
)
_NO_WORK = frozenset({"test", "[", "[[", "cd", "sleep", "export", "umask", ".", "source", "set", "true", "false", ":"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.ASCII | re.DOTALL)
_PLAIN = re.compile(r"[a-z][a-z0-9-]{1,23}", re.ASCII)
_PROGRAM_CHARACTERS = 60
_SOURCE_CHARACTERS = 60


def program_of(command: str) -> str:
    """The program that a shell line is about, such as "certbot" or "manage.py clearsessions"."""
    words = _words(command)
    start = True
    for position, word in enumerate(words):
        if word in _BETWEEN:
            start = True
            continue
        if not start or _ASSIGNMENT.fullmatch(word) or word.startswith("-") or word.isdigit() or word.startswith("<"):
            continue
        program = word.rstrip("/").rpartition("/")[2]
        if program in _PREFIXES:
            continue
        start = False
        if program not in _NO_WORK and any(sign.isalnum() for sign in program):
            return _with_word(program, words[position + 1 :])
    return _fallback(words)


def name_of(command: str, *, source: str, number: int, taken: Callable[[str], bool]) -> str:
    """A name that is free: of source and program; where several would share it, the line's number tells them apart."""
    plain = _printable(f"{prefix_of(source)}{program_of(command)}")
    if not taken(plain):
        return plain
    numbered = f"{plain} (line {number})"
    if not taken(numbered):
        return numbered
    return next(name for more in count(2) if not taken(name := f"{plain} (line {number}, {more})"))


def prefix_of(source: str) -> str:
    """What all names of one source begin with."""
    return _printable(f"{source[:_SOURCE_CHARACTERS]}: ")


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    found = []
    try:
        for word in lexer:
            found.append(word)
    except ValueError:  # a quote that does not end: the shell will complain, a name is needed all the same
        return found or command.split()
    return found


def _with_word(program: str, following: list[str]) -> str:
    """With its subcommand, if what follows is a plain word; interpreters are told by their script."""
    shown = program[:_PROGRAM_CHARACTERS]
    for position, word in enumerate(following):
        if word in _BETWEEN:
            break
        if word.startswith("/") or word.endswith((".py", ".sh", ".pl", ".rb", ".php", ".js")):
            script = word.rstrip("/").rpartition("/")[2][:_PROGRAM_CHARACTERS]
            return f"{shown} {script}" if script else shown
        if position == 0 and _PLAIN.fullmatch(word):  # behind an option it may be that one's value
            return f"{shown} {word}"
        if not word.startswith("-"):
            break
    return shown


def _fallback(words: list[str]) -> str:
    """Of a line of nothing but small commands, the first."""
    return next((word[:_PROGRAM_CHARACTERS] for word in words if any(sign.isalnum() for sign in word)), "command")
