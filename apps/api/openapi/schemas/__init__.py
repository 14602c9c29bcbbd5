"""Every named schema of the API, and examples of those that are bodies: data, a module for each part."""

from typing import Any

from apps.api.openapi.schemas import (
    backfills,
    bulk,
    dags,
    executions,
    explain,
    fleet,
    imports,
    logs,
    people,
    runs,
    schedules,
    tasks,
)
from apps.api.openapi.shapes import Shape

_MODULES = (backfills, bulk, dags, executions, explain, fleet, imports, logs, people, runs, schedules, tasks)

SCHEMAS: dict[str, Shape] = {name: shape for module in _MODULES for name, shape in module.SCHEMAS.items()}
EXAMPLES: dict[str, dict[str, Any]] = {name: found for module in _MODULES for name, found in module.EXAMPLES.items()}
"""Name of a schema → name of an example → the example."""

assert len(SCHEMAS) == sum(len(module.SCHEMAS) for module in _MODULES), "two schemas have one name"
assert set(EXAMPLES) <= set(SCHEMAS)
