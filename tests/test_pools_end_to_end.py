"""Labels and tenants' own workers with the real commands: work waits, visibly, until somebody may run it."""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from apps.api import representations
from apps.console import reasons
from apps.definitions import services
from apps.executions.fleet import workers_for
from apps.executions.models import Attempt, Execution, Worker
from apps.executions.states import Hold, Status
from apps.quickstart.services import ServiceAddresses
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.factories import make_principal
from tests.stack import Processes, cloned, django_uses, processes
from tests.waiting import eventually

START_SECONDS = 90.0


@pytest.fixture
def daemons(
    services: ServiceAddresses, template_database: str, django_db_blocker: DjangoDbBlocker
) -> Iterator[Processes]:
    with (
        tempfile.TemporaryDirectory(prefix="chronoweb-pools-") as folder,
        cloned(services, template_database) as url,
        django_uses(url, django_db_blocker),
        processes(
            url,
            services,
            f"pools-{time.monotonic_ns()}:",
            Path(folder),
            CHRONOWEB_UNROUTABLE_AFTER_SECONDS="0.3",
            CHRONOWEB_HEARTBEAT_SECONDS="0.5",
            CHRONOWEB_CONTAINER_ENGINE="none",
        ) as started,
    ):
        for daemon in ("preloader", "dispatcher", "watchdog"):
            started.start(daemon, daemon)
        started.start("plain", "worker")
        yield started


def trigger(principal: Principal, name: str, **document: object) -> Execution:
    base = {"name": name, "schedule": {"type": "manual"}, "overlap_policy": "allow_all"}
    task = services.create_task(
        principal=principal, data={**base, "handler": {"type": "python", "name": "demo.noop"}, **document}
    )
    return fresh(services.trigger(principal=principal, task_id=task.id))


def fresh(identity: object) -> Execution:
    return Execution.objects.with_id(identity).select_related("task_version").get()  # type: ignore[arg-type]


def held_for_a_worker(identity: object) -> Execution | None:
    found = fresh(identity)
    return found if found.hold == Hold.NO_WORKER else None


def ran_on(execution: Execution) -> Worker:
    eventually(lambda: fresh(execution.id).state is Status.COMPLETED)
    attempt = Attempt.objects.get(scheduled_at=execution.scheduled_at, execution_id=execution.id)
    return Worker.objects.get(id=attempt.worker_id)


def test_work_waits_for_a_worker_that_may_run_it_and_goes_there(daemons: Processes) -> None:
    principal = make_principal()
    plain = ran_on(trigger(principal, "plain"))
    assert set(plain.labels) == {"cpu", "io"}
    assert [own for _, own in plain.by_class] == [10, 4, 2]

    rare = trigger(principal, "rare", requires=["gpu"])
    container = trigger(principal, "container", handler={"type": "container", "image": "alpine"})
    for identity, label in ((rare.id, "gpu"), (container.id, "container")):
        held = eventually(partial(held_for_a_worker, identity))
        assert held is not None
        told = f"no worker has this label: {label}"
        assert (held.state, held.worker_id) == (Status.SCHEDULED, None)
        evidence = reasons.gather(principal, [held], now=SYSTEM_CLOCK.now())
        assert representations.execution(held, evidence)["reason"] == told
        chip = reasons.of(held, evidence)
        assert chip is not None
        assert chip.text == told
    ran_on(trigger(principal, "meanwhile"))

    daemons.start("rare", "worker", "--label", "gpu", "--label", "region=eu")
    worker = ran_on(rare)
    assert worker.labels == ["gpu", "region=eu"]
    assert fresh(container.id).hold == Hold.NO_WORKER, "it has no engine"

    daemons.start("own", "worker", "--label", f"tenant={principal.tenant_slug}", "--slots", "4")
    own = eventually(lambda: Worker.objects.filter(tenant_id=principal.tenant_id).first())
    assert own is not None
    other = make_principal()
    assert own not in workers_for(other)
    assert own in workers_for(principal)
    heard = time.monotonic() + 2
    eventually(lambda: time.monotonic() > heard)
    assert ran_on(trigger(principal, "mine")).id == own.id
    assert ran_on(trigger(other, "theirs")).id != own.id
    assert ran_on(trigger(principal, "mine-and-rare", requires=["region=eu"])).id == worker.id


def test_a_worker_with_a_label_that_is_none_says_so_and_ends(daemons: Processes) -> None:
    daemons.start("wrong", "worker", "--label", "GPU!")
    assert daemons.wait_for_exit("wrong", seconds=START_SECONDS) == 1
    assert "'GPU!' is not a word" in daemons.log("wrong")
