"""What both transports promise, held to real servers: one suite, run on Redis streams and on Kafka."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.kafka_broker import KafkaBroker
from apps.quickstart.services import ServiceAddresses
from apps.quickstart.valkey_server import ValkeyServer
from apps.worker import envelope
from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport import CLASSES, Outgoing, Publisher, Receiver
from chronoweb.runtime.transport.kafka import KafkaReceiver
from tests.transports import (
    JOIN_SECONDS,
    Transport,
    are_settled,
    bodies,
    collect,
    send,
    settle_confirmations,
    take,
    transport,
)
from tests.waiting import eventually

FIRST, SECOND = 1, 2
KINDS = ("redis", "kafka")


@dataclass
class Fleet:
    """A publisher and two workers. Each has one partition of each class where the transport is Kafka."""

    publisher: Publisher
    first: Receiver
    second: Receiver


@pytest.fixture(scope="class", params=KINDS)
def shared(request: pytest.FixtureRequest, services: ServiceAddresses) -> Iterator[Transport]:
    kafka = services.kafka_bootstrap_servers if request.param == "kafka" else ""
    assert kafka is not None
    with transport(services.redis_url, kafka) as handle:
        yield handle


@pytest.fixture(scope="class")
def fleet(shared: Transport) -> Fleet:
    """Of the whole class, because a group takes seconds to form: each test takes what it sent."""
    first, second = shared.receivers(FIRST, SECOND)
    return Fleet(shared.publisher(), first, second)


def message(receiver: Receiver, class_index: int, body: bytes) -> Outgoing:
    inbox = receiver.inbox()
    assert inbox is not None
    return Outgoing(inbox, class_index, body, {"v": "1"})


class TestConformance:
    def test_bytes_and_headers_come_back(self, fleet: Fleet) -> None:
        inbox = fleet.first.inbox()
        assert inbox is not None
        body = bytes(range(256)) * 256  # 64 KiB with every byte in it
        headers = {"v": "1", "epoch": "7", "traceparent": "00-4bf92f35-00f067aa-01", "note": "naïve ☃"}
        settle_confirmations(fleet.publisher, [fleet.publisher.publish(Outgoing(inbox, 1, body, headers))])
        [received] = collect(fleet.first, 1)
        assert (received.class_index, received.body, dict(received.headers)) == (1, body, headers)

    def test_an_envelope_of_500_executions(self, fleet: Fleet) -> None:
        records = [(n.to_bytes(16, "big"), n << 32, 1_700_000_000_000_000 + n) for n in range(500)]
        body, headers = envelope.encode(records, epoch=3)
        inbox = fleet.first.inbox()
        assert inbox is not None
        settle_confirmations(fleet.publisher, [fleet.publisher.publish(Outgoing(inbox, 2, body, headers))])
        [received] = collect(fleet.first, 1)
        assert envelope.decode(received.body, received.headers).records == records

    @pytest.mark.parametrize("class_name", CLASSES)
    def test_order_within_a_class(self, fleet: Fleet, class_name: str) -> None:
        sent = [b"%d" % n for n in range(300)]
        send(fleet.publisher, fleet.first.inbox(), *sent, to=class_name)
        assert bodies(collect(fleet.first, 300)) == sent

    def test_critical_first(self, fleet: Fleet) -> None:
        for class_name in reversed(CLASSES):
            send(fleet.publisher, fleet.first.inbox(), *(class_name.encode() for _ in range(4)), to=class_name)
        if isinstance(fleet.first, KafkaReceiver):  # promised among what the client has fetched
            waiting = fleet.first._waiting
            eventually(lambda: take(fleet.first, max_messages=0) or sum(map(len, waiting)) == 12)
        batches = [take(fleet.first, max_messages=3) for _ in range(4)]
        for batch in batches:
            fleet.first.acknowledge(batch)
        assert [m.class_index for batch in batches for m in batch] == [0] * 4 + [1] * 4 + [2] * 4
        assert [len(batch) for batch in batches] == [3, 3, 3, 3]

    def test_each_worker_gets_its_own_inbox_only(self, fleet: Fleet) -> None:
        send(fleet.publisher, fleet.first.inbox(), b"for the first")
        send(fleet.publisher, fleet.second.inbox(), b"for the second")
        assert bodies(collect(fleet.first, 1)) == [b"for the first"]
        assert bodies(collect(fleet.second, 1)) == [b"for the second"]

    def test_what_is_held_does_not_come_twice(self, fleet: Fleet) -> None:
        send(fleet.publisher, fleet.first.inbox(), b"a", b"b", b"c")
        held = collect(fleet.first, 3, acknowledge=False)
        fleet.first.acknowledge([held[1]])
        send(fleet.publisher, fleet.first.inbox(), b"d")
        assert bodies(collect(fleet.first, 1)) == [b"d"]
        fleet.first.acknowledge(held)
        assert take(fleet.first) == []

    def test_confirmation_goes_from_pending_to_confirmed(self, fleet: Fleet) -> None:
        confirmations = [fleet.publisher.publish(message(fleet.second, n % 3, b"x")) for n in range(6)]
        assert {(c.state, c.error) for c in confirmations} == {("pending", None)}
        settle_confirmations(fleet.publisher, confirmations)
        assert len(collect(fleet.second, 6)) == 6

    def test_an_address_of_another_transport_fails_at_once(self, fleet: Fleet) -> None:
        confirmation = fleet.publisher.publish(Outgoing({"pigeon": "loft 4"}, 0, b"x", {}))
        assert confirmation.state == "failed"
        assert isinstance(confirmation.error, ServiceUnavailable)
        assert "pigeon" in str(confirmation.error)

    def test_an_inbox_that_nobody_reads_delays_nobody(self, fleet: Fleet) -> None:
        nobody: dict[str, Any] = {"redis": "tnobody:inbox:{999}:", "kafka": {"0": [7], "1": [7], "2": [7]}}
        nobody = {key: nobody[key] for key in fleet.first.inbox() or ()}
        if "redis" in nobody:  # under this test's own prefix, with the id of a worker that is gone
            nobody["redis"] = (fleet.first.inbox() or {})["redis"].replace(f"{{{FIRST}}}", "{999}")
        lost = [fleet.publisher.publish(Outgoing(nobody, 1, b"x", {})) for _ in range(50)]
        send(fleet.publisher, fleet.first.inbox(), b"alive")
        assert bodies(collect(fleet.first, 1)) == [b"alive"]
        eventually(lambda: are_settled(fleet.publisher, lost))

    def test_closing_a_publisher_sends_what_it_has(self, shared: Transport, fleet: Fleet) -> None:
        publisher = shared.publisher()
        confirmation = publisher.publish(message(fleet.first, 0, b"last words"))
        publisher.close()
        assert confirmation.state == "confirmed"
        assert bodies(collect(fleet.first, 1)) == [b"last words"]

    def test_receiving_waits_no_longer_than_asked(self, fleet: Fleet) -> None:
        assert take(fleet.second, 0.0) == []
        assert take(fleet.second, 0.05, max_messages=0) == []


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, services: ServiceAddresses) -> Iterator[Transport]:
    """A transport whose receivers may come and go; one partition, so that its order is one order."""
    kafka = services.kafka_bootstrap_servers if request.param == "kafka" else ""
    assert kafka is not None
    with transport(services.redis_url, kafka, partitions=1) as handle:
        yield handle


def test_only_what_was_not_acknowledged_comes_again_and_a_stopped_receiver_has_no_inbox(own: Transport) -> None:
    publisher = own.publisher()
    [receiver] = own.receivers(FIRST)
    send(publisher, receiver.inbox(), b"a", b"b", b"c")
    held = collect(receiver, 3, acknowledge=False)
    receiver.acknowledge(held[:2])
    receiver.close()

    again = own.receiver(FIRST)
    assert bodies(collect(again, 1, acknowledge=False)) == [b"c"]

    inbox = again.inbox()
    again.stop_receiving()
    assert again.inbox() is None
    send(publisher, inbox, b"too late")
    assert take(again, 0.1) == []
    again.stop_receiving()


def test_closing_twice_is_closing_once(own: Transport) -> None:
    publisher, receiver = own.publisher(), own.receiver(FIRST)
    inbox = {"redis": f"{own.name}:inbox:{{{FIRST}}}:"}
    for each in (publisher, receiver):
        each.close()
        each.close()
    assert receiver.inbox() is None
    assert take(receiver) == []
    receiver.acknowledge([])
    receiver.stop_receiving()
    assert publisher.publish(Outgoing(inbox, 0, b"x", {})).state == "failed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_comes_back_empty_carries_on(kind: str, data_dir: Path) -> None:
    """It loses what it had (the ledger's claim deadline heals that); the same objects then work again."""
    data = DataDirectory(data_dir)
    data.acquire()
    server: ValkeyServer | KafkaBroker = ValkeyServer(data) if kind == "redis" else KafkaBroker(data)
    server.start()
    try:
        server.wait_until_ready()
        addresses = ("", server.bootstrap_servers) if isinstance(server, KafkaBroker) else (server.url, "")
        with transport(*addresses, partitions=2) as handle:
            _lives_through_a_restart(handle, server)
    finally:
        server.stop()
        data.release()


def _lives_through_a_restart(handle: Transport, server: ValkeyServer | KafkaBroker) -> None:
    publisher = handle.publisher()
    [receiver] = handle.receivers(FIRST)
    inbox = receiver.inbox()
    send(publisher, inbox, b"before", b"held")
    held = collect(receiver, 2, acknowledge=False)
    receiver.acknowledge(held[:1])
    assert inbox is not None

    server.stop()
    while_away = publisher.publish(Outgoing(inbox, 0, b"while away", {}))
    publisher.flush_soon()
    eventually(lambda: _says_unavailable(receiver))
    receiver.acknowledge(held[1:])
    assert while_away.state != "confirmed"

    server.start()
    server.wait_until_ready()
    received: list[bytes] = []
    sent = [while_away]

    def flows() -> bool:
        inbox = receiver.inbox()
        if inbox is not None and are_settled(publisher, sent[1:]):  # a loss that nobody noticed yet fails some
            sent.append(publisher.publish(Outgoing(inbox, 0, b"after", {})))
        publisher.flush_soon()
        received.extend(bodies(take(receiver)))
        return b"after" in received

    eventually(flows, seconds=JOIN_SECONDS)
    eventually(lambda: are_settled(publisher, sent))
    assert sent[-1].state == "confirmed"
    assert set(received) <= {b"while away", b"after"}


def _says_unavailable(receiver: Receiver) -> bool:
    try:
        receiver.receive(0.05, max_messages=1)
    except ServiceUnavailable:
        return True
    return False
