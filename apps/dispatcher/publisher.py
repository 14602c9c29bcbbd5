"""From dispatched rows to messages: one per worker, class and tick, up to a few hundred executions each."""

from collections.abc import Iterable, Mapping
from typing import Any

from apps.executions.rows import Dispatched
from apps.worker import envelope
from apps.worker.envelope import WORKER_HEADER
from chronoweb.runtime.transport import Confirmation, Outgoing, Publisher


def publish(
    publisher: Publisher,
    sent: Iterable[Dispatched],
    inboxes: Mapping[int, Mapping[str, Any]],
    *,
    epoch: int,
    records_each: int,
) -> list[Confirmation]:
    """Hand `sent` (status DISPATCHED) to the transport; the confirmations come later.

    A worker whose inbox is gone gets nothing: the claim deadline takes its executions back.
    """
    groups: dict[tuple[int, int], list[envelope.Record]] = {}
    for row in sent:
        assert row.worker_id is not None
        groups.setdefault((row.worker_id, row.class_index), []).append((row.id, row.token, row.run_at_us))
    confirmations = []
    for (worker_id, class_index), records in sorted(groups.items(), key=lambda group: group[0][1]):
        inbox = inboxes.get(worker_id)
        if inbox is None:
            continue
        for start in range(0, len(records), records_each):
            body, headers = envelope.encode(records[start : start + records_each], epoch=epoch)
            headers[WORKER_HEADER] = str(worker_id)
            confirmations.append(publisher.publish(Outgoing(inbox, class_index, body, headers)))
    publisher.flush_soon()
    return confirmations
