"""The trigger rules: what becomes of a node whose parents are all final. Pure, and decided on edges, not on nodes.

Nothing is decided before every parent is final with no retry left, so all_done and always are the same here.
"""

from typing import NamedTuple

from apps.executions.dags.plan import FailurePolicy, TriggerRule
from apps.executions.dags.states import EdgeOutcome, NodeState


class Counts(NamedTuple):
    """How many edges into a node brought what; open: how many have brought nothing yet."""

    open: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0

    def plus(self, outcome: EdgeOutcome) -> "Counts":
        """After one more edge has brought `outcome`."""
        return Counts(
            self.open - 1,
            self.succeeded + (outcome is EdgeOutcome.SUCCESS),
            self.failed + (outcome is EdgeOutcome.FAILED),
            self.skipped + (outcome is EdgeOutcome.SKIPPED),
            self.errors + (outcome is EdgeOutcome.ERROR),
        )


def decide(rule: TriggerRule, counts: Counts, policy: FailurePolicy) -> NodeState:
    """ACTIVE: the node runs; else the state in which it ends without running. Every edge must have brought something.

    Under the policy `continue` a parent that failed counts as one that succeeded, but for one_failed.
    """
    assert counts.open == 0, counts
    if counts.errors:
        return NodeState.FAILED
    succeeded, failed, skipped = counts.succeeded, counts.failed, counts.skipped
    if rule is TriggerRule.ONE_FAILED:
        return NodeState.ACTIVE if failed else NodeState.SKIPPED
    if rule in (TriggerRule.ALL_DONE, TriggerRule.ALWAYS) or not succeeded + failed + skipped:
        return NodeState.ACTIVE
    if policy is FailurePolicy.CONTINUE:
        succeeded, failed = succeeded + failed, 0
    if rule is TriggerRule.ONE_SUCCESS:
        return _otherwise(NodeState.ACTIVE if succeeded else None, failed)
    if failed:
        return NodeState.UPSTREAM_FAILED
    if rule is TriggerRule.ALL_SUCCESS:
        return NodeState.SKIPPED if skipped else NodeState.ACTIVE
    if rule is TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS:
        return NodeState.ACTIVE if succeeded else NodeState.SKIPPED
    return NodeState.ACTIVE


def _otherwise(wanted: NodeState | None, failed: int) -> NodeState:
    return wanted or (NodeState.UPSTREAM_FAILED if failed else NodeState.SKIPPED)


def outcome_of(state: NodeState) -> EdgeOutcome:
    """What an edge without a condition brings from a parent that ended in `state`."""
    if state is NodeState.SUCCEEDED:
        return EdgeOutcome.SUCCESS
    return EdgeOutcome.SKIPPED if state is NodeState.SKIPPED else EdgeOutcome.FAILED


def state_of_items(counts: Counts) -> NodeState:
    """How a mapped node ends whose items are all final: none at all, or none that ran, is skipped."""
    if counts.failed or counts.errors:
        return NodeState.FAILED
    return NodeState.SUCCEEDED if counts.succeeded else NodeState.SKIPPED
