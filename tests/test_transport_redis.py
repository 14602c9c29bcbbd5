"""What only the Redis transport has: streams that clean up after themselves, and connections that are cut."""

from collections.abc import Iterator

import pytest
import redis

from apps.quickstart.services import ServiceAddresses
from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport import Outgoing
from chronoweb.runtime.transport.redis_streams import STREAM_TTL_SECONDS
from tests.transports import Transport, bodies, collect, send, take, transport
from tests.waiting import eventually


@pytest.fixture
def streams(services: ServiceAddresses) -> Iterator[Transport]:
    with transport(services.redis_url) as handle:
        yield handle


def key(streams: Transport, worker_id: int, class_name: str = "standard") -> str:
    return f"{streams.name}:inbox:{{{worker_id}}}:{class_name}"


def kill(client: redis.Redis, name: str) -> None:
    [connection] = [each for each in client.client_list() if each["name"] == name]
    client.client_kill_filter(_id=connection["id"])


def test_acknowledged_entries_leave_and_unread_streams_expire(streams: Transport, redis_client: redis.Redis) -> None:
    publisher = streams.publisher()
    [receiver] = streams.receivers(1)
    send(publisher, receiver.inbox(), *(b"%d" % n for n in range(2500)))
    assert redis_client.xlen(key(streams, 1)) == 2500  # nothing is trimmed before it is read
    assert STREAM_TTL_SECONDS - 60 < redis_client.ttl(key(streams, 1)) <= STREAM_TTL_SECONDS
    assert len(collect(receiver, 2500)) == 2500
    receiver.acknowledge(take(receiver))
    assert redis_client.xlen(key(streams, 1)) == 0


def test_a_new_process_is_a_new_inbox(streams: Transport) -> None:
    """What the former left unread is taken back by the ledger's claim deadline."""
    publisher = streams.publisher()
    former, successor = streams.receivers(1, 2)
    send(publisher, former.inbox(), b"unread")
    former.close()
    assert former.inbox() is None
    assert take(successor, 0.1) == []


def test_the_receiver_survives_a_cut_connection(streams: Transport, redis_client: redis.Redis) -> None:
    publisher = streams.publisher()
    [receiver] = streams.receivers(1)
    send(publisher, receiver.inbox(), b"a", b"b")
    held = collect(receiver, 2, acknowledge=False)
    kill(redis_client, f"{streams.name}:worker-1")
    receiver.acknowledge(held)
    send(publisher, receiver.inbox(), b"c")
    assert bodies(collect(receiver, 1)) == [b"c"]
    assert take(receiver) == []
    assert redis_client.xlen(key(streams, 1)) == 0


def test_the_publisher_survives_a_cut_connection(streams: Transport, redis_client: redis.Redis) -> None:
    publisher = streams.publisher()
    [receiver] = streams.receivers(1)
    send(publisher, receiver.inbox(), b"a")
    kill(redis_client, f"{streams.name}:publisher")
    inbox = receiver.inbox()
    assert inbox is not None
    first = publisher.publish(Outgoing(inbox, 1, b"b", {}))
    publisher.flush_soon()
    assert first.state in ("confirmed", "failed")  # the cut may be noticed before the write or by it
    send(publisher, inbox, b"c")
    wanted = [b"a", b"c"] if first.state == "failed" else [b"a", b"b", b"c"]
    assert bodies(collect(receiver, len(wanted))) == wanted


def test_one_refused_message_does_not_fail_its_tick(streams: Transport, redis_client: redis.Redis) -> None:
    publisher = streams.publisher()
    redis_client.set(key(streams, 7), "not a stream", ex=60)
    refused = publisher.publish(Outgoing({"redis": f"{streams.name}:inbox:{{7}}:"}, 1, b"x", {}))
    [receiver] = streams.receivers(1)
    send(publisher, receiver.inbox(), b"fine")
    assert refused.state == "failed"
    assert "WRONGTYPE" in str(refused.error)
    assert bodies(collect(receiver, 1)) == [b"fine"]


def test_a_blocked_reader_wakes_for_a_stream_that_did_not_exist(streams: Transport) -> None:
    publisher = streams.publisher()
    [receiver] = streams.receivers(1)
    assert take(receiver, 0.0) == []
    send(publisher, receiver.inbox(), b"first of its stream", to="bulk")
    assert bodies(eventually(lambda: receiver.receive(5.0, max_messages=1))) == [b"first of its stream"]


def test_an_entry_that_nobody_published_can_be_dropped(streams: Transport, redis_client: redis.Redis) -> None:
    [receiver] = streams.receivers(1)
    redis_client.xadd(key(streams, 1), {"foreign": "\xff"})
    redis_client.expire(key(streams, 1), 60)
    [received] = collect(receiver, 1)
    assert (received.body, dict(received.headers)) == (b"", {})
    assert redis_client.xlen(key(streams, 1)) == 0


def test_a_server_that_never_was_is_reported(unique: str) -> None:
    with transport("redis://127.0.0.1:1/0") as nowhere:
        publisher, receiver = nowhere.publisher(), nowhere.receiver(1)
        inbox = receiver.inbox()
        assert inbox is not None
        confirmation = publisher.publish(Outgoing(inbox, 1, b"x", {}))
        publisher.poll(0)
        assert confirmation.state == "failed"
        with pytest.raises(ServiceUnavailable, match="could not be read"):
            receiver.receive(0.1, max_messages=1)
