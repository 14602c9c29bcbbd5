"""What handlers say while they run, and what they are told: progress, checkpoints, being asked to stop, silence."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from apps.executions.states import Outcome
from apps.worker.handlers.context import CHECKPOINT_BYTES
from apps.worker.jobs import Answer, Assignment
from apps.worker.sayings import EVERY_SECONDS
from tests.runner_tools import WAIT_SECONDS, Watched, assignment, lines, until, watched

KINDS = ("", "_thread", "_async")
"""Isolations: suffixes of the handlers' names."""


class Notes:
    """Takes down what is said. refuse: what every checkpoint is answered; hold: leave them unanswered."""

    def __init__(self) -> None:
        self.said: list[tuple[float, bytes, float, float | None]] = []
        self.kept: dict[bytes, list[Any]] = {}
        self.refuse: str | None = None
        self.hold = False
        self.waiting: list[Answer] = []

    def progressed(self, said: list[tuple[Assignment, float, float | None]]) -> None:
        self.said += [(time.monotonic(), a.execution_id, done, total) for a, done, total in said]

    def keep(self, given: Assignment, text: bytes, answer: Answer) -> None:
        if self.hold:
            self.waiting.append(answer)
            return
        if self.refuse is None:
            self.kept.setdefault(given.execution_id, []).append(json.loads(text))
        # As the recorder does: from another thread.
        threading.Thread(target=answer, args=(self.refuse,)).start()

    def of(self, given: Assignment) -> list[tuple[float, float | None]]:
        return [(done, total) for _, identity, done, total in self.said if identity == given.execution_id]


@contextmanager
def speaking(**options: Any) -> Iterator[tuple[Watched, Notes]]:
    notes = Notes()
    with watched(notes=notes, **options) as runner:
        yield runner, notes


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Watched, Notes]]:
    with speaking(cancel_grace_seconds=WAIT_SECONDS) as made:
        yield made


# ---- progress and checkpoints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "_coroutine"])
def test_a_checkpoint_is_kept_when_the_call_returns_and_an_earlier_one_is_handed_over(
    pair: tuple[Watched, Notes], tmp_path: Path, kind: str
) -> None:
    runner, notes = pair
    data = {"row": 7, "word": "ü\0", "big": "x" * 200_000}
    given = assignment(f"t.talk{kind}", path=str(tmp_path / "said"), data=data)
    given.checkpoint_json = b'{"row": 3}'
    (result,) = runner.run(given)
    assert result.result_json == b'"kept"', result.error
    assert notes.kept[given.execution_id] == [data]
    assert lines(tmp_path / "said") == ["left {'row': 3}"]


@pytest.mark.parametrize("kind", [*KINDS, "_coroutine"])
def test_a_refused_checkpoint_raises_in_the_handler(pair: tuple[Watched, Notes], tmp_path: Path, kind: str) -> None:
    runner, notes = pair
    notes.refuse = "another worker has it"
    try:
        (result,) = runner.run(assignment(f"t.talk{kind}", path=str(tmp_path / "said"), data=1))
    finally:
        notes.refuse = None
    assert result.result_json == b'"LeaseLost: another worker has it"', result.error


@pytest.mark.parametrize(
    ("data", "says"),
    [("x" * CHECKPOINT_BYTES, "too large: 262146 bytes"), ("\ud800", "lone surrogate")],
)
def test_what_cannot_be_kept_is_refused_at_once(
    pair: tuple[Watched, Notes], tmp_path: Path, data: Any, says: str
) -> None:
    runner, notes = pair
    given = assignment("t.talk", path=str(tmp_path / "said"), data=data)
    (result,) = runner.run(given)
    assert "ValueError" in (result.result_json or b"").decode()
    assert says in (result.result_json or b"").decode()
    assert given.execution_id not in notes.kept


@pytest.mark.parametrize("kind", KINDS)
def test_the_call_does_not_return_before_the_answer(tmp_path: Path, kind: str) -> None:
    with speaking() as (runner, notes):
        notes.hold = True
        given = assignment(f"t.talk{kind}", path=str(tmp_path / "said"), data=1)
        runner.runner.submit([given])
        until(lambda: notes.waiting, "the checkpoint")
        assert runner.results == []
        notes.waiting.pop()(None)
        assert runner.result_of(given).result_json == b'"kept"'


