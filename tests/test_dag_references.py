"""References are put in as values: whatever one holds, it is not read again as a reference, a header or a script."""

from typing import Any

import pytest

from apps.executions.dags import handler_references, references
from apps.executions.dags.references import ReferenceProblem

EVIL = "; rm -rf / #$(reboot)`id`"
SCOPE: dict[str, Any] = {
    "classify": {
        "result": {"type": "invoice", "lines": [{"sku no": "x"}, 2], "evil": EVIL, "again": "{{ run.id }}", "n": None},
        "status": "succeeded",
    },
    "run": {"parameters": {"customer": "Ada", "ids": [1, 2]}, "id": "r1", "nominal_at": "2026-01-01T00:00:00Z"},
    "item": {"sku": "y"},
    "index": 3,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ classify.result.lines }}", [{"sku no": "x"}, 2]),
        ("{{classify.result.lines[1]}}", 2),
        ('{{ classify.result.lines[0]["sku no"] }}', "x"),
        ("{{ classify.status }}", "succeeded"),
        ("{{ run.parameters.customer }} has {{ run.parameters.ids }}", "Ada has [1,2]"),
        ("{{ item.sku }}-{{ index }}", "y-3"),
        ("{{ index }}", 3),
        ("{{ classify.result.n }}", None),
        ('{{ classify.result.none | default({"a": [1]}) }}', {"a": [1]}),
        ("{{ classify.result.type | default(1) }}", "invoice"),
        ('{{ nobody.result.x | default("") }}', ""),
        ('{{ "{{" }} literal }}', "{{ literal }}"),
        ("{{ classify.result.again }}", "{{ run.id }}"),  # not resolved a second time
        ("no reference {{ here", "no reference {{ here"),
    ],
)
def test_values(text: str, value: Any) -> None:
    document = {"deep": [text], "{{ index }}": 1}
    assert references.resolve(document, SCOPE) == {"deep": [value], "{{ index }}": 1}
    assert document["deep"] == [text]


@pytest.mark.parametrize(
    "expression",
    [
        *("", "a b", "classify", "classify.output", "run", "run.secrets", "1a.result", "classify.result..x"),
        *("classify.result[x]", "classify.result[-1]", "item.sku | upper", "item | default(oops)", "os.system('x')"),
    ],
)
def test_what_is_no_reference(expression: str) -> None:
    with pytest.raises(ReferenceProblem, match="is no reference"):
        references.parse(expression)


@pytest.mark.parametrize("expression", ["classify.result.none", "classify.result.type.x", "later.result", "item.z"])
def test_what_is_not_there_is_told_with_its_expression(expression: str) -> None:
    with pytest.raises(ReferenceProblem) as caught:
        references.resolve({"a": f"x{{{{ {expression} }}}}"}, SCOPE)
    assert caught.value.expression == expression
    assert "has no value" in caught.value.problem


def test_which_nodes_a_document_asks_for() -> None:
    document = {"a": ["{{ x.result }} {{ y.status }}", '{{ "{{ z.result }}" }}'], "b": "{{ index }}{{ run.id }}"}
    assert references.nodes_in(document) == {"x", "y"}
    assert [pointer for pointer, _ in references.find({"a/b": [0, "{{ x.result }}"]})] == ["/a~1b/1"]


# ---- handlers -----------------------------------------------------------------------------------------------------


def test_a_command_gets_each_value_as_one_argument() -> None:
    handler = {
        "type": "command",
        "argv": ["report", "--of={{ classify.result.evil }}", "{{ run.parameters.ids }}"],
        "environment": {"WHO": "{{ run.parameters.customer }}"},
    }
    resolved = handler_references.resolve(handler, SCOPE)
    assert resolved["argv"] == ["report", f"--of={EVIL}", "[1,2]"]
    assert resolved["environment"] == {"WHO": "Ada"}


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "echo {{ classify.result.evil }}"],
        ["/bin/bash", "-lc", "echo {{ classify.result.evil }}"],
        ["env", "A=1", "dash", "-c", "{{ classify.result.evil }}"],
        ["python3.11", "-c", "print('{{ classify.result.evil }}')"],
        ["perl", "-e", "{{ classify.result.evil }}"],
        ["{{ classify.result.evil }}"],
    ],
)
def test_a_value_never_becomes_the_text_of_a_script(argv: list[str]) -> None:
    with pytest.raises(ReferenceProblem):
        handler_references.resolve({"type": "command", "argv": argv}, SCOPE)


def test_a_script_reads_a_value_as_its_argument() -> None:
    argv = ["sh", "-c", 'echo "$1"', "_", "{{ classify.result.evil }}"]
    assert handler_references.resolve({"type": "command", "argv": argv}, SCOPE)["argv"] == [*argv[:-1], EVIL]


def test_a_webhook_gets_values_where_they_change_nothing_else() -> None:
    handler = {
        "type": "webhook",
        "url": "https://api.example.com/c/{{ run.parameters.customer }}?q={{classify.result.evil}}",
        "headers": {"X-Ids": "{{ run.parameters.ids }}"},
        "body": {"lines": "{{ classify.result.lines }}", "text": "for {{ run.parameters.customer }}"},
    }
    resolved = handler_references.resolve(handler, SCOPE)
    assert resolved["url"].startswith("https://api.example.com/c/Ada?q=%3B%20rm%20-rf%20%2F")
    assert "&" not in resolved["url"]
    assert resolved["headers"] == {"X-Ids": "[1,2]"}
    assert resolved["body"] == {"lines": [{"sku no": "x"}, 2], "text": "for Ada"}


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://{{ item.sku }}/x",
            "https://example.com{{ item.sku }}",
            "https://a.{{ item.sku }}/",
            "{{ item.sku }}",
        ),
        "https://example.com:{{ index }}/",
    ],
)
def test_a_value_never_chooses_the_host(url: str) -> None:
    with pytest.raises(ReferenceProblem, match="behind the host"):
        handler_references.resolve({"type": "webhook", "url": url}, SCOPE)


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "ä", "a\0"])
def test_a_header_takes_one_line_of_ascii(value: str) -> None:
    handler = {"type": "webhook", "url": "https://example.com/", "headers": {"X": "{{ item }}"}}
    with pytest.raises(ReferenceProblem, match="printable ASCII"):
        handler_references.resolve(handler, {"item": value})


def test_what_a_handler_is_cannot_be_chosen() -> None:
    for handler in ({"type": "python", "name": "{{ item }}"}, {"type": "container", "image": "x:{{ item }}"}):
        assert list(handler_references.misplaced(handler))
