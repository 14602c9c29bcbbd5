"""Where handlers come from: `tasks.py` of installed apps, named modules, and the playground file."""

import importlib
import importlib.util
import json
import logging
import sys
import traceback
import types
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apps.worker.handlers.registry import REGISTRY, Registry

log = logging.getLogger(__name__)
PLAYGROUND_MODULE = "playground.tasks"


@dataclass(frozen=True, slots=True)
class HandlerSources:
    """What a process loads before it runs handlers.

    installed_apps: set Django up and import `tasks` of every installed app that has one.
    modules: further modules, by dotted name. playground: path of a file that is loaded again when it is saved.
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

    def playground_signature(self) -> tuple[int, int, int] | None:
        """Changes whenever the playground file is saved; None while there is none."""
        if self.playground is None:
            return None
        try:
            seen = Path(self.playground).stat()
        except OSError:
            return None
        return seen.st_mtime_ns, seen.st_size, seen.st_ino


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
    """Load the playground file, anew if it was loaded before.

    Compiled here and not imported: two saves within a second would be told apart by neither the time nor, if
    it is unlucky, the size that a cached .pyc is compared by.
    """
    REGISTRY.forget_source(PLAYGROUND_MODULE)
    if sources.playground is None or not Path(sources.playground).exists():
        return
    module = types.ModuleType(PLAYGROUND_MODULE)
    module.__file__ = sources.playground
    sys.modules[PLAYGROUND_MODULE] = module
    try:
        code = compile(Path(sources.playground).read_bytes(), sources.playground, "exec")
        exec(code, module.__dict__)  # noqa: S102 - this is what loading a module does
    except BaseException as problem:
        # Half of its handlers are worse than none: which half would depend on the line that failed.
        REGISTRY.forget_source(PLAYGROUND_MODULE)
        _note_broken(PLAYGROUND_MODULE, "playground/tasks.py", problem)


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
