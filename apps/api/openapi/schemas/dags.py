"""DAGs and their versions."""

from typing import Any

from apps.api.openapi.schemas.definitions import STANDING, lifted, partial, shown
from apps.api.openapi.shapes import (
    ANYTHING,
    COUNT,
    MOMENT,
    OBJECT,
    POSITIVE,
    TEXT,
    UUID,
    Shape,
    extended,
    given,
    many,
    one_of,
    or_null,
    page,
    record,
    text,
)
from apps.definitions.dags import document, json_schema
from apps.executions.idempotency import LONGEST_KEY

_SCHEMA = json_schema.schema()
_INPUT: Shape = lifted({name: _SCHEMA[name] for name in ("type", "allOf", "properties", "additionalProperties")})
_OWN = {name: _SCHEMA["properties"][name] for name in document.FIELDS}
_DOCUMENT = shown(_OWN, nullable=frozenset({"max_active_runs", "run_timeout_seconds", "parameters_schema"}))
_DAG = extended(
    _DOCUMENT,
    {**STANDING, "waiting_since": or_null({**MOMENT, "description": "a run is due and max_active_runs are active"})},
)
_DIFFERENCE = record(
    {"pointer": TEXT, "change": one_of(("added", "removed", "changed")), "before": ANYTHING, "after": ANYTHING}
)
_LINE = {"number": POSITIVE, "created_at": MOMENT, "created_by": TEXT}
_VERSION = record({**_LINE, "definition": "DagDocument", "differences": many("Difference")}, optional=["differences"])

SCHEMAS: dict[str, Shape] = {
    "DagInput": {
        **_INPUT,
        "description": "null is the same as absent; `dag` may stand for `name`, `tasks` for `nodes`.",
    },
    "DagPatch": partial(_INPUT),
    "DagNode": lifted(_SCHEMA["$defs"]["node"]),
    "DagEdge": lifted(_SCHEMA["$defs"]["edge"]),
    "Condition": lifted(_SCHEMA["$defs"]["condition"]),
    "Dag": _DAG,
    "DagLine": record(
        {
            "id": UUID,
            "name": TEXT,
            "description": TEXT,
            "tags": many(TEXT),
            "schedule": "Schedule",
            "nodes": COUNT,
            "edges": COUNT,
            **STANDING,
            "waiting_since": or_null(MOMENT),
        },
        about="As a list shows it: nodes and edges are numbers.",
    ),
    "DagPage": page("DagLine"),
    "Difference": {**_DIFFERENCE, "description": "What stands where in the one document and in the other."},
    "DagValidation": record(
        {
            "id": or_null(UUID),
            "version": or_null(POSITIVE),
            "differences": many("Difference"),
        },
        about="What applying the document would change. id null: it would be new.",
    ),
    "DagDocument": record({name: shape for name, shape in _DOCUMENT["properties"].items() if name != "id"}),
    "DagVersionLine": record(_LINE),
    "DagVersions": record({"items": many("DagVersionLine")}),
    "DagVersion": _VERSION,
    "DagTrigger": given(
        {
            "run_at": or_null({**TEXT, "description": "a date-time, up to 400 days ahead; now if absent"}),
            "parameters": or_null({**OBJECT, "description": "over the DAG's own, name by name"}),
            "idempotency_key": or_null(text(LONGEST_KEY, 1)),
        }
    ),
    "TriggeredRun": record({"id": UUID, "dag_id": UUID}),
}

_NODES = [
    {"id": "classify", "handler": "documents.classify"},
    {
        "id": "invoice",
        "handler": {"type": "webhook", "url": "https://invoices.example.com/read"},
        "depends_on": ["classify"],
        "condition": {"field": "classify.result.kind", "equals": "invoice"},
    },
]

EXAMPLES: dict[str, dict[str, Any]] = {
    "DagInput": {"two_steps": {"name": "document-processing", "nodes": _NODES}},
    "DagPatch": {"at_night": {"schedule": {"type": "cron", "expression": "0 1 * * *"}}},
    "DagTrigger": {"now": {"parameters": {"document": "4711.pdf"}}},
    "TriggeredRun": {
        "one": {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "dag_id": "01890a5d-0000-774b-bcce-b302099a8057"}
    },
    "DagValidation": {
        "new": {"id": None, "version": 1, "differences": []},
    },
}
