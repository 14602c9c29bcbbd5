"""What the playground's files define, read without running them: for processes that run no handlers, such as the web.

A decorator whose name is no literal, or that stands elsewhere than at the top of a file, is seen by workers only.
"""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from apps.worker.handlers.registry import name_in, takes_context
from apps.worker.handlers.sources import PLAYGROUND, Signature, files_of, signature_of

LARGEST_BYTES = 1_000_000
DECORATOR = "task_handler"
HOME = "apps.worker.handlers"


@dataclass(frozen=True)
class Described:
    """A handler as a form tells of it. file: of the playground; empty: an installed app's."""

    name: str
    doc: str
    signature: inspect.Signature
    file: str = ""


@dataclass(frozen=True)
class Playground:
    """handlers: by name. broken: file → what is wrong with it. bare: files with functions, none of them a handler."""

    handlers: dict[str, Described] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)


class Text(str):
    """A default as its file writes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_kept: dict[Path, tuple[Signature, Playground]] = {}


def read(folder: Path) -> Playground:
    """What it has now; files are parsed again only after one was saved."""
    files = files_of(folder)
    signature = signature_of(files)
    kept = _kept.get(folder)
    if kept is None or kept[0] != signature:
        kept = _kept[folder] = (signature, _parsed(files))
    return kept[1]


def _parsed(files: list[Path]) -> Playground:
    made = Playground()
    for file in files:
        shown = f"playground/{file.name}"
        try:
            if file.stat().st_size > LARGEST_BYTES:
                raise ValueError(f"it has more than {LARGEST_BYTES:,} bytes")
            text = file.read_bytes()
            tree = ast.parse(text, str(file))
        except SyntaxError as error:
            made.broken[shown] = f"line {error.lineno}: {error.msg}"
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            made.broken[shown] = str(error)
        else:
            if elsewhere := _imported_elsewhere(tree):
                made.broken[shown] = elsewhere
            found = list(_handlers(tree, module=PLAYGROUND + file.stem, file=shown))
            for one in found:
                made.handlers.setdefault(one.name, one)
            if not found and not elsewhere and DECORATOR.encode() not in text and _has_functions(tree):
                made.bare.append(shown)
    return made


def _has_functions(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in tree.body)


def _imported_elsewhere(tree: ast.Module) -> str:
    """What is wrong with where the decorator comes from; empty: nothing."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != HOME and not node.level:
            if any(name.name == DECORATOR for name in node.names):
                return f"line {node.lineno}: {node.module} has no {DECORATOR}; write: from {HOME} import {DECORATOR}"
    return ""


def _handlers(tree: ast.Module, *, module: str, file: str) -> Iterator[Described]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [_name(one, module, node.name) for one in node.decorator_list]
            signature = _signature(node.args)
            if name := next(filter(None, names), None):
                yield Described(name, ast.get_docstring(node) or "", signature, file)


def _name(decorator: ast.expr, module: str, function: str) -> str | None:
    """What the decorator calls the function; None if it is another decorator, or its name is computed."""
    call = decorator if isinstance(decorator, ast.Call) else None
    target = call.func if call else decorator
    known = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
    if known != DECORATOR:
        return None
    if call is None or not call.args:
        return name_in(module, function)
    given = call.args[0]
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None


def _signature(given: ast.arguments) -> inspect.Signature:
    """Its context first, also where it takes none."""
    kinds = inspect._ParameterKind
    placed = [
        *((one, kinds.POSITIONAL_ONLY) for one in given.posonlyargs),
        *((a, kinds.POSITIONAL_OR_KEYWORD) for a in given.args),
    ]
    defaults: list[ast.expr | None] = [*[None] * (len(placed) - len(given.defaults)), *given.defaults]
    found = [_parameter(arg, kind, value) for (arg, kind), value in zip(placed, defaults, strict=True)]
    if given.vararg:
        found.append(_parameter(given.vararg, kinds.VAR_POSITIONAL, None))
    found += [
        _parameter(arg, kinds.KEYWORD_ONLY, value)
        for arg, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg:
        found.append(_parameter(given.kwarg, kinds.VAR_KEYWORD, None))
    first = next(iter(found), None)
    plain = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    if first is None or (
        first.kind is not kinds.VAR_POSITIONAL
        and not (first.kind in plain and takes_context(first.name, _annotation(first)))
    ):
        found.insert(0, inspect.Parameter("_context", kinds.POSITIONAL_ONLY))
    return inspect.Signature(found)


def _annotation(parameter: inspect.Parameter) -> str:
    return "" if parameter.annotation is inspect.Parameter.empty else str(parameter.annotation)


def _parameter(arg: ast.arg, kind: "inspect._ParameterKind", default: ast.expr | None) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    return inspect.Parameter(
        arg.arg,
        kind,
        default=empty if default is None else Text(ast.unparse(default)),
        annotation=empty if arg.annotation is None else Text(ast.unparse(arg.annotation)),
    )
