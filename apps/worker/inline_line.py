"""The line of a handler that runs inside the worker process, in a thread or on the loop."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from apps.logs.records import LOG
from apps.worker.handlers.line import ENDED, Line
from apps.worker.handlers.registry import LeaseLost
from apps.worker.jobs import Job
from apps.worker.mailbox import Mailbox
from apps.worker.output.routed import Speaker, speak
from apps.worker.sayings import Sayings
from chronoweb.runtime.clock import Clock

MakeLine = Callable[[Job], Line]


class InlineLine(Line):
    """Of one job alone; used by the handler's threads."""

    def __init__(self, job: Job, sayings: Sayings, mailbox: Mailbox, clock: Clock) -> None:
        self._job = job
        self._patient = job.holder is None  # a thread may be held up; what runs on the loop may not
        self._sayings = sayings
        self._mailbox = mailbox
        self._clock = clock

    def progress(self, seq: int, done: float, total: float | None) -> None:
        self._job.listening = True
        self._job.heard_at = self._clock.monotonic()
        self._job.said = done, total
        self._sayings.said(self._job)

    def keep(self, seq: int, text: bytes) -> None:
        self._settle(self._ask(text).result())

    async def keep_async(self, seq: int, text: bytes) -> None:
        self._settle(await asyncio.wrap_future(self._ask(text)))

    def asked(self, seq: int) -> bool:
        self._job.listening = True
        return self._job.asked is not None

    def log(self, seq: int, record: dict[str, Any]) -> bool:
        log = self._job.log
        if log is None or self._job.done:
            return False
        data = json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "replace")
        speak(Speaker(log, self._patient), LOG, data)
        return True

    def _ask(self, text: bytes) -> Future[str | None]:
        if self._job.done:
            raise LeaseLost(ENDED)
        answer: Future[str | None] = Future()
        answer.set_running_or_notify_cancel()  # a handler that stops waiting must not make the answer an error
        self._job.listening = True
        self._mailbox.post(lambda: self._sayings.keep(self._job, text, answer.set_result))
        return answer

    @staticmethod
    def _settle(problem: str | None) -> None:
        if problem is not None:
            raise LeaseLost(problem)
