"""The shipper: what waits is kept and noted once, whatever dies in between, on either transport and either storage."""

import asyncio
import gzip
import json
import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.test import override_settings

from apps.executions.states import Status
from apps.logs import objects, partitions
from apps.logs.daemon import LogShipper
from apps.logs.records import BEGINNING, Batch, Position
from apps.logs.transport import Taken, make_publisher, make_tail
from apps.quickstart.services import ServiceAddresses
from chronoweb.runtime import postgres
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import Config
from chronoweb.runtime.sql import day_suffix
from tests.log_tools import batch
from tests.nursery import nursery
from tests.stack import Ledger, quick_config
from tests.waiting import eventually


class Place:
    """A transport, a storage and an index of a test's own."""

    def __init__(self, ledger: Ledger, addresses: Addresses, config: Config, folder: Path) -> None:
        self.ledger = ledger
        self.addresses = addresses
        self.config = config
        self.folder = folder
        self._made: list[Any] = []

    def offer(self, *batches: Batch) -> None:
        """Until all are taken."""
        publisher = make_publisher(self.addresses, self.config)
        for one in batches:
            eventually(lambda one=one: publisher.publish([one]) == [Taken.YES])  # type: ignore[misc]
        publisher.close()

    def shipper(self) -> LogShipper:
        made = LogShipper(self.config, self.addresses)
        self._made.append(made)
        return made

    def ship(self, shipper: LogShipper, until: int, identity: bytes) -> None:
        eventually(lambda: shipper.run_once() and self.last(identity) >= until)

    def rows(self, identity: bytes) -> list[dict[str, Any]]:
        query = "SELECT * FROM log_chunks WHERE execution_id = encode(%s, 'hex')::uuid ORDER BY token, first_seq"
        return self.ledger.select(query, identity)

    def last(self, identity: bytes) -> int:
        return max([row["last_seq"] for row in self.rows(identity)], default=0)

    def kept(self, identity: bytes) -> list[tuple[int, int]]:
        """(token, number) of every line that the index leads to."""
        found = []
        for row in self.rows(identity):
            lines = objects.read(row["storage_name"], row["start"], row["length"]) if row["length"] else b""
            numbers = [json.loads(line)["seq"] for line in lines.splitlines()]
            assert numbers == list(range(row["first_seq"], row["last_seq"] + 1))
            assert row["bytes"] == len(lines)
            found += [(row["token"], number) for number in numbers]
        return found

    def close(self) -> None:
        for one in self._made:
            one.close()


@pytest.fixture
def kept_in(tmp_path: Path) -> Iterator[Path]:
    backend = {"BACKEND": "apps.logs.objects.DurableFiles", "OPTIONS": {"location": str(tmp_path / "kept")}}
    with override_settings(STORAGES={**settings.STORAGES, "logs": backend}):
        yield tmp_path / "kept"


ON_BOTH = pytest.mark.parametrize("place", ["redis", "kafka"], indirect=True)


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    services: ServiceAddresses,
    ledger: Ledger,
    redis_prefix: str,
    kept_in: Path,
) -> Iterator[Place]:
    kafka = getattr(request, "param", "redis") == "kafka"
    brokers = services.kafka_bootstrap_servers or "" if kafka else ""
    addresses = Addresses(ledger.url, ledger.url, services.redis_url, brokers)
    prefix = redis_prefix.rstrip(":") + "."
    config = quick_config(
        redis_prefix, kafka_prefix=prefix, kafka_partitions=2, log_ship_seconds=0.05, log_claim_seconds=0.3
    )
    made = Place(ledger, addresses, config, kept_in)
    yield made
    made.close()


def running(ledger: Ledger, token: int = 7) -> bytes:
    [identity] = ledger.add(status=Status.RUNNING, token=token)
    return identity


@ON_BOTH
def test_lines_are_kept_in_order_and_noted_once(place: Place) -> None:
    one, two = running(place.ledger), running(place.ledger)
    place.offer(
        batch(one, 1, 10), batch(two, 1, 3), batch(one, 11, 12), batch(one, 11, 12), batch(one, 13, 20, ended=True)
    )
    shipper = place.shipper()
    place.ship(shipper, 20, one)
    place.ship(shipper, 3, two)
    assert place.kept(one) == [(7, n) for n in range(1, 21)]
    assert place.kept(two) == [(7, n) for n in range(1, 4)]
    assert [row["ended"] for row in place.rows(one)][-1] is True
    assert {row["tenant_id"].bytes for row in place.rows(one)} == {place.ledger.tenant}
    place.offer(batch(two, 4, 5), batch(two, 6, 5, ended=True))
    place.ship(shipper, 5, two)
    eventually(lambda: shipper.run_once() and place.rows(two)[-1]["ended"])
    assert place.kept(two) == [(7, n) for n in range(1, 6)]


