"""What a run of a DAG needs to know, as values: pure, made from one version of the DAG, copied into the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import UUID

from apps.executions.states import Overlap


class TriggerRule(IntEnum):
    """When a node runs, decided once every parent is final."""

    ALL_SUCCESS = 0
    ALL_DONE = 1
    ONE_SUCCESS = 2
    ONE_FAILED = 3
    NONE_FAILED = 4
    NONE_FAILED_MIN_ONE_SUCCESS = 5
    ALWAYS = 6

    @property
    def word(self) -> str:
        return self.name.lower()


class NodeKind(IntEnum):
    """What a node is."""

    TASK = 0
    MAPPED = 1  # once for each item of a list in a parent's result
    APPROVAL = 2  # waits for a person

    @property
    def word(self) -> str:
        return self.name.lower()


class FailurePolicy(IntEnum):
    """What a failed node does to its run."""

    SKIP_DOWNSTREAM = 0  # what depends on it is skipped; the run ends partially completed
    FAIL_ALL = 1  # what runs is cancelled
    CONTINUE = 2  # the failed node counts as done for its children
    RETRY = 3  # one fresh budget of attempts, then as skip_downstream

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class PlannedNode:
    """One node. index: its position in DagPlan.nodes. node_id: the word that people and edges use for it.

    task_id: the task it refers to, or the id of the DAG's node for an inline one. version_id: the task version with
    its handler, configuration, retry policy and timeouts. queue_seconds: None means for ever. map_over: where the list
    of a MAPPED node is, such as "classify.result.items". approval: timeout_seconds (None: none), default ("approve",
    "reject", None: it fails) and message of an APPROVAL node. route_id: which labels its worker must carry.
    """

    index: int
    node_id: str
    task_id: UUID
    version_id: int
    trigger_rule: TriggerRule
    priority: int
    max_attempts: int
    queue_seconds: int | None
    kind: NodeKind
    map_over: str | None
    approval: Mapping[str, Any] | None
    route_id: int = 0
    concurrency_key: str | None = None


@dataclass(frozen=True)
class PlannedEdge:
    """parent and child: indexes of nodes. condition: in its canonical form (conditions.py); None: none."""

    parent: int
    child: int
    condition: Mapping[str, Any] | None


@dataclass(frozen=True)
class DagPlan:
    """One version of a DAG, ready to run: free of cycles, each edge once.

    version_id: of the DAG's version in the ledger. run_timeout_seconds, max_active_runs: None means no limit.
    overlap: what becomes of a run that is due while as many as may are active.
    """

    dag_id: UUID
    version_id: int
    tenant_id: UUID
    nodes: tuple[PlannedNode, ...]
    edges: tuple[PlannedEdge, ...]
    failure_policy: FailurePolicy
    run_timeout_seconds: int | None
    max_active_runs: int | None
    overlap: Overlap
