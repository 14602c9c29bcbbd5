"""Turning what a handler returned or raised into a report that PostgreSQL will take.

jsonb refuses NUL characters and lone surrogates, and one such row would fail its whole batch: both are replaced
here, where they arise.
"""

import json
import traceback
from typing import Any

from apps.executions.failure import FailureClass
from apps.executions.states import Outcome
from apps.worker.handlers.context import BadParameters
from apps.worker.handlers.registry import Interrupted, PermanentError, RateLimitedError
from apps.worker.jobs import Report

RESULT_BYTES = 256 * 1024
MESSAGE_CHARACTERS = 4096
TRACEBACK_CHARACTERS = 16 * 1024
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

SUCCEEDED = int(Outcome.SUCCEEDED)
FAILED = int(Outcome.FAILED)
NOTHING_RETURNED = Report(SUCCEEDED, None, None)


def clean_text(text: str, limit: int = MESSAGE_CHARACTERS, *, keep: str = "start") -> str:
    """`text` without NULs and lone surrogates, at most `limit` characters; keep: which end survives."""
    if len(text) > limit:
        text = text[: limit - 1] + "…" if keep == "start" else "…" + text[1 - limit :]
    return text.replace("\0", REPLACEMENT).encode("utf-8", "replace").decode()


def make_error(kind: str, message: str, *, permanent: bool = False, trace: str = "", **more: Any) -> dict[str, Any]:
    """An error as the ledger keeps it."""
    return {
        "type": kind,
        "message": clean_text(message),
        "traceback": clean_text(trace, TRACEBACK_CHARACTERS, keep="end"),
        "permanent": permanent,
        **more,
    }


def report_result(value: Any) -> Report:
    """The report of a handler that returned `value`; a failure if that cannot be kept as JSON."""
    if value is None:
        return NOTHING_RETURNED
    try:
        data = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if b"\\u0000" in data:
            data = json.dumps(_without_nul(json.loads(data)), ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        return Report(FAILED, None, make_error("ResultNotJson", f"result is not JSON: {problem}", permanent=True))
    if len(data) > RESULT_BYTES:
        message = f"result too large: {len(data)} bytes of JSON, at most {RESULT_BYTES} are kept"
        return Report(FAILED, None, make_error("ResultTooLarge", message, permanent=True))
    return Report(SUCCEEDED, data, None)


def report_texts(value: dict[str, Any], texts: dict[str, str]) -> Report:
    """The report of a success whose long texts may be shortened (their last part is kept) until it fits."""
    while (report := report_result({**value, **texts})).error and any(texts.values()):
        texts = {name: text[-(len(text) // 2) :] if len(text) > 1 else "" for name, text in texts.items()}
    return report


def report_exception(raised: BaseException, caller_file: str) -> Report:
    """The report of a handler that raised; frames in `caller_file`, which called it, are left out.

    One that has let itself be interrupted is reported as released: the runner knows whether anybody had asked.
    """
    inner = raised.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename == caller_file:
        inner = inner.tb_next
    # A TypeError without a frame inside the handler was raised by the call itself: the parameters do not fit.
    misfit = isinstance(raised, TypeError) and inner is None
    permanent = misfit or isinstance(raised, PermanentError | BadParameters)
    trace = "".join(traceback.format_exception(type(raised), raised, inner))
    message = _message(raised)
    if isinstance(raised, Interrupted):
        error = make_error("Interrupted", message or "stopped itself", trace=trace)
        return Report(int(Outcome.RELEASED), None, error)
    if misfit:
        message = f"the parameters do not fit the handler: {message}"
    more: dict[str, Any] = {"exception": f"{type(raised).__module__}.{type(raised).__qualname__}"}
    if isinstance(raised, RateLimitedError):
        more |= {"class": FailureClass.RATE_LIMITED.value}
        if raised.retry_after_seconds is not None and 0 <= raised.retry_after_seconds < 10**6:
            more["retry_after_seconds"] = float(raised.retry_after_seconds)
    elif isinstance(raised, TimeoutError):
        more |= {"class": FailureClass.TIMEOUT.value}
    return Report(FAILED, None, make_error(type(raised).__name__, message, permanent=permanent, trace=trace, **more))


def _message(raised: BaseException) -> str:
    try:
        return str(raised)
    except Exception as problem:
        return f"(its message cannot be shown: {type(problem).__name__})"


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", REPLACEMENT)
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return value
