"""Which Python functions are handlers, by name."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Literal, TypeVar, cast, overload

from chronoweb.runtime.errors import ChronowebError, ConfigurationError

Isolation = Literal["process", "thread", "async"]
ISOLATIONS: tuple[Isolation, ...] = ("process", "thread", "async")
Function = TypeVar("Function", bound=Callable[..., Any])


_TAKES_ANY_ARGUMENTS = 0x04
"""CO_VARARGS of a function's code."""


class PermanentError(ChronowebError):
    """Raise it in a handler when trying again cannot help: the execution goes to the dead letters at once."""


class Interrupted(ChronowebError):
    """Raise it in a handler that stops because `context.cancelled` asks it to.

    A cancelled execution then is cancelled; one whose worker drains goes to another worker, uncounted, with its last
    checkpoint.
    """


class LeaseLost(ChronowebError):
    """The execution is no longer this attempt's: it was taken away, or has ended. Nothing was written."""


class RateLimitedError(ChronowebError):
    """Raise it in a handler when what it calls asks for patience; it is tried again after at least so many seconds."""

    def __init__(self, message: str = "rate limited", *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered function and where it may run."""

    name: str
    function: Callable[..., Any]
    isolation: Isolation
    source: str
    """Name of the module that defined it."""
    listed: bool = True
    """Whether forms offer it; it runs all the same."""


class Registry:
    """The handlers of this process, and the modules that could not be imported (name → error text)."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.broken: dict[str, str] = {}

    def add(self, handler: Handler) -> None:
        """Raises ConfigurationError if another function has the name already."""
        present = self.handlers.get(handler.name)
        if present is not None and _place(present) != _place(handler):
            raise ConfigurationError(
                f"two handlers are called {handler.name!r}: {_place(present)} and {_place(handler)}; "
                'give one of them another name: @task_handler("other.name")'
            )
        self.handlers[handler.name] = handler

    def forget_source(self, source: str) -> None:
        """Drop what `source` defined, so that it can be loaded again."""
        self.broken.pop(source, None)
        self.handlers = {name: handler for name, handler in self.handlers.items() if handler.source != source}


REGISTRY = Registry()


@overload
def task_handler(function: Function, /) -> Function: ...
@overload
def task_handler(
    name: str | None = None, /, *, isolation: Isolation = "process", listed: bool = True
) -> Callable[[Function], Function]: ...
def task_handler(target: Any = None, /, *, isolation: Isolation = "process", listed: bool = True) -> Any:
    """Make a function a handler: it is called as `function(context, **parameters)`, or without a context if it takes
    none (`takes_context`).

    Bare, or with a name: `@task_handler("demo.noop", isolation="thread")`. The name defaults to
    "<module tail>.<function>": `apps/demo/tasks.py` and its function `noop` give "demo.noop".

    isolation: "process" runs it in a child process that can be killed; "thread" in a thread of the worker,
    which can only be abandoned on timeout; "async" (coroutine functions) on the worker's event loop.
    listed: whether forms offer it.
    """
    if isolation not in ISOLATIONS:
        raise ConfigurationError(f"isolation {isolation!r} is not one of {', '.join(ISOLATIONS)}")

    def register(function: Function) -> Function:
        name = target if isinstance(target, str) else default_name(function)
        if isolation == "async" and not is_coroutine_function(function):
            raise ConfigurationError(f"handler {name!r} has isolation 'async' but is not an async function")
        if isolation == "thread" and is_coroutine_function(function):
            raise ConfigurationError(f"handler {name!r} is an async function; isolation 'thread' runs plain ones")
        REGISTRY.add(Handler(name, with_context(function), isolation, function.__module__, listed))
        return function

    return register(target) if callable(target) else register


def takes_context(name: str, annotation: str) -> bool:
    """Whether the first argument of a handler is its context: called context, ctx, c or _…, or typed as one.

    Any other is a parameter, as is everything behind it.
    """
    return name in ("context", "ctx", "c") or name.startswith("_") or annotation.strip("'\"").endswith("Context")


def with_context(function: Function) -> Function:
    """`function` itself, or, if it takes no context, what drops it."""
    code = getattr(function, "__code__", None)
    if code is None or _first_is_context(function, code):
        return function
    import functools  # most handlers take a context, and a child should be there at once
    import inspect

    made: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def made(_context: Any, /, **parameters: Any) -> Any:
            return await function(**parameters)
    else:

        @functools.wraps(function)
        def made(_context: Any, /, **parameters: Any) -> Any:
            return function(**parameters)

    own = inspect.Parameter("_context", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(function)
    made.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    return cast(Function, made)


def _first_is_context(function: Callable[..., Any], code: CodeType) -> bool:
    if not code.co_argcount:
        return bool(code.co_flags & _TAKES_ANY_ARGUMENTS)
    first = code.co_varnames[0]
    annotation = function.__annotations__.get(first, "")
    return takes_context(first, annotation if isinstance(annotation, str) else getattr(annotation, "__name__", ""))


def default_name(function: Callable[..., Any]) -> str:
    """ "<module tail>.<function>", where a module called `tasks` is known by its package."""
    return name_in(function.__module__, function.__name__)


def name_in(module: str, function: str) -> str:
    """The default name of that module's function."""
    return f"{module.removesuffix('.tasks').rpartition('.')[2]}.{function}"


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    import inspect

    return inspect.iscoroutinefunction(function)


def unknown_handler(name: str, names: list[str], broken: dict[str, str]) -> dict[str, Any]:
    """The error of an execution whose handler is not there: not permanent, since the next worker may be of the release
    that has it, or the module that should define it may be broken just now.
    """
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    message = f"no handler is called {name!r}"
    if close:
        message += "; close names: " + ", ".join(close)
    elif names:
        message += f"; {len(names)} are known, such as {', '.join(sorted(names)[:3])}"
    else:
        message += "; this worker knows none"
    lines = [f"{source} could not be loaded: {text}" for source, text in broken.items()]
    own = [line for line, source in zip(lines, broken, strict=True) if _may_define(source, name)]
    message = "\n".join([*own, message, *(line for line in lines if line not in own)])
    return {
        "type": "HandlerNotLoaded" if broken else "UnknownHandler",
        "message": message,
        "traceback": "",
        "permanent": False,
    }


def _may_define(source: str, name: str) -> bool:
    return name_in(source, "").rstrip(".") == name.rpartition(".")[0]


def _place(handler: Handler) -> str:
    return f"{handler.function.__module__}.{handler.function.__qualname__}"
