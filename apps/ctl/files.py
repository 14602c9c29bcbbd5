"""Documents from files and words."""

import json
import sys
from pathlib import Path
from typing import Any

from apps.ctl.errors import usage
from apps.definitions.dags import files
from chronoweb.runtime.errors import InvalidInputs


def read(name: str) -> list[dict[str, Any]]:
    """The documents of a YAML or JSON file: one object, or a list of them. `-` is standard input."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"{name} cannot be read: {error}") from None
    try:
        found = files.read(text, name=name)
    except InvalidInputs as errors:
        raise usage("; ".join(error.problem for error in errors.errors)) from None
    documents = found if isinstance(found, list) else [found]
    if not documents or not all(isinstance(document, dict) for document in documents):
        raise usage(f"{name} holds no document: an object of fields, or a list of such")
    return documents


def parameters(whole: str | None, singles: list[str]) -> dict[str, Any] | None:
    """`--parameters '{"a": 1}'` and `-p a=1`: a value is JSON if it reads as such, else text. None: none given."""
    if whole is None and not singles:
        return None
    try:
        found = {} if whole is None else json.loads(whole)
    except ValueError as error:
        raise usage(f"--parameters is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise usage("--parameters is not a JSON object")
    for single in singles:
        name, equals, value = single.partition("=")
        if not equals or not name:
            raise usage(f"-p {single!r} is not NAME=VALUE")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
