"""DAGs as files: YAML or JSON text read strictly, and written the way people write it by hand.

YAML is read by its 1.2 core rules: only true, false, null and numbers are more than text, so `on`, `no`, `12:30` and
dates mean themselves. Anchors may repeat things, but not blow a small file up.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from apps.definitions import json_values
from apps.definitions.dags.document import sparse
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.terminal import is_harmless, visible_json

FORMATS = ("yaml", "json")
FILE_BYTES = 64 * 1024 * 1024
MOST_VALUES = 5_000_000
"""Of a document, repeated ones included."""


_KINDS = ("null", "bool", "int", "float", "str", "seq")


class _Loader(yaml.CSafeLoader):
    """Plain values of JSON, names once in each object."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, f"a field's name must be text, not {key!r}", key_node.start_mark
            )
        if key in found:
            raise yaml.constructor.ConstructorError(None, None, f"the field {key!r} comes twice", key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    ("float", r"^[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$", list("-+0123456789")),
    ("merge", r"^<<$", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)
# What a tag asks for is JSON's or nothing: !!binary, !!set and !!timestamp make values that no document holds.
_Loader.yaml_constructors = {
    **{
        f"tag:yaml.org,2002:{_kind}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{_kind}"]
        for _kind in _KINDS
    },
    "tag:yaml.org,2002:map": _mapping,
    None: yaml.SafeLoader.construct_undefined,
}


def read(text: str, *, name: str = "the file") -> Any:
    """The value of a file's text, JSON if it begins with { or [. Raises InvalidInputs, the place in its words."""
    if len(text) > FILE_BYTES:
        raise _unreadable(f"{name} has {len(text)} characters", f"at most {FILE_BYTES}")
    try:
        if text.lstrip()[:1] in ("{", "["):
            return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        return _yaml(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise _unreadable(f"{name} is not JSON: {error.msg}, at {where}", "JSON (RFC 8259)") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        raise _unreadable(f"{name} is not YAML: {error.problem}{where}", "YAML 1.2 with JSON's values") from None
    except LookupError:  # of PyYAML, for !!bool and !!int of something else
        raise _unreadable(f"{name} has a value that is not what its tag says", "YAML 1.2 with JSON's values") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _unreadable(f"{name} cannot be read: {error}", "YAML or JSON") from None
    except RecursionError:
        raise _unreadable(f"{name} is nested too deeply", f"{json_values.DEEPEST} levels") from None


def lines_of(text: str, pointers: Iterable[str]) -> dict[str, int]:
    """In which line, from 1, the value stands that each JSON pointer names, or the nearest around it; a pointer is
    missing where nothing can be told. text: one that `read` has taken.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)  # JSON as well, which is YAML but for its tabs
    except yaml.YAMLError:
        return {}
    return {} if root is None else {pointer: _line(root, pointer) for pointer in pointers}


def _line(node: yaml.Node, pointer: str) -> int:
    line = node.start_mark.line
    for step in pointer.split("/")[1:]:
        key = json_values.unescape(step)
        if isinstance(node, yaml.MappingNode):
            found = next(((name, value) for name, value in node.value if name.value == key), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
            node = node.value[int(key)]
            line = node.start_mark.line
        else:
            break
    return int(line) + 1


def write(document: Mapping[str, Any], *, format: str = "yaml") -> str:
    """The text of a document: what is default is left out; `read` and `apply` bring the same DAG back."""
    shown = sparse(document)
    if format == "json":
        return visible_json(json.dumps(shown, ensure_ascii=False, indent=2)) + "\n"
    return written(shown)


def written(value: Any) -> str:
    """Any JSON value as YAML that `read` brings back, and that no terminal obeys."""
    how: dict[str, Any] = {"Dumper": _Dumper, "sort_keys": False, "width": 100, "default_flow_style": False}
    text: str = yaml.dump(value, allow_unicode=True, **how)
    return text if is_harmless(text) else yaml.dump(value, **how)


class _Dumper(yaml.SafeDumper):
    """Text in quotes wherever some YAML reader could take it for something else; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)  # lists below their field, as people indent them


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value and not value.startswith((" ", "\n")) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _yaml(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_bomb(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_bomb(root: yaml.Node) -> None:
    """Aliases may make a small text stand for billions of values."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    while waiting:
        node, is_below_known = waiting.pop()
        if id(node) in sizes and not is_below_known:
            continue
        below = _below(node)
        if not is_below_known:
            sizes[id(node)] = 1  # also ends a node that contains itself
            waiting.append((node, True))
            waiting += [(child, False) for child in below if id(child) not in sizes]
            continue
        sizes[id(node)] = 1 + sum(sizes.get(id(child), 1) for child in below)
        if sizes[id(node)] > MOST_VALUES:
            raise yaml.YAMLError(f"it stands for more than {MOST_VALUES} values")


def _below(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice[:80]!r} comes twice in one object")
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _unreadable(problem: str, legal: str) -> InvalidInputs:
    return InvalidInputs([InvalidInput("", None, problem, legal)])
