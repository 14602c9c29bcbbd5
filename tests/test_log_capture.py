"""What handlers of every kind print comes into their attempt's log, and into no other."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from apps.executions.states import Outcome
from apps.logs.records import STDOUT, Batch, Position
from apps.logs.transport import make_source
from apps.quickstart.services import ServiceAddresses
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.jobs import Assignment
from tests.log_tools import Logs, logs_on, shard_bytes, texts
from tests.runner_tools import PYTHON, Watched, assignment, until, watched
from tests.waiting import eventually


@pytest.fixture
def logs(services: ServiceAddresses, redis_prefix: str) -> Iterator[Logs]:
    with logs_on(services, redis_prefix) as made:
        yield made


@pytest.fixture
def runner(logs: Logs) -> Iterator[Watched]:
    policy = CommandPolicy(root_allowed=True)
    with watched(desk=logs.desk(hidden=["worker-own-secret"]), commands=policy) as one:
        yield one


@pytest.mark.parametrize("kind", ["", "_thread", "_async"])
def test_what_python_handlers_print_is_theirs_alone(runner: Watched, logs: Logs, kind: str) -> None:
    given = [assignment(f"t.out{kind}", words=f"attempt {n}", times=3) for n in range(4)]
    quiet = [assignment("t.noop") for _ in range(4)]
    runner.run(*given, *quiet)
    for n, one in enumerate(given):
        lines = logs.of(one)
        assert texts(lines, "stdout")[:3] == [f"attempt {n} {time}" for time in range(3)]
        assert {line["attempt"] for line in lines} == {1}
        assert lines == sorted(lines, key=lambda line: line["seq"])
        if kind == "":
            assert texts(lines, "stderr") == [f"attempt {n} on stderr"]
        else:
            [said] = [line for line in lines if line["stream"] == "log"]
            assert said["fields"] == {"words": f"attempt {n}"}
        if kind == "_async":
            assert f"attempt {n} from another thread" in texts(lines)
    assert not [one for one in quiet if logs.waiting(one.execution_id)]


def test_what_goes_round_python_is_caught_too(runner: Watched, logs: Logs) -> None:
    """One after the other in the same children: nothing of one is found with the next."""
    given = [assignment("t.out_raw", words=f"attempt {n}", seconds=0.05 * (n % 2)) for n in range(12)]
    runner.run(*given)
    for n, one in enumerate(given):
        lines = logs.of(one)
        assert texts(lines, "stdout") == [f"attempt {n} raw", f"attempt {n} program"]
        assert texts(lines, "stderr") == [f"attempt {n} program error"]


def test_a_fork_and_the_logging_module_are_caught(runner: Watched, logs: Logs) -> None:
    given = assignment("t.out_fork", words="mine")
    runner.run(given)
    lines = logs.of(given)
    assert texts(lines, "stdout") == ["mine fork"]
    assert any("mine logging" in text for text in texts(lines, "stderr"))


def test_lines_are_seen_while_the_attempt_runs_and_survive_its_kill(runner: Watched, logs: Logs) -> None:
    given = assignment("t.out_pieces", pieces=["first\nsec", "ond\n", "begun"], then="hang", timeout=600)
    runner.runner.submit([given])
    eventually(lambda: texts(logs.lines(given.execution_id)) == ["first", "second"])
    assert not logs.has_ended(given.execution_id)
    runner.runner.cancel(given.execution_id)
    assert runner.result_of(given).outcome is Outcome.CANCELLED
    assert texts(logs.of(given)) == ["first", "second", "begun"]
    dying = assignment("t.out_pieces", pieces=["last words\n", "and more"], then="die")
    [result] = runner.run(dying)
    assert result.outcome is Outcome.CRASHED
    assert texts(logs.of(dying)) == ["last words", "and more"]


def test_a_thread_that_outlives_its_attempt_speaks_in_nobodys_log(runner: Watched, logs: Logs) -> None:
    leaving = assignment("t.leave_a_thread", words="ghost")
    runner.run(leaving)
    others = [assignment("t.out", words="mine", times=1) for _ in range(20)]
    for one in others:
        runner.run(one)
    assert all("ghost" in text for text in texts(logs.of(leaving)))
    for one in others:
        assert not [text for text in texts(logs.of(one)) if "ghost" in text]


def test_records_are_structured_and_masked(runner: Watched, logs: Logs) -> None:
    given = assignment("t.out_log", secret="parameter-secret")
    runner.run(given)
    first, second = logs.of(given)
    assert (first["text"], first["level"], first["fields"]) == ("of two\nlines", "info", {"rows": 3, "secret": "***"})
    assert second["fields"] == {"nested": {"secret": ["***", 12.5]}}


def test_secrets_of_the_task_and_of_the_worker_do_not_leave_it(runner: Watched, logs: Logs) -> None:
    program = "import os,sys; print(os.environ['API_KEY'], 'worker-own-secret'); print(os.environ['REGION'])"
    handler = {
        "type": "command",
        "argv": [PYTHON, "-c", program],
        "environment": {"API_KEY": "of-the-task", "REGION": "europe"},
    }
    given = assignment(handler)
    [result] = runner.run(given)
    assert texts(logs.of(given)) == ["*** ***", "europe"]
    assert result.outcome is Outcome.SUCCEEDED
    assert b"of-the-task" not in (result.result_json or b"")


def test_commands_speak_on_both_streams_and_are_heard_at_once(runner: Watched, logs: Logs) -> None:
    program = "import sys,time; print('out', flush=True); print('err', file=sys.stderr, flush=True); time.sleep(600)"
    given = assignment({"type": "command", "argv": [PYTHON, "-c", program]}, timeout=600)
    runner.runner.submit([given])
    eventually(lambda: len(logs.lines(given.execution_id)) == 2)
    assert {(line["stream"], line["text"]) for line in logs.lines(given.execution_id)} == {
        ("stdout", "out"), ("stderr", "err"),
    }  # fmt: skip
    runner.runner.cancel(given.execution_id)
    runner.result_of(given)
    assert len(logs.of(given)) == 2


def test_much_is_whole_and_bounded(runner: Watched, logs: Logs, redis_client: redis.Redis, redis_prefix: str) -> None:
    given = assignment("t.out_much", lines=20_000)
    runner.run(given)
    lines = logs.of(given, seconds=30)
    assert [int(text.split()[0]) for text in texts(lines, "stdout")] == list(range(20_000))
    assert shard_bytes(redis_client, redis_prefix) < 8 << 20


# ---- want of room -------------------------------------------------------------------------------------------------


def test_a_full_transport_holds_up_who_prints_and_then_lines_are_dropped_with_a_mark(
    services: ServiceAddresses, redis_prefix: str, redis_client: redis.Redis
) -> None:
    small: dict[str, Any] = {"log_shard_mib": 1, "log_buffer_mib": 0.25, "log_block_seconds": 0.5}
    with logs_on(services, redis_prefix, **small) as logs:
        desk = logs.desk()
        with watched(desk=desk, commands=CommandPolicy(root_allowed=True)) as runner:
            program = "for n in range(60000): print(n, 'x' * 60)"
            python = assignment("t.out_much", lines=60_000)
            command = assignment({"type": "command", "argv": [PYTHON, "-c", program]})
            for one in (python, command):
                runner.run(one)
                # Nobody ships: the transport takes no more than its limit, and the worker not much more.
                assert shard_bytes(redis_client, redis_prefix) <= 2 << 20
                assert desk.buffered <= (1 << 18) + 2 * (1 << 18)
            for one in (python, command):
                lines = _shipped(logs, one)
                shown = [int(text.split()[0]) for text in texts(lines, "stdout")]
                missing = [int(t.split()[1].replace(",", "")) for t in texts(lines, "system")]
                assert missing
                assert shown == sorted(shown)
                assert abs(len(shown) + sum(missing) - 60_000) <= len(missing) + 1
                assert "were dropped here" in texts(lines, "system")[0]


def _shipped(logs: Logs, given: Assignment) -> list[dict[str, Any]]:
    """Take lines out of the transport, as the shipper does, until the end has come."""
    source = make_source(logs.addresses, logs.config)
    found: list[Batch] = []

    def take() -> bool:
        loads = source.take()
        found.extend(batch for load in loads if load.execution == given.execution_id for batch in load.batches)
        source.settle([(load, load.batches[-1] if load.execution == given.execution_id else None) for load in loads])
        return bool(found) and found[-1].ended

    eventually(take)
    source.close()
    lines = [json.loads(line) for batch in found for _, line in batch.numbered()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    return lines


def test_one_that_writes_too_much_holds_up_nobody_else(services: ServiceAddresses, redis_prefix: str) -> None:
    with logs_on(services, redis_prefix, log_shard_mib=1, log_buffer_mib=1) as logs:
        desk = logs.desk()
        loud, quiet = assignment("t.noop"), assignment("t.noop")
        quiet.execution_id = bytes(15) + bytes([(loud.execution_id[15] + 1) % 256])
        first, second = desk.open(loud), desk.open(quiet)
        while first.write(STDOUT, 1, b"x" * 999 + b"\n"):
            pass
        until(lambda: not first.write(STDOUT, 1, b"x" * 999 + b"\n"), "a full buffer")
        assert second.write(STDOUT, 1, b"heard\n")
        second.end()
        assert texts(logs.of(quiet)) == ["heard"]


def test_what_an_older_attempt_says_behind_a_newer_one_is_refused(logs: Logs) -> None:
    old, new = assignment("t.noop"), assignment("t.noop", attempt=2)
    new.execution_id, new.token = old.execution_id, old.token + 5
    desk = logs.desk()
    zombie, owner = desk.open(old), desk.open(new)
    zombie.write(STDOUT, 1, b"before\n")
    eventually(lambda: texts(logs.lines(old.execution_id)) == ["before"])
    owner.write(STDOUT, 2, b"mine\n")
    eventually(lambda: texts(logs.lines(old.execution_id)) == ["before", "mine"])
    zombie.write(STDOUT, 3, b"behind\n")
    zombie.end()
    owner.write(STDOUT, 4, b"mine, too\n")
    owner.end()
    eventually(lambda: logs.has_ended(old.execution_id))
    assert texts(logs.lines(old.execution_id)) == ["before", "mine", "mine, too"]
    assert logs.waiting(old.execution_id)[-1].position == Position(new.token, 2)


def test_a_desk_that_stops_hands_over_what_it_has(logs: Logs) -> None:
    desk = logs.desk()
    given = assignment("t.noop")
    log = desk.open(given)
    for number in range(1000):
        log.write(STDOUT, number, f"{number}\n".encode())
    log.end()
    assert desk.stop(10)
    assert len(logs.of(given)) == 1000