def test_progress_is_passed_on_twice_a_second_at_most_and_the_last_word_counts() -> None:
    with speaking() as (runner, notes):
        given = assignment("t.chatter", words=200_000)
        began = time.monotonic()
        runner.run(given)
        took = time.monotonic() - began
        assert notes.of(given)[-1] == (200_000, 200_000)
        # Counted, for a busy machine may hear one late and the next in time.
        assert len(notes.of(given)) <= took / EVERY_SECONDS + 2


def test_what_outlives_its_attempt_is_not_heard(pair: tuple[Watched, Notes], tmp_path: Path) -> None:
    runner, notes = pair
    given = assignment("t.late", path=str(tmp_path / "said"))
    runner.run(given)
    # The next job of the child ends the main thread's wait for one.
    until(lambda: runner.run(assignment("t.noop")) and lines(tmp_path / "said"), "the refusal")
    assert "the attempt has ended" in lines(tmp_path / "said")[0]
    assert given.execution_id not in notes.kept


def test_log_lines_carry_the_ids_of_the_attempt(capfd: pytest.CaptureFixture[str]) -> None:
    given = assignment("t.log", attempt=2)
    with watched() as runner:
        runner.run(given)
    told = [json.loads(line) for line in capfd.readouterr().err.splitlines() if '"handler.log"' in line]
    assert [(line["level"], line["message"], line.get("fields")) for line in told] == [
        ("info", "plain", {"rows": 3}),
        ("warning", "careful", None),
    ]
    assert {line["execution"].replace("-", "") for line in told} == {given.execution_id.hex()}
    assert {(line["tenant"], line["task"], line["attempt"]) for line in told} == {("acme", "a task", 2)}


# ---- being asked to stop ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancel_asks_first_and_an_obedient_handler_leaves_a_checkpoint(
    pair: tuple[Watched, Notes], tmp_path: Path, kind: str
) -> None:
    runner, notes = pair
    given = assignment(f"t.last_words{kind}", path=str(tmp_path / "said"))
    runner.runner.submit([given])
    until(lambda: lines(tmp_path / "said"), "its start")
    runner.runner.cancel(given.execution_id)
    runner.runner.cancel(given.execution_id)
    result = runner.result_of(given)
    assert result.outcome is Outcome.CANCELLED
    assert lines(tmp_path / "said") == ["began", "asked"]
    assert notes.kept[given.execution_id] == [{"at": "last"}]


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_looks_and_does_not_obey_is_killed_after_the_grace(tmp_path: Path, kind: str) -> None:
    with speaking(cancel_grace_seconds=0.5) as (runner, _):
        given = assignment(f"t.last_words{kind}", path=str(tmp_path / "said"), obey=False)
        runner.runner.submit([given])
        until(lambda: lines(tmp_path / "said"), "its start")
        began = time.monotonic()
        runner.runner.cancel(given.execution_id)
        assert runner.result_of(given).outcome is Outcome.CANCELLED
        assert time.monotonic() - began >= 0.5


def test_one_that_does_not_look_is_killed_at_once() -> None:
    with speaking(cancel_grace_seconds=25.0) as (runner, _):
        given = assignment("t.sleep", seconds=600)
        runner.runner.submit([given])
        until(runner.runner.running, "its start")
        runner.runner.cancel(given.execution_id)
        assert runner.result_of(given).outcome is Outcome.CANCELLED


def test_interrupting_oneself_unasked_is_a_failure(pair: tuple[Watched, Notes]) -> None:
    (result,) = pair[0].run(assignment("t.interrupted"))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert "nobody had asked" in result.error["message"]


# ---- drains -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_drain_asks_what_has_left_a_checkpoint_at_once_and_hands_it_back(tmp_path: Path, kind: str) -> None:
    with speaking() as (runner, notes):
        given = assignment(f"t.last_words{kind}", path=str(tmp_path / "said"), checkpoint=True)
        short = assignment("t.sleep", seconds=0.5)
        runner.runner.submit([given, short])
        until(lambda: lines(tmp_path / "said"), "its start")
        assert [one.execution_id for one in runner.runner.drain(600)] == [given.execution_id]
        assert notes.kept[given.execution_id] == [{"at": "first"}, {"at": "last"}]
        assert [(r.assignment, r.outcome) for r in runner.results] == [(short, Outcome.SUCCEEDED)]


def test_a_drain_asks_what_has_run_for_long_at_once(tmp_path: Path) -> None:
    with speaking(long_seconds=0.2) as (runner, notes):
        given = assignment("t.last_words", path=str(tmp_path / "said"))
        runner.runner.submit([given])
        until(lambda: lines(tmp_path / "said"), "its start")
        pause = threading.Event()
        pause.wait(0.3)  # the time is what is under test: it has then run for long
        assert [one.execution_id for one in runner.runner.drain(60)] == [given.execution_id]
        assert notes.kept[given.execution_id] == [{"at": "last"}]


