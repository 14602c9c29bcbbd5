"""What running handlers say, on its way to who writes it down: progress thinned out, checkpoints with their answer."""

from apps.worker.handlers.line import ENDED
from apps.worker.jobs import Answer, Assignment, Job, NoteTaker
from apps.worker.mailbox import Mailbox
from chronoweb.runtime.clock import Clock

EVERY_SECONDS = 0.5
"""The progress of one attempt is passed on this often at most."""


class Sayings:
    """Used by the runner's thread; `said` may be called from any. taker: None where nobody writes anything down."""

    def __init__(self, *, taker: NoteTaker | None, mailbox: Mailbox, clock: Clock) -> None:
        self._taker = taker
        self._mailbox = mailbox
        self._clock = clock
        self._news: set[Job] = set()

    def said(self, job: Job) -> None:
        """`job.said` is new."""
        self._news.add(job)

    def keep(self, job: Job, text: bytes, answer: Answer) -> None:
        """Have a checkpoint written; `answer` is called on the runner's thread."""
        if job.done:
            answer(ENDED)
            return
        job.unkept += 1

        def kept(problem: str | None) -> None:
            job.unkept -= 1
            job.heard_at = self._clock.monotonic()
            job.checkpointed = job.checkpointed or problem is None
            answer(problem)

        if self._taker is None:
            kept(None)
        else:
            self._taker.keep(job.assignment, text, lambda problem: self._mailbox.post(lambda: kept(problem)))

    def pass_on(self, now: float) -> None:
        """Hand on what is new, of each attempt only now and then."""
        batch: list[tuple[Assignment, float, float | None]] = []
        for job in list(self._news):
            if job.done:
                self._news.discard(job)
            elif job.said is not None and now - job.passed_on_at >= EVERY_SECONDS:
                self._news.discard(job)
                job.passed_on_at = now
                batch.append((job.assignment, *job.said))
        if batch and self._taker is not None:
            self._taker.progressed(batch)
