"""{{secret:NAME}}: where it may stand, what it becomes, and what never becomes it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from apps.executions.dags import handler_references, references
from apps.executions.handler_spec import validate_handler
from apps.executions.secret_references import (
    Reference,
    marked,
    put_in,
    put_in_text,
    put_in_url,
    put_in_value,
)
from apps.executions.secret_references import references as references_of
from apps.executions.states import Outcome
from apps.worker.attempt_secrets import Needs
from chronoweb.runtime.errors import InvalidInputs
from tests.factories import document, make_api, make_task, pointers, problem
from tests.runner_tools import assignment, watched
from tests.test_handlers_webhook import Server, server  # noqa: F401 - a fixture

VALUE = 'a/b?c=d&"e" {{secret:OTHER}} ü'
WEBHOOK = {"type": "webhook", "url": "https://8.8.8.8/"}
COMMAND = {"type": "command", "argv": ["true"]}


# ---- where they stand ---------------------------------------------------------------------------------------------


def test_one_form_is_stored_whatever_was_given() -> None:
    handler = validate_handler(
        {
            "type": "webhook",
            "url": "https://8.8.8.8/v1/{{ secret:PART }}/x?key={{secret: KEY }}#{{secret:KEY}}",
            "headers": {"A": {"secret": "T", "prefix": "Bearer "}, "B": "x {{ secret:T }} y{{secret:U}}", "C": "plain"},
            "body": {"deep": [{"a": "{{secret:T }}"}], "secret": "NAME", "n": 1},
        }
    )
    assert handler["url"] == "https://8.8.8.8/v1/{{secret:PART}}/x?key={{secret:KEY}}#{{secret:KEY}}"
    assert handler["headers"] == {"A": "Bearer {{secret:T}}", "B": "x {{secret:T}} y{{secret:U}}", "C": "plain"}
    assert handler["body"] == {"deep": [{"a": "{{secret:T}}"}], "secret": "NAME", "n": 1}
    assert list(references_of(handler)) == [
        *(Reference("/url", name) for name in ("PART", "KEY", "KEY")),
        Reference("/body/deep/0/a", "T"),
        *(Reference(f"/headers/{at}", name) for at, name in (("A", "T"), ("B", "T"), ("B", "U"))),
    ]
    assert validate_handler(handler) == handler, "what is shown may be sent again"


def test_versions_of_before_are_read() -> None:
    old: dict[str, Any] = {**WEBHOOK, "headers": {"A": {"secret": "T", "prefix": "Bearer "}}}
    needs = Needs.of(old)
    assert needs is not None
    assert needs.references == (Reference("/headers/A", "T"),)
    assert put_in(old["headers"], {"T": "v"}) == {"A": "Bearer v"}
    assert marked(old, "#1")["headers"] == {"A": "Bearer {{secret:T#1}}"}


@pytest.mark.parametrize(
    ("handler", "pointer", "words"),
    [
        ({**COMMAND, "argv": ["x", "--token={{secret:T}}"]}, "/argv/1", "lists processes"),
        ({"type": "container", "image": "a", "command": ["x", "{{ secret:T }}"]}, "/command/1", "lists processes"),
        ({**WEBHOOK, "url": "https://{{secret:HOST}}/"}, "/url", "which host is asked is no secret"),
        ({**WEBHOOK, "url": "https://8.8.8.8{{secret:T}}/"}, "/url", "which host is asked is no secret"),
        ({**WEBHOOK, "url": "https://8.8.8.8/{{secret:a b}}"}, "/url", "nothing can be called"),
        ({**WEBHOOK, "headers": {"X": "{{secret:}}"}}, "/headers/X", "nothing can be called"),
        ({**COMMAND, "environment": {"X": "{{secret::webhook}}"}}, "/environment/X", "nothing can be called"),
        ({**WEBHOOK, "body": ["{{secret:1}}"]}, "/body/0", "nothing can be called"),
        ({**WEBHOOK, "headers": {"X": {"secret": "A", "prefix": "{{"}}}, "/headers/X/prefix", "no text before"),
    ],
)
def test_where_none_may_stand(handler: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(InvalidInputs) as refused:
        validate_handler(handler)
    assert pointer in {error.pointer for error in refused.value.errors}
    assert words in str(refused.value)


@pytest.mark.django_db
def test_parameters_refer_to_none_and_unknown_names_are_told_with_their_place() -> None:
    api = make_api()
    wrong = problem(api.post("/tasks", document(parameters={"a": ["{{secret:T}}"]})), 422)
    assert pointers(wrong) == {"/parameters/a/0"}
    handler = {
        "type": "webhook",
        "url": "https://8.8.8.8/{{secret:U}}",
        "headers": {"X": "{{secret:H}}"},
        "body": {"a": "{{secret:B}}"},
    }
    assert pointers(problem(api.post("/tasks", document(handler=handler)), 422)) == {
        "/handler/url",
        "/handler/headers/X",
        "/handler/body/a",
    }
    for name in "UHB":
        api.post("/secrets", {"name": name, "value": "v"})
    assert api.post("/tasks", document(handler=handler)).status_code == 201


@pytest.mark.django_db
def test_what_is_in_use_is_not_deleted_and_says_by_whom() -> None:
    api, other = make_api(), make_api()
    for each in (api, other):
        each.post("/secrets", {"name": "IN_USE", "value": "v"})
    task = make_task(api.principal, handler={**COMMAND, "environment": {"A": "x{{secret:IN_USE}}"}})
    node = {"id": "a", "handler": {**COMMAND, "environment": {"A": {"secret": "IN_USE"}}}}
    dag = api.post("/dags", {"name": "uses-it", "nodes": [node]})
    assert dag.status_code == 201, dag.content
    make_task(api.principal, description="{{secret:IN_USE}} only in words", handler={**COMMAND, "argv": ["IN_USE"]})
    refused = problem(api.call("delete", "/secrets/IN_USE"), 409)
    assert [(user["type"], user["name"]) for user in refused["used_by"]] == [("task", task.name), ("dag", "uses-it")]
    assert task.name in refused["detail"]
    assert other.call("delete", "/secrets/IN_USE").status_code == 204, "another tenant's is another one"
    api.call("delete", f"/tasks/{task.id}")
    api.call("delete", f"/dags/{dag.json()['id']}")
    assert api.call("delete", "/secrets/IN_USE").status_code == 204


# ---- what they become ---------------------------------------------------------------------------------------------


def test_values_are_data_and_are_not_looked_at_again() -> None:
    known = {"T": VALUE, "OTHER": "other"}
    assert put_in_text("<{{secret:T}}>", known) == f"<{VALUE}>"
    assert put_in_value({"{{secret:T}}": ["{{secret:T}}", 1]}, known) == {"{{secret:T}}": [VALUE, 1]}
    url = put_in_url("https://h.example/{{secret:T}}/end?q={{secret:T}}", known)
    assert url.count("/") == 4
    assert url.count("?") == url.count("=") == 1
    assert "{{" not in url


def test_nothing_that_a_result_brings_along_is_a_reference() -> None:
    """However a result is spelt, it stays text: the mark of this attempt is not known to it."""
    handler = {
        "type": "webhook",
        "url": "https://8.8.8.8/{{secret:T}}/{{ a.result }}",
        "headers": {"X": "{{ a.result }}{{secret:T}}"},
        "body": {"whole": "{{ a.result }}", "inside": "<{{ a.result }}>", "own": "{{secret:T}}"},
    }
    assert references.nodes_in(handler) == {"a"}
    assert not list(handler_references.misplaced(handler))
    scope = {"a": {"result": "{{secret:T}}", "status": "completed"}}
    resolved = handler_references.resolve(marked(handler, "#f00"), scope)
    known = {"T": "the value"}
    assert put_in(resolved["headers"], known, "#f00") == {"X": "{{secret:T}}the value"}
    body = put_in_value(resolved["body"], known, "#f00")
    assert body == {"whole": "{{secret:T}}", "inside": "<{{secret:T}}>", "own": "the value"}
    assert put_in_url(resolved["url"], known, "#f00") == "https://8.8.8.8/the%20value/%7B%7Bsecret%3AT%7D%7D"


def test_a_command_and_its_output() -> None:
    handler = {"type": "command", "argv": ["/bin/sh", "-c", 'echo "$A"'], "environment": {"A": "x={{secret:T}};"}}
    with watched() as runner:
        [result] = runner.run(replace(assignment(handler), secrets={"T": "hush-hush"}))
    assert json.loads(result.result_json or b"")["stdout"] == "x=***;\n"


def test_a_webhook_is_sent_them_everywhere_and_tells_nobody(server: Server) -> None:  # noqa: F811
    secret = "s3cr/t value"
    handler = {
        "type": "webhook",
        "url": f"{server.url}/status/{{{{secret:CODE}}}}?key={{{{secret:T}}}}",
        "headers": {"X-A": "a {{secret:T}}"},
        "body": {"t": "{{secret:T}}", "n": 1},
    }
    with watched(allowed_networks=["127.0.0.0/8"]) as runner:
        [result] = runner.run(replace(assignment(handler), secrets={"T": secret, "CODE": "404"}))
    seen = server.seen[-1]
    assert seen["path"] == "/status/404?key=s3cr%2Ft%20value"
    assert seen["headers"]["X-A"] == f"a {secret}"
    assert json.loads(seen["body"]) == {"t": secret, "n": 1}
    assert result.outcome is Outcome.FAILED
    assert "s3cr" not in str(result.error)


def test_a_redirect_does_not_carry_the_bodys_secrets_to_another_host(server: Server) -> None:  # noqa: F811
    other = Server()
    try:
        for body, outcome in (({"t": "{{secret:T}}"}, Outcome.FAILED), ({"t": "plain"}, Outcome.SUCCEEDED)):
            handler = {"type": "webhook", "url": f"{server.url}/kept/{other.url}/ok", "body": body}
            with watched(allowed_networks=["127.0.0.0/8"]) as runner:
                [result] = runner.run(replace(assignment(handler), secrets={"T": "hush-hush"}))
            assert result.outcome is outcome, result
        assert result.error is None
        assert [json.loads(one["body"]) for one in other.seen] == [{"t": "plain"}]
    finally:
        other.shutdown()
        other.server_close()
