import argparse
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.definitions import told
from apps.definitions.dags import files, json_schema, making, selectors
from apps.definitions.dags.document import read_dag
from apps.tenants.command_line import add_tenant_option, principal_of
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import ChronowebError, InvalidInput, InvalidInputs
from chronoweb.runtime.terminal import visible


class Command(BaseCommand):
    help = "DAGs as files: apply (create or edit, the difference shown first), export, validate, schema."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        apply = verbs.add_parser("apply", help="make the DAG what the file says; - is standard input")
        apply.add_argument("file", metavar="FILE", nargs="+")
        apply.add_argument("--dry-run", action="store_true", help="only show what would change")
        export = verbs.add_parser("export", help="write a DAG as a file to standard output")
        export.add_argument("name", metavar="NAME")
        export.add_argument("--format", choices=files.FORMATS, default="yaml")
        validate = verbs.add_parser("validate", help="check files and save nothing")
        validate.add_argument("file", metavar="FILE", nargs="+")
        verbs.add_parser("schema", help="write the JSON Schema of such files to standard output")
        for each in (apply, export, validate):
            add_tenant_option(each)

    def handle(self, *args: Any, **options: Any) -> None:
        act = {
            "apply": self._apply,
            "export": self._export,
            "validate": self._validate,
            "schema": self._schema,
        }[options["verb"]]
        try:
            act(options)
        except ChronowebError as error:
            raise CommandError(visible(str(error))) from error

    def _apply(self, options: dict[str, Any]) -> None:
        principal = principal_of(options)
        for name in options["file"]:
            data = self._read(name)
            with _Told(name):
                wanted = making.apply(principal=principal, data=data, dry_run=True)
            for difference in wanted.differences:
                self.stdout.write(visible(difference.line()))
            shown = visible(str(data.get("name") or data.get("dag")))
            if not wanted.differences:
                self.stdout.write(f"{shown}: no difference, version {wanted.version} stays in force")
            elif options["dry_run"]:
                self.stdout.write(f"{shown}: would become version {wanted.version}; nothing was written")
            else:
                with _Told(name):
                    done = making.apply(principal=principal, data=data)
                self.stdout.write(f"{shown}: version {done.version} is in force")

    def _export(self, options: dict[str, Any]) -> None:
        document = selectors.document_named(principal_of(options), options["name"])
        self.stdout.write(files.write(document, format=options["format"]), ending="")

    def _validate(self, options: dict[str, Any]) -> None:
        for name in options["file"]:
            data = self._read(name)
            with _Told(name):
                document = read_dag(
                    data,
                    now=SYSTEM_CLOCK.now(),
                    find_tasks=lambda words: making.TasksOf(principal_of(options)).look(words) if words else {},
                )
            counts = f"{len(document.nodes)} nodes, {document.graph.edges} edges"
            self.stdout.write(visible(f"{name}: {document.values['name']} is valid: {counts}"))

    def _schema(self, options: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(json_schema.schema(), indent=2, ensure_ascii=False))

    def _read(self, name: str) -> Any:
        try:
            text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{name} cannot be read: {error}") from None
        with _Told(name):
            return files.read(text, name=name)


class _Told:
    """Errors of input become the command's own: one line each."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, InvalidInput | InvalidInputs):
            lines = told.lines(error, source=self._source)
            count = f"{len(lines)} value{'s are' if len(lines) != 1 else ' is'} wrong, nothing was written:"
            raise CommandError(visible("\n".join([count, *lines]))) from error
