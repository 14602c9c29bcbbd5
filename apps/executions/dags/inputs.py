"""What an execution of a run is given: its parents' results, the run's parameters, its item.

Read when a worker claims it; what many of one batch share is read once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.dags import references
from apps.executions.dags.references import ReferenceProblem
from apps.executions.dags.rows import Key
from apps.executions.dags.states import NodeState
from apps.executions.store.dags import RunStore, keys_of


class Place(NamedTuple):
    """Where an execution stands, and which nodes beside its parents it refers to."""

    run: bytes
    node: int
    item: int | None
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Inputs:
    """scope: what references may ask for. parents: the ids of the nodes right before it. problem: none can be told."""

    scope: Mapping[str, Any]
    parents: tuple[str, ...]
    problem: ReferenceProblem | None = None

    def document(self) -> dict[str, Any]:
        """What a Python handler's context is made of."""
        scope = self.scope
        return {
            "run": scope["run"],
            "parents": {name: scope[name] for name in self.parents},
            "item": scope.get("item"),
            "index": scope.get("index"),
        }


def read(connection: psycopg.Connection, places: Sequence[Place]) -> list[Inputs]:
    """The inputs of executions, in their order."""
    found: dict[int, Inputs] = {}
    for day, positions in ids.by_day([place.run for place in places]):
        reading = _Reading(RunStore(connection, day), [places[p] for p in positions])
        found.update((p, reading.inputs(places[p])) for p in positions)
    return [found[p] for p in range(len(places))]


class _Reading:
    """One day's inputs."""

    def __init__(self, store: RunStore, places: Sequence[Place]) -> None:
        keys = sorted({(place.run, place.node) for place in places})
        self._parents: dict[Key, list[int]] = {key: [] for key in keys}
        for run, child, parent in store.rows("parents_of", keys_of(keys)):
            self._parents[run, child].append(parent)
        asked = sorted({(run, parent) for (run, _), parents in self._parents.items() for parent in parents})
        self._names: dict[Key, str] = {}
        self._answers: dict[tuple[bytes, str], dict[str, Any]] = {}
        for run, node, name, state, result in store.rows("answers_of", keys_of(asked)) if asked else ():
            self._names[run, node] = name
            self._answers[run, name] = _answer(NodeState(state), result)
        mapped = sorted({(place.run, place.node) for place in places if place.item is not None})
        rows = store.rows("lists_of", keys_of(mapped)) if mapped else ()
        self._lists = {(run, node): references.parse(map_over) for run, node, map_over in rows}
        self._read_by_name(store, places)
        self._runs = {
            run: {"id": str(UUID(bytes=run)), "parameters": parameters, "nominal_at": _text(nominal)}
            for run, (parameters, nominal) in store.runs_for_references({run for run, _ in keys}).items()
        }

    def _read_by_name(self, store: RunStore, places: Iterable[Place]) -> None:
        wanted = {(place.run, name) for place in places for name in place.names}
        wanted |= {(run, reference.node) for (run, _), reference in self._lists.items() if reference.node}
        for key, (state, result) in store.results_by_name(wanted - self._answers.keys()).items():
            self._answers[key] = _answer(state, result)

    def inputs(self, place: Place) -> Inputs:
        parents = tuple(self._names[place.run, parent] for parent in self._parents[place.run, place.node])
        scope: dict[str, Any] = {"run": self._runs[place.run]}
        names = {*parents, *place.names}
        reference = self._lists.get((place.run, place.node))
        if place.item is not None and reference is not None and reference.node:
            names.add(reference.node)
        scope |= {name: self._answers[place.run, name] for name in names if (place.run, name) in self._answers}
        if place.item is not None and reference is not None:
            try:
                scope |= {"index": place.item, "item": reference.value(scope)[place.item]}
            except (ReferenceProblem, IndexError, TypeError) as error:
                problem = ReferenceProblem(reference.expression, f"has no item {place.item} any more ({error})")
                return Inputs(scope, parents, problem)
        return Inputs(scope, parents)


def _answer(state: NodeState, result: Any) -> dict[str, Any]:
    return {"status": state.word, "result": result}


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
