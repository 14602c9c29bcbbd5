"""Checks of what programs are given: arguments and environment variables. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from apps.executions.secret_references import Found, check_reference, escape
from chronoweb.runtime.errors import InvalidInput

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
ARGUMENTS_AT_MOST = 256
TEXT_BYTES = 64 * 1024


def check_argv(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        legal = '["program", "argument", …]; a shell is never used'
        found.append(InvalidInput(pointer, value, "must be a list of texts, not a command line", legal))
        return
    if not 1 <= len(value) <= ARGUMENTS_AT_MOST:
        problem = f"has {len(value)} elements"
        found.append(InvalidInput(pointer, list(value), problem, f"1 to {ARGUMENTS_AT_MOST} elements"))
    for index, argument in enumerate(value):
        check_text(f"{pointer}/{index}", argument, found)
    if value and value[0] == "":
        found.append(InvalidInput(f"{pointer}/0", "", "is no program", "the name or path of a program"))


def check_environment(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, Mapping):
        found.append(
            InvalidInput(pointer, value, "must be an object of variable names and texts", "an object such as {}")
        )
        return
    for name, text in value.items():
        at = f"{pointer}/{escape(str(name))}"
        if not isinstance(name, str) or not VARIABLE_NAME.fullmatch(name):
            found.append(InvalidInput(at, name, "is no variable name", 'letters, digits and "_"'))
        elif name.startswith("CHRONOWEB_"):
            found.append(
                InvalidInput(at, text, "names that begin with CHRONOWEB_ are set by chronoweb", "another name")
            )
        elif isinstance(text, Mapping):
            check_reference(at, text, found)
        else:
            check_text(at, text, found)


def check_text(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, str):
        found.append(InvalidInput(pointer, value, "must be text", "a text"))
    elif "\0" in value:
        found.append(InvalidInput(pointer, None, "contains a NUL character", "text without NUL characters"))
    elif not value.isascii() and value != value.encode("utf-8", "replace").decode():
        found.append(InvalidInput(pointer, None, "contains a lone surrogate", "text that is UTF-8"))
    elif len(value.encode()) > TEXT_BYTES:
        found.append(InvalidInput(pointer, None, "is too long", f"at most {TEXT_BYTES} bytes"))
