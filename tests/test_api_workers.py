"""Workers over REST: labels, slots by class; each tenant sees those that may run its work."""

import pytest

from apps.tenants.identity import new_uuid
from apps.tenants.models import Tier
from tests.factories import Api, make_api, make_tenant, worker_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Api:
    return make_api()


def test_workers_are_shown_with_labels_and_slots_by_class(api: Api) -> None:
    shared = worker_row(labels=["cpu", "io"], class_slots=[10, 4, 2], class_used=[1, 0, 2])
    own = worker_row(labels=["gpu"], class_slots=[2, 1, 1], tenant_id=api.tenant.id)
    worker_row(tenant_id=new_uuid())
    worker_row(state="stopped")
    items = api.get("/workers").json()["items"]
    assert [(item["id"], item["labels"], item["dedicated"]) for item in items] == [
        (own.id, ["gpu"], True),
        (shared.id, ["cpu", "io"], False),
    ]
    assert items[1]["classes"] == {
        "critical": {"slots": 10, "used": 1},
        "standard": {"slots": 4, "used": 0},
        "bulk": {"slots": 2, "used": 2},
    }
    assert items[0]["classes"]["bulk"] == {"slots": 1, "used": 0}, "before its first heartbeat"
    assert "host" not in items[1], "machines are the platform's business"
    assert items[0]["host"] == "h", "but those of its own workers"


def test_the_platform_sees_every_worker_and_its_machine() -> None:
    tenant = make_tenant()
    tenant.tier = Tier.SYSTEM
    tenant.save()
    platform = make_api(tenant)
    theirs = worker_row(tenant_id=new_uuid(), host="gpu-1")
    found = {item["id"]: item for item in platform.get("/workers").json()["items"]}
    assert (found[theirs.id]["host"], found[theirs.id]["tenant_id"]) == ("gpu-1", str(theirs.tenant_id))
