"""What the command prints: tables for people, JSON and YAML for programs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chronoweb.runtime.terminal import is_harmless, visible, visible_json

FORMATS = ("table", "json", "yaml")
_PIPE_COLUMNS = 10_000
_CELL = 80
_STYLES = {
    **dict.fromkeys(("completed", "succeeded", "online"), "green"),
    **dict.fromkeys(("dead_letter", "failed", "timed_out"), "red"),
    **dict.fromkeys(("running", "dispatched"), "cyan"),
    **dict.fromkeys(("cancelled", "skipped", "retrying", "paused"), "yellow"),
}


class _Dumper(yaml.SafeDumper):
    """Of values that came as JSON, in whatever class of dictionary."""


_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)


class Output:
    """Writes values to `file` in one of FORMATS."""

    def __init__(self, file: TextIO, format: str = "table") -> None:
        self.format = format
        self.file = file
        self._terminal = file.isatty()
        self._console = Console(
            file=file, highlight=False, markup=False, emoji=False, width=None if self._terminal else _PIPE_COLUMNS
        )

    def items(self, items: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
        """A list. columns: heading → name of the field, with dots for what is inside."""
        if self.format != "table":
            self.value(list(items))
            return
        table = Table(*columns, box=None, pad_edge=False, show_edge=False, header_style="bold")
        for item in items:
            table.add_row(*(self._cell(_at(item, field)) for field in columns.values()))
        self._console.print(table)

    def one(self, item: Mapping[str, Any], fields: Sequence[str] | None = None) -> None:
        """One object; of a table only `fields`, if given."""
        if self.format != "table":
            self.value(item)
            return
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name in fields or item:
            value = _at(item, name)
            if value not in (None, "", [], {}):
                table.add_row(name, self._cell(value, most=None))
        self._console.print(table)

    def value(self, value: Any) -> None:
        """As JSON, or YAML."""
        if self.format == "yaml":
            text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
            self.file.write(text if is_harmless(text) else yaml.dump(value, Dumper=_Dumper, sort_keys=False))
        else:
            self.file.write(visible_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")
        self.file.flush()

    def jsonl(self, value: Any) -> None:
        """As JSON on one line, for what comes one by one."""
        self.file.write(visible_json(json.dumps(value, ensure_ascii=False)) + "\n")
        self.file.flush()

    def say(self, text: str) -> None:
        """A sentence for people; programs get values alone."""
        if self.format == "table":
            self.line(text)

    def line(self, text: str, *, colours: bool = False) -> None:
        """Text of others, such as a line of a log. Nothing of it is obeyed, but colours where they may be."""
        self.file.write(visible(text, colours=colours) + "\n")
        self.file.flush()

    def _cell(self, value: Any, most: int | None = _CELL) -> Text:
        text = visible(_plain(value))
        if most is not None and len(text) > most:
            text = text[: most - 1] + "…"
        return Text(text, style=_STYLES.get(text, "") if isinstance(value, str) else "")


def _plain(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _at(item: Mapping[str, Any], path: str) -> Any:
    value: Any = item
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
