"""The playground file: saving it makes workers run the new code; what is wrong with it is said."""

import json
from pathlib import Path

from apps.executions.states import Outcome
from apps.worker.runner import HandlerSources, RunResult
from tests.runner_tools import Watched, assignment, until, watched

HEAD = "from apps.worker.handlers import task_handler\nimport threading\n"
PLAIN = "@task_handler\ndef version(context):\n    return {0}\n"
THREAD = "@task_handler('playground.here', isolation='thread')\ndef here(context):\n    return {0}\n"
SLOW = "@task_handler\ndef slow(context):\n    threading.Event().wait(3)\n    return {0}\n"


def sources(path: Path) -> HandlerSources:
    return HandlerSources(installed_apps=False, modules=("tests.runner_handlers",), playground=str(path))


def write(path: Path, version: int) -> None:
    path.write_text(HEAD + "".join(part.format(version) for part in (PLAIN, THREAD, SLOW)))


def run_until(runner: Watched, name: str, accept: object) -> RunResult:
    """Run the handler again and again until its result or error text is what is awaited."""

    def ran() -> RunResult | None:
        (result,) = runner.run(assignment(name))
        shown = json.loads(result.result_json) if result.result_json else (result.error or {}).get("type")
        return result if shown == accept else None

    found = until(ran, f"{name} giving {accept}")
    assert isinstance(found, RunResult)
    return found


def test_saving_the_file_changes_what_runs_and_what_runs_finishes_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "tasks.py"
    write(path, 1)
    with watched(sources=sources(path)) as runner:
        first, here = runner.run(assignment("playground.version"), assignment("playground.here"))
        assert (first.result_json, here.result_json) == (b"1", b"1")
        slow = assignment("playground.slow")
        runner.runner.submit([slow])
        until(runner.runner.running, "the slow one's start")
        write(path, 2)
        run_until(runner, "playground.version", 2)
        run_until(runner, "playground.here", 2)
        result = runner.result_of(slow)
        assert (result.outcome, result.result_json) == (Outcome.SUCCEEDED, b"1")
        until(lambda: runner.runner.pool.size() <= 2, "the end of children of the old code")


def test_a_syntax_error_fails_only_its_handlers_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "tasks.py"
    write(path, 1)
    with watched(sources=sources(path)) as runner:
        run_until(runner, "playground.version", 1)
        path.write_text(HEAD + PLAIN.format(2) + "def broken(:\n")
        result = run_until(runner, "playground.version", "HandlerNotLoaded")
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error["permanent"] is False
        assert "playground.tasks could not be loaded" in result.error["message"]
        assert "SyntaxError" in result.error["message"]
        assert "def broken(:" in result.error["message"]
        (other,) = runner.run(assignment("t.noop"))
        assert other.outcome is Outcome.SUCCEEDED
        write(path, 3)
        run_until(runner, "playground.version", 3)


def test_a_file_that_appears_later_is_found(tmp_path: Path) -> None:
    path = tmp_path / "tasks.py"
    with watched(sources=sources(path)) as runner:
        (result,) = runner.run(assignment("playground.version"))
        assert result.error is not None
        assert result.error["type"] == "UnknownHandler"
        write(path, 1)
        run_until(runner, "playground.version", 1)


def test_each_file_of_a_folder_is_loaded_and_a_broken_one_leaves_the_others(tmp_path: Path) -> None:
    write(tmp_path / "tasks.py", 1)
    with watched(sources=sources(tmp_path)) as runner:
        run_until(runner, "playground.version", 1)
        (tmp_path / "greetings.py").write_text(HEAD + PLAIN.format(7))
        (tmp_path / "broken.py").write_text("def broken(:\n")
        run_until(runner, "greetings.version", 7)
        run_until(runner, "playground.version", 1)
        (result,) = runner.run(assignment("broken.version"))
        assert result.error is not None
        assert "playground.broken could not be loaded" in result.error["message"]
        (tmp_path / "greetings.py").unlink()
        run_until(runner, "greetings.version", "HandlerNotLoaded")


def test_a_file_whose_loading_kills_the_process_leaves_the_old_code(tmp_path: Path) -> None:
    path = tmp_path / "tasks.py"
    write(path, 1)
    with watched(sources=sources(path)) as runner:
        run_until(runner, "playground.version", 1)
        path.write_text("import os\nos._exit(3)\n")
        until(lambda: runner.runner.pool.code.failed_loads == 1, "the failed load")
        run_until(runner, "playground.version", 1)


def test_the_shipped_playground_and_installed_apps_load() -> None:
    path = Path(__file__).resolve().parent.parent / "playground" / "tasks.py"
    with watched(sources=HandlerSources(playground=str(path))) as runner:
        hello, picky, wait = runner.run(
            assignment("playground.hello", name="you"),
            assignment("playground.picky", amount=-1),
            assignment("playground.wait", seconds=0),
        )
        assert json.loads(hello.result_json or b"") == {"greeting": "hello you"}
        assert picky.error is not None
        assert picky.error["permanent"] is True
        assert wait.outcome is Outcome.SUCCEEDED
