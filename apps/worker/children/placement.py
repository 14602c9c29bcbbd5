"""Which child takes a job, and when there should be another child."""

from collections.abc import Mapping

from apps.worker.children.estimates import SHORT_SECONDS, Estimates
from apps.worker.children.handle import ChildHandle
from apps.worker.jobs import Job

SHORT_CHILDREN = 2
"""So many children serve short jobs; more only where others are busy with long ones."""
GROW_AFTER_SECONDS = 0.005
"""Jobs of unknown length get another child once they wait and nothing has ended for this long."""


def choose(
    children: Mapping[int, ChildHandle], cost: float, class_index: int, *, slot_free: bool
) -> ChildHandle | None:
    """The least loaded child that takes a job of `cost` expected seconds; None if none does.

    slot_free: whether an idle child may become busy with this class. A short job is never put behind a long one, nor
    behind one of another class.
    """
    best, lanes = None, 0
    for child in children.values():
        if not child.open or (child.class_index != class_index if child.held else not slot_free):
            continue
        if cost < SHORT_SECONDS:
            if child.long_jobs:
                continue
            lanes += 1
        if child.takes(cost) and (best is None or child.load < best.load):
            best = child
        if lanes == SHORT_CHILDREN:
            break
    return best


def should_grow(
    children: Mapping[int, ChildHandle], job: Job, estimates: Estimates, *, now: float, progress_at: float
) -> bool:
    """Whether `job`, which no child takes, is worth another one.

    progress_at: when any job of its class last ended (monotonic seconds, as `now`). At most half of all children are
    being started at a time, so that a first burst of jobs of unknown length does not fill every slot with a process.
    """
    total = len(children)
    if total < SHORT_CHILDREN:
        return True
    starting = sum(1 for child in children.values() if not child.started)
    if starting >= max(1, total - starting):
        return False
    class_index = job.assignment.class_index
    own = [child for child in children.values() if not child.held or child.class_index == class_index]
    if not own:
        return True  # all are busy with other classes, maybe with a stream of short jobs that never ends
    cost = estimates.expected(job.name)
    known_long = cost >= SHORT_SECONDS and estimates.known(job.name)
    if not known_long and now - max(job.submitted, progress_at) < GROW_AFTER_SECONDS:
        return False
    lanes = sum(1 for child in own if child.open and not child.long_jobs)
    return cost >= SHORT_SECONDS or lanes < SHORT_CHILDREN
