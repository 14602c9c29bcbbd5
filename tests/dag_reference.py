"""How a run of a DAG must end, worked out the slow way from the documents alone: nothing of the engine is imported.

Under the failure policy `fail_all` it matters what ended before what, so that one is told what happened, too.

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
    return Ends(nodes, edges, lenient).found


class Ends:
    """How a run has ended, and how it ends once more after some of its nodes were cleared or marked.

    found: the state of each node.
    """

    def __init__(self, nodes: list[tuple[str, Any]], edges: list[tuple[int, int, Any]], lenient: bool) -> None:
        self.nodes, self.edges, self.lenient = nodes, edges, lenient
        self.found, self.results = [""] * len(nodes), [None] * len(nodes)
        self.again(set(range(len(nodes))), {})

    def again(self, cleared: set[int], marked: dict[int, str]) -> None:
        """Decide `cleared` once more on what their parents are now; `marked` ones are what a person said."""
        for number in sorted(cleared):
            rule, outcome = self.nodes[number]
            brought = [
                _edge(self.found[parent], self.results[parent], wanted)
                for parent, child, wanted in self.edges
                if child == number
            ]
            verdict = marked.get(number) or _verdict(rule, brought, self.lenient)
            self.found[number], self.results[number] = _run(outcome) if verdict == "run" else (verdict, None)


Moment = list[tuple[int, int | None, Any]]
"""Executions that end at once: (node, item of a mapped one, outcome)."""


def states_of_fail_all(
    nodes: list[tuple[str, Any]], edges: list[tuple[int, int, Any]], history: list[tuple[str, Moment]]
) -> list[str]:
    """The state of each node of a run that the first failure stops, after `history`.

    history: ("begin", …) of what a worker takes, its outcomes not looked at, and ("end", …) of what it ends.
    """
    run = _FailAll(nodes, edges)
    run.decide()
    for event, moment in history:
        if event == "begin":
            run.taken.update((number, item) for number, item, _ in moment)
        else:
            run.end(moment)
    return run.found


class _FailAll:
    """found: states as they are known; "open": released; "": not decided yet. items: outcomes of items, by node."""

    def __init__(self, nodes: list[tuple[str, Any]], edges: list[tuple[int, int, Any]]) -> None:
        self.nodes, self.edges = nodes, edges
        self.found = [""] * len(nodes)
        self.results: list[Any] = [None] * len(nodes)
        self.items: dict[int, list[Any]] = {}
        self.taken: set[tuple[int, int | None]] = set()
        self.over: set[tuple[int, int | None]] = set()
        self.stopped = False

    def end(self, moment: Moment) -> None:
        for number, item, outcome in moment:
            self._ended(number, item, outcome)
        released = [] if self.stopped else self.decide()
        if "failed" in self.found:
            for number in released:  # in the moment that stops the run, nothing is
                self.found[number] = ""
            self.stop()

    def _ended(self, number: int, item: int | None, outcome: Any) -> None:
        self.over.add((number, item))
        if item is None:
            self.found[number], self.results[number] = _run(outcome)
            return
        self.items[number][item] = outcome
        if None not in self.items[number]:
            self.found[number], self.results[number] = _run(self.items[number])

    def decide(self) -> list[int]:
        """Each node all of whose parents are final, parents first; returns those that are released."""
        released = []
        for number, (rule, outcome) in enumerate(self.nodes):
            into = [(parent, wanted) for parent, child, wanted in self.edges if child == number]
            if self.found[number] or any(self.found[parent] in ("", "open") for parent, _ in into):
                continue
            brought = [_edge(self.found[parent], self.results[parent], wanted) for parent, wanted in into]
            verdict = _verdict(rule, brought, lenient=False)
            self.found[number] = "open" if verdict == "run" else verdict
            if verdict == "run":
                released.append(number)
            if verdict == "run" and isinstance(outcome, list):
                self.items[number] = [None] * len(outcome)
        return released

    def stop(self) -> None:
        """Nothing begins any more: what no worker has taken is cancelled; what one has goes on to its end."""
        self.stopped = True
        for number, state in enumerate(self.found):
            if state == "":
                self.found[number] = "cancelled"
            elif state == "open" and number in self.items:
                for item, outcome in enumerate(self.items[number]):
                    if outcome is None and (number, item) not in self.taken:
                        self._ended(number, item, "cancelled")
            elif state == "open" and (number, None) not in self.taken:
                self.found[number] = "cancelled"


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
