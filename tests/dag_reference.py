"""How a run of a DAG must end, worked out the slow way from the documents alone: nothing of the engine is imported.

A node is (rule, outcome if it runs); outcomes are ("success", result), "failed", "skipped" or "cancelled", a list of
them is a mapped node's items. An edge is (parent, child, wanted): with `wanted` not None it is taken only if the
parent's result equals it. Nodes are given parents first.
"""

from typing import Any

RULES = (
    "all_success",
    "all_done",
    "one_success",
    "one_failed",
    "none_failed",
    "none_failed_min_one_success",
    "always",
)


def states(nodes: list[tuple[str, Any]], edges: list[tuple[int, int, Any]], *, lenient: bool) -> list[str]:
    """The state of each node. lenient: the failure policy `continue`."""
    found: list[str] = []
    results: list[Any] = []
    for number, (rule, outcome) in enumerate(nodes):
        brought = [_edge(found[parent], results[parent], wanted) for parent, child, wanted in edges if child == number]
        verdict = _verdict(rule, brought, lenient)
        state, result = _run(outcome) if verdict == "run" else (verdict, None)
        found.append(state)
        results.append(result)
    return found


def status(found: list[str]) -> str:
    """How the run ends."""
    if not {"failed", "upstream_failed", "cancelled"} & set(found):
        return "succeeded"
    return "partially_completed" if "succeeded" in found else "failed"


def _run(outcome: Any) -> tuple[str, Any]:
    if isinstance(outcome, list):
        items = [_run(item) for item in outcome]
        if any(state in ("failed", "cancelled") for state, _ in items):
            return "failed", None
        if not any(state == "succeeded" for state, _ in items):
            return "skipped", None
        return "succeeded", [result for _, result in items]
    if isinstance(outcome, tuple):
        return "succeeded", outcome[1]
    return outcome, None


def _edge(parent: str, result: Any, wanted: Any) -> str:
    if parent == "succeeded":
        return "good" if wanted is None or result == wanted else "untaken"
    return "untaken" if parent == "skipped" else "bad"


def _verdict(rule: str, brought: list[str], lenient: bool) -> str:
    if not brought and rule != "one_failed":
        return "run"
    good, bad, untaken = (brought.count(word) for word in ("good", "bad", "untaken"))
    if rule == "one_failed":
        return "run" if bad else "skipped"
    if rule in ("all_done", "always"):
        return "run"
    if lenient:
        good, bad = good + bad, 0
    if rule == "one_success":
        return "run" if good else "upstream_failed" if bad else "skipped"
    if bad:
        return "upstream_failed"
    if rule == "all_success":
        return "skipped" if untaken else "run"
    if rule == "none_failed_min_one_success":
        return "run" if good else "skipped"
    return "run"
