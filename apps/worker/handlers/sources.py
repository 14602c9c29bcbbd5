"""Where handlers come from: `tasks.py` of installed apps, named modules, and the files of the playground."""

import importlib
import importlib.util
import json
import logging
import sys
import traceback
import types
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apps.worker.handlers.registry import REGISTRY, Registry

log = logging.getLogger(__name__)
PLAYGROUND = "playground."
"""What the names of its modules begin with: `playground/tasks.py` is `playground.tasks`."""

Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class HandlerSources:
    """What a process loads before it runs handlers.

    installed_apps: set Django up and import `tasks` of every installed app that has one.
    modules: further modules, by dotted name. playground: path of a folder whose files, or of a file that, is loaded
    again when it is saved.
    """

    installed_apps: bool = True
    modules: tuple[str, ...] = ()
    playground: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "HandlerSources":
        data: dict[str, Any] = json.loads(text)
        return cls(data["installed_apps"], tuple(data["modules"]), data["playground"])

    def playground_signature(self) -> Signature:
        """Changes whenever a file of the playground is saved, added or removed; empty while there is none."""
        return signature_of(self.playground_files())

    def playground_files(self) -> list[Path]:
        return [] if self.playground is None else files_of(Path(self.playground))


def files_of(place: Path) -> list[Path]:
    """The Python files of a playground, by name. What editors leave beside them (.#x.py, x.py~) and _x.py are none."""
    if not place.is_dir():
        return [place] if place.exists() else []
    return sorted(file for file in place.glob("*.py") if file.name[0] not in "._")


def signature_of(files: Sequence[Path]) -> Signature:
    """Changes with any of them; a file that is gone by now is left out."""
    found = []
    for file in files:
        with suppress(OSError):
            seen = file.stat()
            found.append((str(file), seen.st_mtime_ns, seen.st_size, seen.st_ino))
    return tuple(found)


def load_all(sources: HandlerSources) -> Registry:
    """Import everything. A module that fails is logged and noted in `broken`; the others load all the same."""
    for name in _module_names(sources):
        try:
            importlib.import_module(name)
        except BaseException as problem:
            _note_broken(name, name, problem)
    load_playground(sources)
    return REGISTRY


def load_playground(sources: HandlerSources) -> None:
    """Load the files of the playground, anew if they were loaded before. One that fails leaves the others."""
    for name in {*REGISTRY.broken, *(handler.source for handler in REGISTRY.handlers.values())}:
        if name.startswith(PLAYGROUND):
            REGISTRY.forget_source(name)
    for file in sources.playground_files():
        _load_file(file)


def _load_file(file: Path) -> None:
    """Compiled here and not imported: two saves within a second would be told apart by neither the time nor, if it is
    unlucky, the size that a cached .pyc is compared by.
    """
    name = PLAYGROUND + file.stem
    module = types.ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    try:
        code = compile(file.read_bytes(), str(file), "exec")
        exec(code, module.__dict__)  # noqa: S102 - this is what loading a module does
    except BaseException as problem:
        # Half of its handlers are worse than none: which half would depend on the line that failed.
        REGISTRY.forget_source(name)
        _note_broken(name, f"playground/{file.name}", problem)


def _module_names(sources: HandlerSources) -> list[str]:
    names = list(sources.modules)
    if sources.installed_apps:
        import django
        from django.apps import apps
        from django.utils.module_loading import module_has_submodule

        if not apps.ready:
            django.setup()
        names += [
            f"{config.name}.tasks"
            for config in apps.get_app_configs()
            if config.module is not None and module_has_submodule(config.module, "tasks")
        ]
    return names


def _note_broken(module: str, shown: str, problem: BaseException) -> None:
    last = traceback.format_exception_only(problem)
    REGISTRY.broken[module] = "".join(last).strip()[:2000]
    log.error(
        "%s could not be loaded; its handlers fail until it is mended",
        shown,
        exc_info=problem,
        extra={"action": "handlers.broken", "source": shown},
    )
