"""What may be typed after `ctl`, and its help."""

from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from apps.ctl import dags, dead_letters, executions, fleet, tasks
from apps.ctl.client import Client
from apps.ctl.errors import MEANINGS
from apps.ctl.output import FORMATS, Output

URL_VARIABLE, KEY_VARIABLE = "CHRONOWEB_URL", "CHRONOWEB_API_KEY"
DEFAULT_LIMIT = 50
MOST = 100_000

DESCRIPTION = f"""\
Speaks to a chronoweb server over its API. It needs the server's address and an API key, and no database:

  export {URL_VARIABLE}=https://chronoweb.example.com
  export {KEY_VARIABLE}=…            # or --key-file FILE; keys in arguments are seen by every user of the machine
"""
EPILOG = f"""\
examples:
  ctl whoami
  ctl tasks apply -f nightly.yaml
  ctl tasks trigger nightly-report -p day=2026-03-01 --wait 600
  ctl runs list --status running,retrying
  ctl runs explain 01890a5d-ac96-774b-bcce-b302099a8057
  ctl runs logs --follow 01890a5d-ac96-774b-bcce-b302099a8057
  ctl dags apply -f pipeline.yaml --dry-run
  ctl dlq retry-all --task nightly-report
  ctl -o json tasks list | jq '.[].name'

ends with:
{chr(10).join(f"  {code:d}  {meaning}" for code, meaning in MEANINGS.items())}
"""


