"""References in a handler: what may hold them, and how each field takes its values. Pure.

A value is data wherever it goes: percent-encoded in a URL and never in its host, one line of a header, one element of
argv. The program itself, the host and the text of a script (`sh -c`) are chosen by who defines the task; a reference
there is refused, because the value would become code.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from apps.executions.dags import references
from apps.executions.dags.references import ReferenceProblem

_INTERPRETER = re.compile(r"(?:ba|da|a|z|k|mk|c|tc|fi|r)?sh|(?:python|pypy|perl|ruby|node|php|lua|osascript)[\d.]*")
_SCRIPT_FOLLOWS = re.compile(r"-[A-Za-z]*[ceErp]|--(?:command|eval|print|run)")
_AROUND = re.compile(r"\{\{\s+|\s+\}\}")


def resolve(handler: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """The handler with its references put in; scope as in references.resolve.

    Raises ReferenceProblem where one has no value, stands where none may, or its value cannot stand there.
    """
    for _, expression, problem in misplaced(handler):
        raise ReferenceProblem(expression, problem)
    resolved = dict(handler)
    for name, value in handler.items():
        if name == "url":
            resolved[name] = references.resolve_text(value, scope, quote=lambda text: quote(text, safe=""))
        elif name in ("headers", "environment"):
            resolved[name] = {field: _line(text, scope, name) for field, text in value.items()}
        elif name in ("argv", "command"):
            resolved[name] = [_line(text, scope, name) for text in value]
        elif name == "body":
            resolved[name] = references.resolve(value, scope)
    return resolved


def misplaced(handler: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """References where none may stand: pointer into the handler, expression, problem."""
    for name, value in handler.items():
        found = list(references.find(value))
        if name == "url" and found and isinstance(value, str):
            yield from _in_host(value)
        elif name in ("argv", "command") and found and isinstance(value, Sequence):
            yield from _in_program(name, value, is_argv=name == "argv")
        elif name not in ("url", "argv", "command", "headers", "environment", "body"):
            for pointer, expression in found:
                yield f"/{name}{pointer}", expression, f"may not choose the handler's {name}"


def tight(url: str) -> str:
    """A URL whose references have no spaces at their braces: URLs have no spaces."""
    return _AROUND.sub(lambda match: match[0].strip(), url)


def _line(text: Any, scope: Mapping[str, Any], name: str) -> Any:
    if not isinstance(text, str) or "{{" not in text:
        return text
    resolved = references.resolve_text(text, scope)
    wrong = "\0" in resolved or (name == "headers" and not (resolved.isascii() and resolved.isprintable()))
    if wrong:
        _, expression = next(references.find(text), ("", text))
        what = "printable ASCII text, which a header is" if name == "headers" else "text without NUL characters"
        raise ReferenceProblem(expression, f"has a value that is not {what}")
    return resolved


def _in_host(url: str) -> Iterator[tuple[str, str, str]]:
    before = url.partition("{{")[0]
    parts = urlsplit(before)
    if not (parts.netloc and before[before.index("//") + 2 :].strip("/?#") and re.search(r"//[^/?#]+[/?#]", before)):
        for _, expression in references.find(url):
            yield "/url", expression, "may stand behind the host only: after https://host/"
            return


def _in_program(name: str, argv: Sequence[Any], *, is_argv: bool) -> Iterator[tuple[str, str, str]]:
    interpreted = not is_argv  # a container's entry point may be an interpreter
    for position, element in enumerate(argv):
        follows_flag = (
            position > 0 and isinstance(argv[position - 1], str) and _SCRIPT_FOLLOWS.fullmatch(argv[position - 1])
        )
        for _, expression in references.find(element):
            if is_argv and position == 0:
                yield f"/{name}/0", expression, "may not choose the program"
            elif interpreted and follows_flag:
                hint = 'give the value as an argument of its own and read it in the script ("$1")'
                yield f"/{name}/{position}", expression, f"would become part of a script's text: {hint}"
        if isinstance(element, str) and _INTERPRETER.fullmatch(element.rpartition("/")[2]):
            interpreted = True
