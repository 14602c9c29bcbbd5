"""Documents as people write them who have another scheduler in mind: each refusal says how to mend it."""

from typing import Any

import pytest

from apps.api.problems import MOST_ERRORS, handle
from apps.definitions.dags import files
from apps.definitions.dags.document import read_dag
from apps.definitions.validation import read_document
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInputs
from chronoweb.runtime.outbound import literal_resolve

HANDLER = {"type": "python", "name": "demo.noop"}
URL = "https://example.com/x"
SECRET = "sekret-value-77"


def refused(document: Any) -> list[dict[str, Any]]:
    """The errors as the API tells them."""
    given = {"name": "n", "schedule": {"type": "manual"}, "handler": HANDLER, **document}
    if "nodes" in document:
        del given["handler"]
    with pytest.raises(InvalidInputs) as caught:
        _read(given)
    errors: list[dict[str, Any]] = handle(caught.value, {}).data["errors"]
    assert len(errors) <= MOST_ERRORS
    assert all(error.get("legal") not in (None, "", "a value") for error in errors), errors
    return errors


def _read(given: dict[str, Any]) -> None:
    now = SYSTEM_CLOCK.now()
    if "nodes" in given:
        read_dag(given, now=now, find_tasks=lambda _: {}, resolve=literal_resolve)
    else:
        read_document(given, now=now, resolve=literal_resolve)


@pytest.mark.parametrize(
    ("document", "pointer", "said"),
    [
        ({"Name": "n"}, "/Name", "did you mean name?"),
        ({"timeout": "5m"}, "/timeout", "did you mean timeout_seconds?"),
        ({"retries": 3}, "/retries", "did you mean retry_policy?"),
        ({"retry_policy": {"max_retries": 3}}, "/retry_policy/max_retries", "did you mean max_attempts?"),
        ({"overlap": "skip"}, "/overlap", "did you mean overlap_policy?"),
        ({"id": "x", "version": 3}, "/version", "leave it out"),
        ({"task": {}}, "/task", "is not a field of a task"),
        ({"schedule": {"type": "cron", "cron": "0 2 * * *"}}, "/schedule/cron", "did you mean expression?"),
        ({"schedule": {"type": "Cron"}}, "/schedule/type", "did you mean cron?"),
        ({"schedule": {"type": "once", "at": "x"}}, "/schedule/type", "did you mean one_shot?"),
        ({"schedule": {"type": "interval", "every": "5m"}}, "/schedule/every", "did you mean every_seconds?"),
        ({"schedule": {"type": "manual", "tz": "UTC"}}, "/schedule/tz", "did you mean timezone?"),
        ({"handler": {"type": "http", "url": URL}}, "/handler/type", "did you mean webhook?"),
        ({"handler": {"type": "bash"}}, "/handler/type", "did you mean command?"),
        ({"handler": {"type": "docker"}}, "/handler/type", "did you mean container?"),
        ({"handler": {"type": "command", "cmd": ["ls"]}}, "/handler/cmd", "did you mean argv?"),
        ({"handler": {"type": "command", "argv": ["ls"], "env": {}}}, "/handler/env", "did you mean environment?"),
        ({"handler": {"type": "webhook", "url": "example.com"}}, "/handler/url", "the scheme is missing"),
        (
            {"nodes": [{"id": "a", "handler": HANDLER}], "edges": [["a", "b"]]},
            "/edges",
            "each node names what it waits",
        ),
        ({"nodes": [{"id": "a b", "handler": HANDLER}], "edges": []}, "/nodes/0/id", "is no node id"),
    ],
)
def test_words_of_other_schedulers(document: dict[str, Any], pointer: str, said: str) -> None:
    assert said in {error["pointer"]: error["detail"] for error in refused(document)}[pointer]


@pytest.mark.parametrize(
    ("document", "pointer", "legal"),
    [
        ({"name": None}, "/name", "characters"),
        ({"schedule": None}, "/schedule", '"expression"'),
        ({"handler": None}, "/handler", '"argv"'),
        ({"nodes": None}, "/nodes", '"depends_on"'),
        ({"schedule": {"type": "cron"}}, "/schedule/expression", '"0 2 * * *"'),
        ({"schedule": {"type": "interval"}}, "/schedule/every_seconds", "300"),
        ({"schedule": {"type": "one_shot"}}, "/schedule/run_at", "2026-03-01T09:00:00Z"),
        *(({"handler": {"type": kind}}, f"/handler/{field}", part) for kind, field, part in (
            ("webhook", "url", "https"), ("command", "argv", '"program"'), ("container", "image", "registry"),
            ("python", "name", "demo.noop"),
        )),
    ],
)  # fmt: skip
def test_what_is_missing_is_shown_by_an_example(document: dict[str, Any], pointer: str, legal: str) -> None:
    assert legal in {error["pointer"]: error["legal"] for error in refused(document)}[pointer]


@pytest.mark.parametrize(
    "text",
    ["{{secrets.NAME}}", "{{ secret.NAME }}", "Bearer {{SECRET:NAME}}", "${{ secrets.NAME }}", "{{secret NAME}}"],
)
def test_what_only_looks_like_a_reference_does_not_go_out_as_it_is(text: str) -> None:
    (error,) = refused({"handler": {"type": "webhook", "url": URL, "headers": {"X-A": text}}})
    assert (error["pointer"], error["legal"]) == ("/handler/headers/X-A", "{{secret:NAME}}")


@pytest.mark.parametrize(
    "handler",
    [
        {"type": "webhook", "url": URL, "headers": {"Authorization": f"Bearer {SECRET}é"}},
        {"type": "webhook", "url": URL, "headers": [{"Authorization": SECRET}]},
        {"type": "webhook", "url": URL, "auth": {"password": SECRET}},
        {"type": "webhook", "url": f"https://user:{SECRET}@example.com/"},
        {"type": "webhook", "url": f"gopher://example.com/?token={SECRET}"},
        {"type": "command", "argv": ["x"], "environment": {"DB": [SECRET]}},
        {"type": "command", "argv": ["x"], "environment": [f"PASSWORD={SECRET}"]},
    ],
)
def test_a_refusal_repeats_no_credential(handler: dict[str, Any]) -> None:
    """It goes into the log of the program that has sent it."""
    assert SECRET not in str(refused({"handler": handler}))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "!!binary aGk=",
            "!!set {x}",
            "!!omap [a: 1]",
            "!!pairs [a: 1]",
            "!!timestamp 2026-03-01",
            "!!python/name:os",
        ),
        *("!!bool maybe", '!!int ""', '!!float ""', "!!int x", "!mine x"),
    ],
)
def test_yaml_holds_nothing_that_json_does_not(text: str) -> None:
    """Bytes, sets and moments were taken, and failed where they were to be stored or sent."""
    with pytest.raises(InvalidInputs):
        files.read(f"a: {text}")


def test_tags_that_say_what_is_there_are_read() -> None:
    text = 'a: !!str 1\nb: !!int "2"\nc: !!seq [x]\nd: !!map {e: !!bool true, f: !!float 1.5, g: !!null ""}'
    assert files.read(text) == {"a": "1", "b": 2, "c": ["x"], "d": {"e": True, "f": 1.5, "g": None}}
