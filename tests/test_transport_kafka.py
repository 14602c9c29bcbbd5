"""What only the Kafka transport has: shares of partitions that move between workers."""

from collections.abc import Iterator

import pytest

from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport import Outgoing, Publisher, Receiver
from tests.transports import JOIN_SECONDS, Transport, are_settled, bodies, collect, send, take, transport
from tests.waiting import eventually

PARTITIONS = 4


@pytest.fixture
def kafka(kafka_bootstrap: str) -> Iterator[Transport]:
    with transport("", kafka_bootstrap, partitions=PARTITIONS) as handle:
        yield handle


def share(receiver: Receiver) -> dict[str, list[int]]:
    inbox = receiver.inbox()
    return inbox["kafka"] if inbox else {}


def test_shares_follow_the_workers(kafka: Transport) -> None:
    """One story, because each change of the group takes seconds: alone, a second one joins, the first leaves."""
    publisher = kafka.publisher()
    [first] = kafka.receivers(1)
    _an_inbox_is_used_evenly(publisher, first)

    second = kafka.receiver(2)
    _an_inbox_is_dropped_before_it_is_smaller(first, second)
    for class_index in "012":
        assert sorted(share(first)[class_index] + share(second)[class_index]) == list(range(PARTITIONS))

    _the_survivor_inherits_what_was_not_acknowledged(publisher, first, second)


def _an_inbox_is_used_evenly(publisher: Publisher, receiver: Receiver) -> None:
    send(publisher, receiver.inbox(), *(b"%d" % n for n in range(40)), to="bulk")
    partitions = [message.receipt[1] for message in collect(receiver, 40)]
    assert {part: partitions.count(part) for part in partitions} == dict.fromkeys(range(PARTITIONS), 10)


def _an_inbox_is_dropped_before_it_is_smaller(first: Receiver, second: Receiver) -> None:
    sizes = [PARTITIONS]

    def halved() -> bool:
        assert take(second) + take(first) == []
        size = len(share(first).get("0", []))
        if size != sizes[-1]:
            sizes.append(size)
        return size == PARTITIONS // 2 == len(share(second).get("0", []))

    eventually(halved, seconds=JOIN_SECONDS, every=0.001)
    assert sizes == [PARTITIONS, 0, PARTITIONS // 2]


def _the_survivor_inherits_what_was_not_acknowledged(publisher: Publisher, first: Receiver, second: Receiver) -> None:
    inbox = first.inbox()
    send(publisher, inbox, b"done", b"done", to="critical")
    collect(first, 2)
    send(publisher, inbox, b"open", b"open", to="critical")
    assert bodies(collect(first, 2, acknowledge=False)) == [b"open", b"open"]
    first.stop_receiving()
    assert first.inbox() is None
    assert bodies(collect(second, 2, seconds=JOIN_SECONDS)) == [b"open", b"open"]
    assert share(second) == {class_index: list(range(PARTITIONS)) for class_index in "012"}


def test_a_broker_that_is_away_fails_messages_in_bounded_time() -> None:
    with transport("", "127.0.0.1:1") as nowhere:
        publisher, receiver = nowhere.publisher(), nowhere.receiver(1)
        confirmation = publisher.publish(Outgoing({"kafka": {"0": [0]}}, 0, b"x", {}))
        with pytest.raises(ServiceUnavailable, match="A topic could not be made"):
            eventually(lambda: receiver.receive(0.5, max_messages=1))
        assert receiver.inbox() is None
        eventually(lambda: are_settled(publisher, [confirmation]))
        assert isinstance(confirmation.error, ServiceUnavailable)
