"""How Python handlers end, and what is reported of it."""

import json
import os
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from apps.executions.failure import circuit_letter, classify
from apps.executions.states import Outcome
from tests.runner_tools import Assignment, Watched, assignment, lines, timed_out, until, watched


@pytest.fixture(scope="module")
def runner() -> Iterator[Watched]:
    with watched() as one:
        yield one


def test_success_and_context(runner: Watched) -> None:
    given = assignment("t.echo", attempt=2, n=1, word="ü")
    given.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    (result,) = runner.run(given)
    assert result.outcome is Outcome.SUCCEEDED
    assert result.error is None
    told = json.loads(result.result_json or b"")
    assert told.pop("pid") != os.getpid()
    assert told == {
        "execution_id": str(UUID(bytes=given.execution_id)),
        "attempt": 2,
        "token": given.token,
        "trace": given.traceparent,
        "key": given.idempotency_key,
        "scheduled_at": "2027-01-15T08:00:00.123456+00:00",
        "nominal_at": "2027-01-15T08:00:00+00:00",
        "parameters": {"n": 1, "word": "ü"},
    }
    assert result.started_at_us <= result.finished_at_us


def test_nothing_returned_is_no_result(runner: Watched) -> None:
    (result,) = runner.run(assignment("t.noop"))
    assert (result.outcome, result.result_json, result.error) == (Outcome.SUCCEEDED, None, None)


def test_name_defaults_to_module_and_function(runner: Watched) -> None:
    (result,) = runner.run(assignment("runner_handlers.by_default_name"))
    assert result.result_json == b'"found"'


def test_exception(runner: Watched) -> None:
    (result,) = runner.run(assignment("t.fail", message="amount 12,50\0"))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["type"] == "ValueError"
    assert result.error["message"] == "amount 12,50\N{REPLACEMENT CHARACTER}"
    assert result.error["permanent"] is False
    assert "in fail" in result.error["traceback"]
    assert "handlers/python.py" not in result.error["traceback"]
    assert "\0" not in result.error["traceback"]


def test_long_messages_are_cut(runner: Watched) -> None:
    (result,) = runner.run(assignment("t.fail", message="m" * 100_000))
    assert result.error is not None
    assert len(result.error["message"]) == 4096
    assert len(result.error["traceback"]) <= 16 * 1024


@pytest.mark.parametrize(
    ("handler", "parameters", "kind", "says"),
    [
        ("t.permanent", {}, "PermanentError", "never again"),
        ("t.only_x", {"y": 1}, "TypeError", "parameters do not fit"),
        ("t.return", {"size": 256 * 1024}, "ResultTooLarge", "result too large: 262146 bytes"),
        ("t.return", {"what": "nan"}, "ResultNotJson", "not JSON"),
        ("t.return", {"what": "object"}, "ResultNotJson", "not JSON"),
    ],
)
def test_permanent_failures(runner: Watched, handler: str, parameters: dict[str, Any], kind: str, says: str) -> None:
    (result,) = runner.run(assignment(handler, **parameters))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == (kind, True)
    assert says in result.error["message"]


def test_a_handler_that_this_worker_lacks_is_tried_again(runner: Watched) -> None:
    """During a deployment the next worker may know it."""
    (result,) = runner.run(assignment("t.echp"))
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == ("UnknownHandler", False)
    assert "close names: t.echo" in result.error["message"]
    assert circuit_letter(classify(result.outcome, result.error), result.error) == "", "nothing behind it was asked"


def test_parameters_that_are_no_object_fail_for_good(runner: Watched) -> None:
    given = assignment("t.noop")
    given.parameters_json = b"[1, 2]"
    (result,) = runner.run(given)
    assert result.error is not None
    assert result.error["permanent"] is True
    assert "must be a JSON object, not list" in result.error["message"]


def test_largest_result_passes(runner: Watched) -> None:
    (result,) = runner.run(assignment("t.return", size=256 * 1024 - 2))
    assert result.outcome is Outcome.SUCCEEDED
    assert len(result.result_json or b"") == 256 * 1024


