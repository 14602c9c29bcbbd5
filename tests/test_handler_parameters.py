"""Parameters are checked by the handler's signature when a task is defined, where the handler is known."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from apps.executions.handler_signatures import misfits
from apps.worker.handlers import known
from apps.worker.handlers.registry import unknown_handler, with_context
from tests.factories import Api, document, make_api, pointers, problem

INVOICE = {"type": "python", "name": "demo.invoice"}


@pytest.fixture
def api(db: None) -> Api:
    return make_api()


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [
        ({"number": "1"}, {"/parameters/amount"}),
        ({}, {"/parameters/number", "/parameters/amount"}),
        ({"number": "1", "amount": "2", "vat": 3}, {"/parameters/vat"}),
        ({"number": "1", "amout": "2"}, {"/parameters/amout", "/parameters/amount"}),
        ({"number": "1", "amount": "2", "context": 1}, {"/parameters/context"}),
        ({"number": "1", "amount": "2", "a/b~c": 1}, {"/parameters/a~1b~0c"}),
    ],
)
def test_what_does_not_fit_is_pointed_at(api: Api, parameters: dict[str, Any], wrong: set[str]) -> None:
    body = problem(api.post("/tasks", document(handler=INVOICE, parameters=parameters)), 422)
    assert pointers(body) == wrong
    assert {error["legal"] for error in body["errors"]} == {"number, amount"}


def test_what_fits_is_taken_without_a_warning(api: Api) -> None:
    answer = api.post("/tasks", document(handler=INVOICE, parameters={"number": "1", "amount": "2"}))
    assert (answer.status_code, answer.json()["warnings"]) == (201, [])
    anything = api.post("/tasks", document(parameters={"what": "ever"}))
    assert anything.status_code == 201, "demo.noop takes whatever it is given"


def test_an_unknown_handler_is_taken_with_a_warning(api: Api) -> None:
    handler = {"type": "python", "name": "elsewhere.hello"}
    answer = api.post("/tasks", document(handler=handler, parameters={"nam": 1}))
    assert answer.status_code == 201
    [warning] = answer.json()["warnings"]
    assert warning["pointer"] == "/handler/name"
    assert "'elsewhere.hello' is not known here" in warning["detail"]


def test_an_edit_is_checked_only_where_it_changes_what_runs(api: Api) -> None:
    task = api.post("/tasks", document(handler=INVOICE, parameters={"number": "1", "amount": "2"})).json()
    path = f"/tasks/{task['id']}"
    assert pointers(problem(api.call("patch", path, {"parameters": {}}), 422)) == {
        "/parameters/number",
        "/parameters/amount",
    }
    handler = {"type": "python", "name": "demo.flaky"}
    assert pointers(problem(api.call("patch", path, {"handler": handler}), 422)) == {
        "/parameters/number",
        "/parameters/amount",
    }
    assert api.call("patch", path, {"handler": handler, "parameters": {}}).status_code == 200


def optional(context: Any, a: int, *, b: int, c: int = 3) -> None: ...
def anything(context: Any, a: int, **more: Any) -> None: ...
def nothing(context: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameters", "wrong", "legal"),
    [
        (optional, {"a": 1, "b": 2}, [], ""),
        (optional, {"b": 2, "d": 4}, ["/d", "/a"], "a, b, c"),
        (anything, {"z": 1}, ["/a"], "a, any other"),
        (anything, {"a": 1, "z": 1}, [], ""),
        (nothing, {"a": 1}, ["/a"], "no parameters"),
    ],
)
def test_signatures(function: Any, parameters: dict[str, Any], wrong: list[str], legal: str) -> None:
    found = misfits(inspect.signature(function), parameters)
    assert [error.pointer for error in found] == wrong
    assert all(error.legal == legal for error in found)


def plain(name: str, times: int = 1) -> str:
    return name * times


async def later(*, name: str) -> str:
    return name


def test_a_function_that_takes_no_context_is_called_without_one() -> None:
    assert with_context(optional) is optional
    made: list[Any] = [with_context(plain), with_context(later)]
    assert made[0](object(), name="a", times=2) == "aa"
    assert misfits(inspect.signature(made[0]), {"times": 2})[0].pointer == "/name"
    assert asyncio.run(made[1](object(), name="b")) == "b"


def test_a_module_that_does_not_load_is_named_before_handlers_that_are_called_alike() -> None:
    error = unknown_handler("mine.greet", ["mine.greets"], {"playground.mine": "ImportError: x", "other": "y"})
    assert error["message"].startswith("playground.mine could not be loaded: ImportError: x\nno handler is called")
    assert error["message"].endswith("other could not be loaded: y")


def test_the_playground_is_read_without_being_run(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was saved counts at once; one that is broken says where, and leaves the others."""
    monkeypatch.setattr(known, "playground_folder", lambda: tmp_path)
    file = tmp_path / "greetings.py"
    file.write_text("raise SystemExit\n@task_handler\ndef hi(context, *, name: str, loud=False):\n    'Greets.'\n")
    (tmp_path / "tasks.py").write_text("@x.task_handler('a.b', isolation='async')\nasync def f(context, **more): ...\n")
    (tmp_path / "_other.py").write_text("@task_handler\ndef hidden(context): ...\n")
    found = {one.name: one for one in known.listed() if one.file}
    assert list(found) == ["a.b", "greetings.hi"]
    assert (found["greetings.hi"].doc, found["greetings.hi"].file) == ("Greets.", "playground/greetings.py")
    assert str(found["greetings.hi"].signature) == "(context, *, name: str, loud=False)"
    handler = {"type": "python", "name": "greetings.hi"}
    answer = problem(api.post("/tasks", document(handler=handler, parameters={"nam": "you"})), 422)
    assert pointers(answer) == {"/parameters/nam", "/parameters/name"}
    assert api.post("/tasks", document(handler=handler, parameters={"name": "you"})).json()["warnings"] == []
    file.write_text("def hi(:\n")
    assert known.broken() == {"playground/greetings.py": "line 1: invalid syntax"}
    assert [one.name for one in known.listed() if one.file] == ["a.b"]
    file.write_text("from chronoweb import task_handler\n@task_handler\ndef hi(name: str, times=1): ...\n")
    assert known.broken() == {
        "playground/greetings.py": "line 1: chronoweb has no task_handler; write: "
        "from apps.worker.handlers import task_handler"
    }
    read = {one.name: str(one.signature) for one in known.listed() if one.file}
    assert read["greetings.hi"] == "(_context, /, name: str, times=1)"
    assert known.bare() == []
    (tmp_path / "forgotten.py").write_text("def greet(name): ...\n")
    assert known.bare() == ["playground/forgotten.py"], "its author learns why the form does not offer it"
    assert not {"chaos.effect", "bench.record"} & {one.name for one in known.listed()}
