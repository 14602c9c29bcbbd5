"""Channels: where a tenant wants to be told, by a kind and a name that its definitions use, such as slack://data-engineering.

What lets anybody write there (an address with a token, a routing key) is sealed like a secret and never shown again.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet

from apps.tenants import audit
from apps.tenants.channel_kinds import KINDS, LEGAL_NAME, NAME, read_config
from apps.tenants.models import NotificationChannel
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime.encryption import seal, unseal
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs

MOST = 200
_HELD = """
SELECT kind || '://' || name FROM notification_channels
WHERE tenant_id = %s AND kind || '://' || name = ANY(%s) ORDER BY id FOR KEY SHARE
"""


def channels(principal: Principal) -> QuerySet[NotificationChannel]:
    return scoped(NotificationChannel.objects.all(), principal)


def channel(principal: Principal, channel_id: UUID) -> NotificationChannel:
    """Raises NotFound."""
    return scoped_get(channels(principal), principal, what="channel", id=channel_id)


def locked(principal: Principal, channel_id: UUID) -> NotificationChannel:
    """The channel, held until the transaction ends. Raises NotFound."""
    return scoped_get(channels(principal).select_for_update(), principal, what="channel", id=channel_id)


@transaction.atomic
def create(*, principal: Principal, kind: Any, name: Any, given: Any) -> NotificationChannel:
    """A new channel. Raises InvalidInputs; Conflict when the tenant has one of this kind and name, or `MOST`."""
    wrong = []
    if not isinstance(kind, str) or kind not in KINDS:
        wrong.append(InvalidInput("/kind", kind, "is no kind of channel", tuple(KINDS)))
    if not isinstance(name, str) or not NAME.fullmatch(name):
        wrong.append(InvalidInput("/name", name, "is no name of a channel", LEGAL_NAME))
    if wrong:
        raise InvalidInputs(wrong)
    open_part, secret_part = read_config(kind, given, before=None)
    if channels(principal).count() >= MOST:
        raise Conflict(f"the tenant {principal.tenant_slug} has {MOST} channels already, the most; delete one first")
    row = NotificationChannel(tenant_id=principal.tenant_id, kind=kind, name=name, config=open_part)
    row.created_by = row.updated_by = principal.actor
    row.sealed = _sealed(row, secret_part)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise Conflict(f"the channel {row.uri} exists; change it with PUT", pointer="/name") from None
    _record(principal, "create", row)
    return row


@transaction.atomic
def replace(*, principal: Principal, channel_id: UUID, given: Any) -> NotificationChannel:
    """Another configuration; a secret part that is not given stays as it is. Raises NotFound, InvalidInputs."""
    row = locked(principal, channel_id)
    row.config, secret_part = read_config(row.kind, given, before=opened(row))
    row.sealed, row.updated_by = _sealed(row, secret_part), principal.actor
    row.save(update_fields=["config", "sealed", "updated_by", "updated_at"])
    _record(principal, "replace", row)
    return row


@transaction.atomic
def delete(*, principal: Principal, channel_id: UUID) -> None:
    """Forget a channel; whether definitions name it is asked in apps/definitions/secret_use.py. Raises NotFound."""
    row = locked(principal, channel_id)
    _record(principal, "delete", row)
    row.delete()


def opened(row: NotificationChannel) -> dict[str, str]:
    """The secret part: for who delivers, and for nobody else. Raises Unreadable."""
    return json.loads(unseal(row.sealed, str(row.tenant_id), row.uri)) if row.sealed else {}


def uris(tenant_id: UUID) -> list[str]:
    """What definitions of the tenant may name, sorted."""
    return [row.uri for row in NotificationChannel.objects.filter(tenant_id=tenant_id).order_by("kind", "name")]


def held(tenant_id: UUID, wanted: Iterable[str]) -> set[str]:
    """Those of the wanted that there are; they stay until the transaction ends. Definitions share the lock."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [tenant_id, sorted(set(wanted))])
        return {uri for (uri,) in cursor.fetchall()}


def _sealed(row: NotificationChannel, secret_part: Mapping[str, str]) -> str:
    if not secret_part:
        return ""
    return seal(json.dumps(secret_part), str(row.tenant_id), row.uri)


def _record(principal: Principal, act: str, row: NotificationChannel) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=f"channel.{act}",
        target_type="channel",
        target_id=row.id,
        detail={"uri": row.uri},
    )