def test_all_others_are_asked_before_the_end_of_the_grace(tmp_path: Path) -> None:
    with speaking(cancel_grace_seconds=60.0) as (runner, notes):
        given = assignment("t.last_words", path=str(tmp_path / "said"))
        runner.runner.submit([given])
        until(lambda: lines(tmp_path / "said"), "its start")
        began = time.monotonic()
        assert [one.execution_id for one in runner.runner.drain(6.0)] == [given.execution_id]
        assert time.monotonic() - began >= 3.0, "half of it"
        assert notes.kept[given.execution_id] == [{"at": "last"}]


def test_what_is_handed_back_is_told_while_the_rest_still_ends(tmp_path: Path) -> None:
    with speaking() as (runner, _):
        given = assignment("t.last_words", path=str(tmp_path / "said"), checkpoint=True)
        slow = assignment("t.until", path=str(tmp_path / "back"))
        runner.runner.submit([given, slow])
        until(lambda: lines(tmp_path / "said"), "its start")
        back: list[bytes] = []

        def give_back(ended: list[Assignment]) -> None:
            back.extend(one.execution_id for one in ended)
            (tmp_path / "back").touch()

        runner.runner.drain(600, give_back=give_back)
        assert back == [given.execution_id]
        assert runner.result_of(slow).outcome is Outcome.SUCCEEDED, "it ended later"


def test_a_hurry_ends_the_grace(tmp_path: Path) -> None:
    with speaking() as (runner, _):
        given = assignment("t.sleep", seconds=600)
        runner.runner.submit([given])
        until(runner.runner.running, "its start")
        hurry = threading.Event()
        threading.Timer(0.3, hurry.set).start()
        assert runner.runner.drain(600, hurry=hurry) == [given]


# ---- silence and limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_spoken_and_falls_silent_times_out(kind: str) -> None:
    with speaking() as (runner, _):
        given = assignment(f"t.fall_silent{kind}", timeout=600)
        given.heartbeat_seconds = 0.3
        (result,) = runner.run(given)
        assert result.outcome is Outcome.TIMED_OUT
        assert result.error is not None
        assert result.error["type"] == "HeartbeatTimeout"
        assert "heartbeat_seconds (0.3 s)" in result.error["message"]


def test_each_word_begins_the_silence_anew_and_what_never_spoke_is_not_silent() -> None:
    with speaking() as (runner, _):
        talks, mute = assignment("t.fall_silent", words=20), assignment("t.sleep", seconds=2.5)
        talks.heartbeat_seconds = mute.heartbeat_seconds = 1.5
        first, second = runner.run(talks, mute)
        assert first.outcome is Outcome.TIMED_OUT
        assert first.finished_at_us - first.started_at_us > 3_000_000
        assert second.outcome is Outcome.SUCCEEDED


def test_waiting_for_the_ledger_is_not_silence(tmp_path: Path) -> None:
    with speaking() as (runner, notes):
        notes.hold = True
        given = assignment("t.talk", path=str(tmp_path / "said"), data=1)
        given.heartbeat_seconds = 1.0
        runner.runner.submit([given])
        until(lambda: notes.waiting, "the checkpoint")
        threading.Event().wait(1.5)  # longer than the limit
        notes.waiting.pop()(None)
        assert runner.result_of(given).outcome is Outcome.SUCCEEDED


def test_the_limit_of_all_attempts_is_final(pair: tuple[Watched, Notes]) -> None:
    given = assignment("t.sleep", seconds=600, timeout=0.3)
    given.total_seconds, given.total_is_nearer = 9.0, True
    (result,) = pair[0].run(given)
    assert result.outcome is Outcome.TIMED_OUT
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == ("TotalTimeout", True)
    assert "total_seconds (9 s)" in result.error["message"]


def test_an_attempt_with_no_time_left_does_not_begin(pair: tuple[Watched, Notes], tmp_path: Path) -> None:
    given = assignment("t.note", path=str(tmp_path / "said"), text="ran", timeout=-0.1)
    given.total_seconds, given.total_is_nearer = 9.0, True
    (result,) = pair[0].run(given)
    assert (result.outcome, (result.error or {})["type"]) == (Outcome.TIMED_OUT, "TotalTimeout")
    assert lines(tmp_path / "said") == []
