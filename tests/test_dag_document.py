"""A DAG's document: every form that people write, and every fault with its place, its value and what is right."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.definitions.dags import files
from apps.definitions.dags.document import DagDocument, Tasks, read_dag, sparse
from apps.executions.dags.plan import NodeKind
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NOOP = {"type": "python", "name": "demo.noop"}
SHORT = {
    "dag": "document-processing",
    "tasks": [
        {"id": "classify", "handler": "documents.Classify"},
        {
            "id": "invoice",
            "handler": "documents.Invoice",
            "depends_on": ["classify"],
            "condition": {"field": "classify.result.type", "equals": "invoice"},
        },
    ],
}


def no_tasks(words: Iterable[str]) -> Tasks:
    return {}


def read(data: Any, **options: Any) -> DagDocument:
    options.setdefault("find_tasks", no_tasks)
    return read_dag(data, now=NOW, resolve=lambda host, port: ["93.184.216.34"], **options)


def dag(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "d", "nodes": list(nodes), **fields}


def node(name: str, *parents: Any, **fields: Any) -> dict[str, Any]:
    return {"id": name, "handler": NOOP, "depends_on": list(parents), **fields}


def faults(data: Any, **options: Any) -> list[InvalidInput]:
    with pytest.raises(InvalidInputs) as caught:
        read(data, **options)
    return caught.value.errors


def pointers(data: Any) -> list[str]:
    return [error.pointer for error in faults(data)]


# ---- forms --------------------------------------------------------------------------------------------------------


def test_the_short_form_means_the_same_as_the_long_one() -> None:
    long = {
        "name": "document-processing",
        "nodes": [
            {"id": "classify", "handler": {"type": "python", "name": "documents.Classify"}},
            {
                "id": "invoice",
                "handler": {"type": "python", "name": "documents.Invoice"},
                "depends_on": [
                    {"node": "classify", "condition": {"path": "$.type", "op": "equals", "value": "invoice"}}
                ],
            },
        ],
    }
    assert read(SHORT).values == read(long).values


@pytest.mark.parametrize(
    ("condition", "stored"),
    [
        ({"field": "a.result", "exists": True}, {"path": "$", "op": "exists", "value": True}),
        ({"field": "a.result.x[0].y", "gt": 3}, {"path": "$.x[0].y", "op": "gt", "value": 3}),
        ({"field": 'a.result["it\'s"]', "lt": "z"}, {"path": "$['it\\'s']", "op": "lt", "value": "z"}),
        ({"parent": "a", "path": "$..n", "in": [1]}, {"path": "$..n", "op": "in", "value": [1]}),
        ([{"parent": "a", "path": "$", "op": "exists"}], {"path": "$", "op": "exists", "value": True}),
        (
            {"field": "a.result.x", "op": "not_equals", "value": None},
            {"path": "$.x", "op": "not_equals", "value": None},
        ),
    ],
)
def test_conditions_are_stored_in_one_form(condition: Any, stored: dict[str, Any]) -> None:
    made = read(dag(node("a"), node("b", "a", condition=condition)))
    assert made.values["nodes"][1]["depends_on"] == [{"node": "a", "condition": stored}]


def test_what_is_default_is_not_stored_and_an_edge_given_twice_is_one() -> None:
    made = read(dag(node("a", priority=5, retry_policy={"max_attempts": 4}), node("b", "a", "a"), tags=[]))
    assert made.values["nodes"] == [{"id": "a", "handler": NOOP}, {"id": "b", "handler": NOOP, "depends_on": ["a"]}]
    assert sparse(made.values) == {"name": "d", "nodes": made.values["nodes"]}


def test_kinds_of_nodes() -> None:
    made = read(
        dag(
            node("list"),
            node("each", "list", map_over="list.result.items", parameters={"x": "{{ item }} {{ index }}"}),
            {"id": "ok", "approval": {"timeout_seconds": 60, "default": "reject"}, "depends_on": ["each"]},
        )
    )
    assert [n.kind for n in made.nodes] == [NodeKind.TASK, NodeKind.MAPPED, NodeKind.APPROVAL]
    assert made.nodes[2].task_document is not None
    assert made.nodes[2].task_document["handler"]["type"] == "approval"


def test_a_node_takes_a_task_and_says_what_differs() -> None:
    base = read(dag(node("x"))).nodes[0].task_document
    assert base is not None
    task = {**base, "name": "load", "schedule": {"type": "manual"}}
    made = read(
        dag({"id": "a", "task": "load"}, {"id": "b", "task": "load", "depends_on": ["a"], "timeout_seconds": 9}),
        find_tasks=lambda words: {"load": task},
    )
    assert made.nodes[0].task_document is None
    assert made.nodes[1].task_document == {**task, "timeout_seconds": 9}
    assert made.values["nodes"][1] == {"id": "b", "task": "load", "timeout_seconds": 9, "depends_on": ["a"]}


def test_urls_with_references_need_not_do_without_spaces() -> None:
    url = "https://example.com/{{ a.result.id }}/x"
    made = read(dag(node("a"), node("b", "a", handler={"type": "webhook", "url": url})))
    assert made.values["nodes"][1]["handler"]["url"] == "https://example.com/{{a.result.id}}/x"


# ---- faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ([], ""),
        ("text", ""),
        ({}, "/name"),
        (dag(), "/nodes"),
        (dag(nodes={}), "/nodes"),
        (dag(7), "/nodes/0"),  # type: ignore[arg-type]
        (dag(node("a"), name=""), "/name"),
        (dag(node("a"), name="x" * 201), "/name"),
        (dag(node("a"), colour="red"), "/colour"),
        ({**SHORT, "name": "twice"}, "/dag"),
        ({**SHORT, "nodes": []}, "/tasks"),
        (dag(node("a"), schedule={"type": "cron", "expression": "61 * * * *"}), "/schedule/expression"),
        (
            dag(node("a"), schedule={"type": "cron", "expression": "0 2 * * *", "timezone": "Mars"}),
            "/schedule/timezone",
        ),
        (dag(node("a"), max_active_runs=0), "/max_active_runs"),
        (dag(node("a"), max_active_runs=True), "/max_active_runs"),
        (dag(node("a"), run_timeout_seconds=1.5), "/run_timeout_seconds"),
        (dag(node("a"), failure_policy="explode"), "/failure_policy"),
        (dag(node("a"), overlap_policy="maybe"), "/overlap_policy"),
        (dag(node("a"), catchup_seconds=-1), "/catchup_seconds"),
        (dag(node("a"), tags="etl"), "/tags"),
        (dag(node("a"), parameters=[]), "/parameters"),
        (dag(node("a"), parameters={"a": "\0"}), "/parameters/a"),
        (dag(node("a"), parameters={"a": float("nan")}), "/parameters/a"),
        (dag(node("a"), parameters_schema={"type": "objekt"}), "/parameters_schema/type"),
        (dag(node("a"), parameters_schema={"$ref": "https://example.com/s"}), "/parameters_schema/$ref"),
        (dag(node("")), "/nodes/0/id"),
        (dag(node("a.b")), "/nodes/0/id"),
        (dag(node("run")), "/nodes/0/id"),
        (dag(node("a" * 101)), "/nodes/0/id"),
        (dag({"handler": NOOP}), "/nodes/0/id"),
        (dag({"id": "a"}), "/nodes/0"),
        (dag({"id": "a", "handler": NOOP, "task": "t"}), "/nodes/0"),
        (dag({"id": "a", "task": "nothing"}), "/nodes/0/task"),
        (dag({"id": "a", "task": 7}), "/nodes/0/task"),
        (dag(node("a", colour="red")), "/nodes/0/colour"),
        (dag(node("a", handler={"type": "smoke"})), "/nodes/0/handler/type"),
        (dag(node("a", handler="not a name")), "/nodes/0/handler/name"),
        (dag(node("a", handler={"type": "webhook", "url": "ftp://x"})), "/nodes/0/handler/url"),
        (dag(node("a", priority=11)), "/nodes/0/priority"),
        (dag(node("a", timeout_seconds="9")), "/nodes/0/timeout_seconds"),
        (dag(node("a", retry_policy={"max_attempts": 0})), "/nodes/0/retry_policy/max_attempts"),
        (dag(node("a", trigger_rule="all")), "/nodes/0/trigger_rule"),
        (dag(node("a", depends_on="b")), "/nodes/0/depends_on"),
        (dag(node("a", 7)), "/nodes/0/depends_on/0"),
        (dag(node("a", {"node": "b", "colour": 1})), "/nodes/0/depends_on/0"),
        (dag(node("a"), node("b", "a", "c")), "/nodes/1/depends_on/1"),
        (dag(node("a"), node("a")), "/nodes/1/id"),
        (dag(node("a", "a")), "/nodes/0/depends_on/0"),
        (dag(node("a", "b"), node("b", "a")), "/nodes/0/depends_on/0"),
        (dag(node("a"), node("b", "a", condition={})), "/nodes/1/condition"),
        (dag(node("a"), node("b", "a", condition="a.result.x")), "/nodes/1/condition"),
        (dag(node("a"), node("b", "a", condition={"field": "a.x", "equals": 1})), "/nodes/1/condition/field"),
        (dag(node("a"), node("b", "a", condition={"field": 7, "equals": 1})), "/nodes/1/condition/field"),
        (dag(node("a"), node("b", "a", condition={"field": "a.result.x"})), "/nodes/1/condition"),
        (dag(node("a"), node("b", "a", condition={"field": "a.result.x", "gt": 1, "lt": 3})), "/nodes/1/condition"),
        (dag(node("a"), node("b", "a", condition={"field": "a.result.x", "gt": None})), "/nodes/1/condition/gt"),
        (
            dag(node("a"), node("b", "a", condition={"parent": "a", "path": "x", "equals": 1})),
            "/nodes/1/condition/path",
        ),
        (dag(node("a"), node("b", condition={"field": "a.result.x", "equals": 1})), "/nodes/1/condition"),
        (
            dag(node("a"), node("b", {"node": "a", "condition": {"path": "$..a..b", "exists": True}})),
            "/nodes/1/depends_on/0/condition/path",
        ),
        (
            dag(
                node("a"),
                node(
                    "b",
                    {"node": "a", "condition": {"path": "$", "exists": True}},
                    condition={"field": "a.result", "exists": False},
                ),
            ),
            "/nodes/1/condition",
        ),
        (dag(node("a"), node("b", map_over="a.result")), "/nodes/1/map_over"),
        (dag(node("a"), node("b", "a", map_over="run.parameters.x")), "/nodes/1/map_over"),
        (dag(node("a"), node("b", "a", map_over=["a"])), "/nodes/1/map_over"),
        (dag({"id": "a", "approval": {"default": "approve"}}), "/nodes/0/approval/default"),
        (dag({"id": "a", "approval": {"default": "perhaps", "timeout_seconds": 5}}), "/nodes/0/approval/default"),
        (dag({"id": "a", "approval": {"colour": 1}}), "/nodes/0/approval/colour"),
        (dag({"id": "a", "approval": True, "timeout_seconds": 5}), "/nodes/0/timeout_seconds"),
        (dag({"id": "a", "approval": True, "priority": 0}), "/nodes/0/priority"),
        (dag(node("a", parameters={"x": "{{ b.result }}"})), "/nodes/0/parameters/x"),
        (dag(node("a", parameters={"x": ["{{ oops }}"]})), "/nodes/0/parameters/x/0"),
        (dag(node("a", parameters={"x": "{{ item }}"})), "/nodes/0/parameters/x"),
        (dag(node("a"), node("b", parameters={"x": "{{ a.result }}"})), "/nodes/1/parameters/x"),
        (
            dag(node("a"), node("b", "a", handler={"type": "command", "argv": ["sh", "-c", "echo {{ a.result }}"]})),
            "/nodes/1/handler/argv/2",
        ),
        (
            dag(node("a"), node("b", "a", handler={"type": "webhook", "url": "https://{{a.result}}/"})),
            "/nodes/1/handler/url",
        ),
    ],
)
def test_a_fault_is_told_at_its_field(data: Any, pointer: str) -> None:
    errors = faults(data)
    assert pointer in [error.pointer for error in errors]
    for error in errors:
        assert error.problem
        assert error.legal, error


def test_all_faults_are_told_at_once_in_the_words_that_were_used() -> None:
    data = {"dag": "", "tasks": [{"id": "a", "handler": "x"}], "max_active_runs": -1, "failure_policy": "no"}
    assert set(pointers(data)) == {"/dag", "/max_active_runs", "/failure_policy"}
    data = {
        "dag": "d",
        "tasks": [{"id": "a", "handler": "x", "depends_on": ["b"]}, {"id": "b", "handler": "x", "depends_on": ["a"]}],
    }
    (error,) = faults(data)
    assert (error.pointer, error.problem) == ("/tasks/0/depends_on/0", "closes a cycle: a → b → a")


def test_a_reference_may_read_any_node_before_and_none_beside() -> None:
    read(dag(node("a"), node("b", "a"), node("c", "b", parameters={"x": "{{ a.result }} {{ run.parameters.y }}"})))
    assert pointers(dag(node("a"), node("b", "a"), node("c", "a", parameters={"x": "{{ b.result }}"}))) == [
        "/nodes/2/parameters/x"
    ]


def test_scheduled_parameters_fit_their_schema_and_those_of_a_trigger_may_come_later() -> None:
    schema = {"type": "object", "required": ["day"], "properties": {"day": {"type": "string", "pattern": "^[0-9-]+$"}}}
    assert pointers(dag(node("a"), parameters_schema=schema, schedule={"type": "interval", "every_seconds": 60})) == [
        "/parameters"
    ]
    read(dag(node("a"), parameters_schema=schema))
    read(
        dag(
            node("a"),
            parameters_schema=schema,
            parameters={"day": "1-2"},
            schedule={"type": "interval", "every_seconds": 60},
        )
    )


# ---- size ---------------------------------------------------------------------------------------------------------


def test_a_chain_of_ten_thousand_nodes_is_read_and_checked_in_seconds() -> None:
    chain = dag(*(node(f"n{n}", *([f"n{n - 1}"] if n else [])) for n in range(10_000)))
    begun = time.process_time()
    made = read(chain)
    elapsed = time.process_time() - begun
    assert made.graph.edges == 9_999
    assert elapsed < 20, elapsed


def test_dense_layers_of_a_thousand_nodes_are_read_in_seconds() -> None:
    above = [f"a{n}" for n in range(1000)]
    layers = dag(*map(node, above), *(node(f"b{n}", *above) for n in range(1000)))
    begun = time.process_time()
    assert read(layers).graph.edges == 1_000_000
    assert time.process_time() - begun < 6


def test_one_host_is_looked_up_once() -> None:
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.216.34"]

    nodes = [node(f"n{n}", handler={"type": "webhook", "url": f"https://example.com/{n}"}) for n in range(50)]
    read_dag(dag(*nodes), now=NOW, find_tasks=no_tasks, resolve=resolve)
    assert asked == ["example.com"]


# ---- files --------------------------------------------------------------------------------------------------------


def test_a_file_written_is_the_document_read() -> None:
    made = read(
        dag(
            node("on", parameters={"no": "no", "n": "1", "text": "a\nb\n", "date": "2026-01-01", "f": 1.0}),
            node("y", {"node": "on", "condition": {"path": "$.x", "equals": None}}, trigger_rule="all_done"),
            schedule={"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Paris"},
            description="Nightly: *, &, #",
        )
    )
    for format in files.FORMATS:
        assert read(files.read(files.write(made.values, format=format))).values == made.values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1,\n", "line 2"),
        ("a: 1\na: 2\n", "comes twice"),
        ('{"a": 1, "a": 2}', "comes twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1', "line 1"),
        ("1: x\n", "must be text"),
        ("!!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
        ("a: &a [*a]\n", "recursive"),
        ("- " * 5000, "depth"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text: str, words: str) -> None:
    with pytest.raises(InvalidInputs, match=words):
        files.read(text)


def test_a_small_file_does_not_stand_for_billions_of_values() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    begun = time.process_time()
    with pytest.raises(InvalidInputs, match="more than"):
        files.read("\n".join(lines))
    assert time.process_time() - begun < 1


def test_yaml_means_what_it_says() -> None:
    assert files.read("on: no\ntime: 12:30\nday: 2026-01-01\nzero: 010\nhalf: 0.5\nnone: ~\n") == {
        "on": "no",
        "time": "12:30",
        "day": "2026-01-01",
        "zero": "010",
        "half": 0.5,
        "none": None,
    }