def test_lines_that_come_again_are_known(place: Place) -> None:
    """An answer that was lost, or a shipper that died behind its note: the same batches are read again."""
    one = running(place.ledger)
    place.offer(batch(one, 1, 10))
    first = place.shipper()
    place.ship(first, 10, one)
    place.offer(batch(one, 1, 10), batch(one, 5, 14))
    place.ship(first, 14, one)
    assert place.kept(one) == [(7, n) for n in range(1, 15)]


def test_lines_of_an_attempt_that_the_ledger_does_not_know_are_refused(place: Place) -> None:
    one = running(place.ledger, token=9)
    [gone] = [bytes(one[:8]) + os.urandom(7) + one[15:]]
    place.offer(batch(one, 1, 3, token=8), batch(gone, 1, 3, token=9))
    place.offer(batch(one, 1, 3, token=9))
    shipper = place.shipper()
    place.ship(shipper, 3, one)
    for _ in range(3):
        shipper.run_once()
    assert place.kept(one) == [(9, n) for n in range(1, 4)]
    assert place.rows(gone) == []


def test_attempts_of_one_execution_follow_each_other(place: Place) -> None:
    """The first was released: its number comes again, its token does not."""
    one = running(place.ledger, token=9)
    place.ledger.connection.execute(
        "INSERT INTO attempts (scheduled_at, execution_id, attempt, token, tenant_id, worker_id, outcome, due_at,"
        " finished_at) SELECT scheduled_at, id, 1, 5, tenant_id, 1, 5, now(), now() FROM executions"
        " WHERE id = encode(%s, 'hex')::uuid",
        (one,),
    )
    place.offer(batch(one, 1, 3, token=5, ended=True), batch(one, 1, 4, token=9))
    shipper = place.shipper()
    place.ship(shipper, 4, one)
    assert place.kept(one) == [(5, 1), (5, 2), (5, 3), (9, 1), (9, 2), (9, 3), (9, 4)]


@ON_BOTH
def test_two_shippers_share_the_work_and_double_nothing(place: Place) -> None:
    many = [running(place.ledger) for _ in range(12)]
    shippers = [place.shipper(), place.shipper()]
    for start in range(1, 40, 10):
        place.offer(*(batch(one, start, start + 9, ended=start == 31) for one in many))
        for shipper in shippers:
            shipper.run_once()
    for one in many:
        eventually(lambda one=one: all(s.run_once() for s in shippers) and place.last(one) == 40)  # type: ignore[misc]
        assert place.kept(one) == [(7, n) for n in range(1, 41)]


@ON_BOTH
def test_viewers_read_what_waits_and_nothing_twice(place: Place) -> None:
    one, other = running(place.ledger), running(place.ledger)
    place.offer(batch(one, 1, 10), batch(other, 1, 3), batch(one, 11, 20))
    tail = make_tail(place.addresses, place.config, one)
    assert [(b.first, b.last) for b in tail.read(BEGINNING)] == [(1, 10), (11, 20)]
    assert tail.read(Position(7, 20)) == []
    shipper = place.shipper()
    place.ship(shipper, 20, one)
    place.offer(batch(one, 21, 25, ended=True))
    [late] = eventually(lambda: tail.read(Position(7, 20)))
    assert (late.first, late.ended) == (21, True)
    place.ship(shipper, 25, one)
    shipper.run_once()
    fresh = make_tail(place.addresses, place.config, one)
    assert [b.last for b in fresh.read(Position(7, 25), ended=True) if b.behind(Position(7, 25)) and not b.ended] == []
    for made in (tail, fresh):
        asyncio.run(made.close())


POINTS = ("logshipper.taken", "logshipper.saved", "logshipper.noted", "logshipper.settled")


@pytest.mark.parametrize(
    ("place", "point"),
    [("redis", point) for point in POINTS]
    + [pytest.param("kafka", point, marks=pytest.mark.drill) for point in POINTS],
    indirect=["place"],
)
def test_a_shipper_killed_anywhere_leaves_neither_gap_nor_repeat(place: Place, point: str, tmp_path: Path) -> None:
    one = running(place.ledger)
    place.offer(*(batch(one, n, n + 99, text="x" * 500) for n in range(1, 4000, 100)))
    environment = {
        **os.environ,
        "DATABASE_URL": place.ledger.url,
        "DATABASE_DIRECT_URL": place.ledger.url,
        "REDIS_URL": place.addresses.redis_url,
        "KAFKA_BOOTSTRAP_SERVERS": place.addresses.kafka_bootstrap_servers,
        "CHRONOWEB_REDIS_PREFIX": place.config.redis_prefix,
        "CHRONOWEB_KAFKA_PREFIX": place.config.kafka_prefix,
        "CHRONOWEB_LOG_SHIP_SECONDS": "0.05",
        "CHRONOWEB_LOG_CLAIM_SECONDS": "0.3",
        "LOG_DIRECTORY": str(place.folder),
        "CHRONOWEB_FAULT": point,
    }
    log = tmp_path / "logshipper.log"
    manage = [str(settings.BASE_DIR / "manage.py"), "logshipper"]
    killed = nursery().start(manage, environment=environment, log=log, death_signal=signal.SIGKILL)
    assert killed.wait(60) == -signal.SIGKILL, log.read_text()[-2000:]
    shipper = place.shipper()
    place.offer(batch(one, 4001, 4010, ended=True))
    place.ship(shipper, 4010, one)
    assert place.kept(one) == [(7, n) for n in range(1, 4011)]