def test_nul_and_surrogates_in_results_are_replaced(runner: Watched) -> None:
    nul, surrogate = runner.run(assignment("t.return", what="nul"), assignment("t.return", what="surrogate"))
    assert json.loads(nul.result_json or b"") == {"a\ufffdb": "c\ufffdd"}
    assert surrogate.result_json == b'"?"'


def test_system_exit_is_a_failure_not_a_crash(runner: Watched) -> None:
    (result,) = runner.run(assignment("t.leave"))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["type"] == "SystemExit"


def test_output_does_not_mix_with_the_protocol(runner: Watched, capfd: pytest.CaptureFixture[str]) -> None:
    results = runner.run(*(assignment("t.print") for _ in range(5)))
    assert {result.outcome for result in results} == {Outcome.SUCCEEDED}


def test_async_function_in_a_child(runner: Watched) -> None:
    (result,) = runner.run(assignment("t.coroutine_in_child"))
    assert int(result.result_json or b"0") not in (0, os.getpid())


def test_timeout_kills(runner: Watched, tmp_path) -> None:
    def sleeps(timeout: float) -> Assignment:
        return assignment("t.sleep", timeout=timeout, seconds=600, path=str(tmp_path / "pid"))

    result = timed_out(runner, sleeps, seconds=0.3, begun=lambda: lines(tmp_path / "pid"))
    assert result.error is not None
    assert f"timeout_seconds ({result.assignment.timeout_seconds:g} s)" in result.error["message"]
    assert 0.29e6 < result.finished_at_us - result.started_at_us
    (pid,) = lines(tmp_path / "pid")
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the child's end")


@pytest.mark.parametrize("session", [False, True])
def test_timeout_kills_what_the_handler_started(runner: Watched, tmp_path, session: bool) -> None:
    def family(timeout: float) -> Assignment:
        return assignment("t.family", timeout=timeout, path=str(tmp_path / "pid"), session=session)

    timed_out(runner, family, seconds=1.0, begun=lambda: lines(tmp_path / "pid"))
    (pid,) = lines(tmp_path / "pid")
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the grandchild's end")


def test_thread_isolation(runner: Watched) -> None:
    ok, late = runner.run(assignment("t.thread"), assignment("t.thread", timeout=0.2, seconds=20))
    assert json.loads(ok.result_json or b"") == {"pid": os.getpid(), "thread": "handler t.thread"}
    assert late.outcome is Outcome.TIMED_OUT
    assert late.error is not None
    assert "abandoned" in late.error["message"]
    assert runner.runner.inline.abandoned >= 1


def test_a_thread_that_cannot_be_stopped_keeps_its_slot_until_it_ends() -> None:
    with watched(slots=1) as one:
        (late,) = one.run(assignment("t.thread", timeout=0.2, seconds=1.5))
        assert late.outcome is Outcome.TIMED_OUT
        assert one.runner.free() == 0
        (behind,) = one.run(assignment("t.noop"))
        assert behind.outcome is Outcome.SUCCEEDED
        assert behind.started_at_us - late.started_at_us > 1_400_000
        until(lambda: one.runner.free() == 1, "the slot")


def test_async_isolation(runner: Watched, tmp_path) -> None:
    path = tmp_path / "said"
    ok, late = runner.run(assignment("t.async"), assignment("t.async", timeout=0.2, seconds=600, path=str(path)))
    assert json.loads(ok.result_json or b"") == {"pid": os.getpid()}
    assert late.outcome is Outcome.TIMED_OUT
    assert lines(path) == ["begun", "cancelled"]


def test_a_coroutine_that_blocks_the_loop_is_abandoned_and_others_run(runner: Watched) -> None:
    (late,) = runner.run(assignment("t.async_stubborn", timeout=0.1))
    assert late.outcome is Outcome.TIMED_OUT
    (ok,) = runner.run(assignment("t.async"))
    assert ok.outcome is Outcome.SUCCEEDED