def parser() -> ArgumentParser:
    """`act` of what it parses is the function to call with the client, the options and the output."""
    top = ArgumentParser(
        prog="ctl", description=DESCRIPTION, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    _common(top)
    top.set_defaults(url=None, key_file=None, key=None, output="table")
    groups = top.add_subparsers(metavar="WHAT", required=True)
    _tasks(_group(groups, "tasks", "definitions of work"))
    _executions(_group(groups, "runs", "executions of tasks", aliases=["executions"]))
    _dags(_group(groups, "dags", "workflows and their runs"))
    _dead_letters(_group(groups, "dlq", "dead letters: what ran out of attempts"))
    workers = _verb(groups, "workers", "who runs the work", fleet.workers)
    workers.add_argument("verb", nargs="?", choices=["list"], help="may be left out")
    drain = _verb(groups, "drain", "have a worker take nothing more, end what it runs, and leave", fleet.drain)
    drain.add_argument("worker", metavar="WORKER", type=int, help="its number")
    _verb(groups, "whoami", "whose key this is", fleet.whoami)
    return top


def _common(to: ArgumentParser) -> ArgumentParser:
    """What may stand before and behind the verb; without a default, or the verb's would undo what stood before it."""
    to.add_argument("--url", default=SUPPRESS, help=f"address of the server (default: ${URL_VARIABLE})")
    to.add_argument(
        "--key-file", metavar="FILE", default=SUPPRESS, help=f"file with the API key (default: ${KEY_VARIABLE})"
    )
    to.add_argument("--key", default=SUPPRESS, help="the API key itself; everybody on the machine can read it here")
    to.add_argument("-o", "--output", choices=FORMATS, default=SUPPRESS, help="default: table")
    return to


_COMMON = _common(ArgumentParser(add_help=False))


def _identity(text: str) -> str:
    return str(UUID(text))


_identity.__name__ = "id"  # what argparse calls it when it is none


def _group(groups: Any, name: str, words: str, aliases: Sequence[str] = ()) -> Any:
    group = groups.add_parser(name, help=words, description=words, aliases=aliases)
    return group.add_subparsers(metavar="VERB", required=True)


def _verb(verbs: Any, name: str, words: str, act: Callable[[Client, Namespace, Output], None]) -> ArgumentParser:
    verb: ArgumentParser = verbs.add_parser(name, help=words, description=words, parents=[_COMMON])
    verb.set_defaults(act=act)
    return verb


def _tasks(verbs: Any) -> None:
    _filters(_verb(verbs, "list", "list tasks, newest first", tasks.list_))
    _verb(verbs, "show", "show one, by name or id", tasks.show).add_argument("task", metavar="TASK")
    create = _verb(verbs, "create", "create what a file (YAML or JSON) describes", tasks.create)
    apply = _verb(verbs, "apply", "create or edit, by name, what a file describes", tasks.apply)
    apply.add_argument("--dry-run", action="store_true", help="only show what would change")
    for verb in (create, apply):
        verb.add_argument("-f", "--file", metavar="FILE", required=True, help="- is standard input")
    pause = _verb(verbs, "pause", "stop a task's schedule", tasks.pause)
    pause.add_argument("--note", help="why, for whoever looks")
    resume = _verb(verbs, "resume", "let it go on", tasks.resume)
    delete = _verb(verbs, "delete", "take a task out of force; its history stays", tasks.delete)
    trigger = _verb(verbs, "trigger", "run it once, now or later", tasks.trigger)
    _trigger(trigger)
    trigger.add_argument("--idempotency-key", metavar="KEY", help="the same key is the same run")
    trigger.add_argument("--wait", metavar="SECONDS", type=float, help="until it has ended; ends with 8 if not well")
    for verb in (pause, resume, delete, trigger):
        verb.add_argument("task", metavar="TASK", help="name or id")


def _executions(verbs: Any) -> None:
    list_ = _verb(verbs, "list", "list executions, latest first", executions.list_)
    list_.add_argument("--task", metavar="TASK", help="name or id")
    list_.add_argument("--status", metavar="STATUS,…", help="such as running,retrying,dead_letter")
    list_.add_argument("--since", metavar="TIME", help="such as 2026-03-01T00:00:00Z")
    list_.add_argument("--until", metavar="TIME")
    _limit(list_)
    logs = _verb(verbs, "logs", "what it has printed", executions.logs)
    logs.add_argument("--follow", "-F", action="store_true", help="live, until it has ended")
    logs.add_argument("--attempt", metavar="N", type=int, help="of this attempt alone")
    logs.add_argument("--timestamps", "-t", action="store_true", help="the time before each line")
    _limit(logs, default=MOST)
    retry = _verb(verbs, "retry", "run it again", executions.retry)
    _current_version(retry)
    each = [
        _verb(verbs, "show", "show one with its result or error", executions.show),
        _verb(verbs, "explain", "say why it is not running", executions.explain),
        _verb(verbs, "cancel", "stop it", executions.cancel),
        retry,
    ]
    for verb in (logs, *each):
        verb.add_argument("execution", metavar="ID", type=_identity)


def _dags(verbs: Any) -> None:
    _filters(_verb(verbs, "list", "list DAGs, newest first", dags.list_))
    apply = _verb(verbs, "apply", "make DAGs what a file says, the difference shown", dags.apply)
    apply.add_argument("-f", "--file", metavar="FILE", required=True, help="- is standard input")
    apply.add_argument("--dry-run", action="store_true", help="only show what would change")
    trigger = _verb(verbs, "trigger", "start a run", dags.trigger)
    _trigger(trigger)
    runs = _verb(verbs, "runs", "list its runs, latest first", dags.runs)
    runs.add_argument("--status", metavar="STATUS,…")
    _limit(runs)
    for verb in (trigger, runs):
        verb.add_argument("dag", metavar="DAG", help="name or id")
    _verb(verbs, "run", "show a run and its nodes", dags.run).add_argument("run", metavar="RUN", type=_identity)


def _dead_letters(verbs: Any) -> None:
    list_ = _verb(verbs, "list", "list them, latest first", dead_letters.list_)
    _limit(list_)
    every = _verb(verbs, "retry-all", "run all again that the filter finds", dead_letters.retry_all)
    every.add_argument("--all", action="store_true", help="without a filter: every one")
    every.add_argument("--dry-run", action="store_true", help="only count them")
    every.add_argument("--rate", metavar="N", type=int, help="so many a second")
    discard_all = _verb(verbs, "discard-all", "give up all that the filter finds", dead_letters.discard_all)
    discard_all.add_argument("--all", action="store_true", help="without a filter: every one")
    discard_all.add_argument("--dry-run", action="store_true", help="only count them")
    for verb in (every, discard_all):
        verb.add_argument(
            "--id", dest="ids", metavar="ID", type=_identity, action="append", help="this one; may be said again"
        )
    for verb in (list_, every, discard_all):
        verb.add_argument("--task", metavar="TASK", help="name or id")
        verb.add_argument("--fingerprint", metavar="TEXT", help="those of one kind of error")
        verb.add_argument("--since", metavar="TIME", help="those that died from then on")
        verb.add_argument("--until", metavar="TIME", help="those that died before")
    retry = _verb(verbs, "retry", "run one again", dead_letters.retry)
    for verb in (retry, every):
        verb.add_argument("--from-start", action="store_true", help="not behind the last checkpoint")
        _current_version(verb)
    _limit(_verb(verbs, "replays", "list what retry-all has begun", dead_letters.replays))
    stop = _verb(verbs, "stop", "stop what retry-all has begun", dead_letters.stop)
    stop.add_argument("replay", metavar="REPLAY", type=_identity)
    discard = _verb(verbs, "discard", "give one up", dead_letters.discard)
    for verb in (discard, discard_all):
        verb.add_argument("--reason", help="why, for whoever looks")
    show = _verb(verbs, "show", "show one with its attempts and error", executions.show)
    for verb in (retry, discard, show):
        verb.add_argument("execution", metavar="ID", type=_identity)


def _current_version(verb: ArgumentParser) -> None:
    words = "as the task is now; without it, as it was then: under the version that it had"
    verb.add_argument("--current-version", action="store_true", help=words)


def _filters(verb: ArgumentParser) -> None:
    verb.add_argument("--search", metavar="TEXT", help="in names")
    verb.add_argument("--name", metavar="NAME")
    verb.add_argument("--tag", metavar="TAG")
    verb.add_argument("--paused", action=BooleanOptionalAction, default=None, help="only paused ones, or none of them")
    _limit(verb)


def _trigger(verb: ArgumentParser) -> None:
    verb.add_argument("--parameters", metavar="JSON", help="an object, instead of the definition's own")
    verb.add_argument("-p", dest="parameter", metavar="NAME=VALUE", action="append", default=[], help="one of them")
    verb.add_argument("--run-at", metavar="TIME", help="such as 2026-03-01T09:00:00Z; now if not given")


def _limit(verb: ArgumentParser, default: int = DEFAULT_LIMIT) -> None:
    verb.add_argument("--limit", metavar="N", type=int, default=default, help=f"at most so many (default: {default})")