# ---- the storage --------------------------------------------------------------------------------------------------


def test_an_object_is_read_by_any_gunzip(place: Place) -> None:
    one, two = running(place.ledger), running(place.ledger)
    place.offer(batch(one, 1, 10, ended=True), batch(two, 1, 3, ended=True))
    shipper = place.shipper()
    place.ship(shipper, 10, one)
    place.ship(shipper, 3, two)
    lines = b"".join(gzip.decompress(file.read_bytes()) for file in sorted(place.folder.rglob("*.jsonl.gz")))
    assert sorted(lines.splitlines()) == sorted((batch(one, 1, 10).lines + batch(two, 1, 3).lines).splitlines())


def test_days_that_are_too_old_are_dropped_whole(services: ServiceAddresses, own_ledger: Ledger, kept_in: Path) -> None:
    config = quick_config("unused:", log_days=30)
    addresses = Addresses(own_ledger.url, own_ledger.url, services.redis_url, "")
    today = int(own_ledger.now_us() / 86_400_000_000)
    made: set[int] = set()
    with postgres.connect("test", url=own_ledger.url) as connection:
        for day in (today - 400, today - 31, today - 30, today):
            partitions.ensure(connection, day, made)
            objects.save(day, [b"x"])
        shipper = LogShipper(config, addresses)
        shipper.run_once()
        shipper.close()
        assert partitions.existing(connection) == [today - 30, today]
    assert sorted(path.name for path in kept_in.iterdir()) == [day_suffix(today - 30), day_suffix(today)]


def test_retention_locks_past_a_pooler(services: ServiceAddresses, own_ledger: Ledger, kept_in: Path) -> None:
    """A session that is lent by the transaction would keep the lock when somebody else has it."""
    addresses = Addresses(own_ledger.url, "postgres://127.0.0.1:1/nobody", services.redis_url, "")
    shipper = LogShipper(quick_config("unused:"), addresses)
    with pytest.raises(psycopg.OperationalError):
        shipper.run_once()
    shipper.close()


def test_a_full_disk_is_left_as_it_was(kept_in: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, before[1]))
    try:
        with pytest.raises(OSError):  # noqa: PT011 - of a limit it has another number than of a disk
            objects.save(20_000, [bytes(16 << 20)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path for path in kept_in.rglob("*") if path.is_file()] == []
    assert objects.save(20_000, [b"x"])


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, Any]]:
    """A server that speaks S3."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "bucket_name": "logs",
        "endpoint_url": f"http://{host}:{port}",
        "region_name": "eu-central-1",
        "access_key": "of-a-test",
        "secret_key": "of-a-test",
    }
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint_url"],
        region_name=options["region_name"],
        aws_access_key_id="of-a-test",
        aws_secret_access_key="of-a-test",
    )
    client.create_bucket(Bucket="logs", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    yield options
    server.stop()


def test_objects_live_in_a_bucket_as_well(place: Place, bucket: dict[str, Any]) -> None:
    backend = {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": bucket}
    with override_settings(STORAGES={**settings.STORAGES, "logs": backend}):
        one = running(place.ledger)
        place.offer(batch(one, 1, 10), batch(one, 11, 20, ended=True))
        shipper = place.shipper()
        place.ship(shipper, 20, one)
        assert place.kept(one) == [(7, n) for n in range(1, 21)]
        [row, *_] = place.rows(one)
        assert storages["logs"].exists(row["storage_name"])
        day = int(place.ledger.now_us() / 86_400_000_000)
        assert objects.delete_days_before(day) == 0
        assert objects.delete_days_before(day + 2) >= 1
        with pytest.raises(FileNotFoundError):
            objects.read(row["storage_name"], row["start"], row["length"])


def test_nobody_else_reads_what_is_kept(tmp_path: Path) -> None:
    """Commands of tasks run on the same machine, as other users."""
    root = tmp_path / "chunks"
    (root / "20260101").mkdir(parents=True)  # of an earlier version
    for folder in (root, root / "20260101"):
        folder.chmod(0o755)
    kept = objects.DurableFiles(location=str(root))
    kept.close_to_others()
    kept.save("20260102/x.jsonl.gz", ContentFile(b"a line"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert modes == {"chunks": 0o700, "20260101": 0o700, "20260102": 0o700, "x.jsonl.gz": 0o600}
    (root / "of-others").touch()
    root.chmod(0o755)
    kept.close_to_others()
    assert stat.S_IMODE(root.stat().st_mode) == 0o755, "a folder that others use, too, is not ours to close"
