"""What the forms of the settings say, as the services take it."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from apps.tenants.channel_kinds import KINDS
from apps.tenants.secret_places import FIELDS, Store
from chronoweb.runtime.errors import InvalidInput

LIVES = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "on": "until a day …", "never": "for ever"}
"""How long a new key may live: choice → words."""
USUAL_LIFE = "90"
_LAST_DAY = date(9998, 12, 31)
Given = Mapping[str, str]


def text(given: Given, name: str) -> str:
    return given.get(name, "").strip()


def expiry(given: Given, now: datetime) -> datetime | None:
    """When a key ends; None: never. A day is meant as a whole, in UTC. Raises InvalidInput."""
    choice = text(given, "life") or USUAL_LIFE
    if choice not in LIVES:
        raise InvalidInput("/life", choice, "is no choice", tuple(LIVES))
    if choice == "never":
        return None
    if choice != "on":
        return now + timedelta(days=int(choice))
    try:
        day = date.fromisoformat(text(given, "expires_at"))
    except ValueError:
        day = None
    if day is None or day > _LAST_DAY:
        raise InvalidInput("/expires_at", text(given, "expires_at"), "is no day", "a day such as 2027-03-31")
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def secret(given: Given) -> dict[str, Any]:
    """The store and what that needs; what belongs to other stores is left out."""
    store = text(given, "store") or Store.DATABASE.value
    fields = FIELDS[Store(store)] if store in Store.values else ()
    return {"store": store, **{name: _value(given, name) for name in fields}}


def _value(given: Given, name: str) -> str | None:
    """Browsers send lines of a text with CR LF; a certificate is meant with LF. An empty field is none. `key` of a form
    is the click's, so that of Vault is called otherwise.
    """
    found = given.get("key_of_vault" if name == "key" else name, "")
    return (found.replace("\r\n", "\n") if name == "value" else found.strip()) or None


def channel(given: Given, kind: str) -> dict[str, Any]:
    """The fields of this kind; those left empty are not given. Of addresses each stands on a line of its own."""
    found: dict[str, Any] = {name: text(given, name) for name in KINDS.get(kind, ()) if text(given, name)}
    if "to" in found:
        found["to"] = [address for line in found["to"].splitlines() for address in line.replace(",", " ").split()]
    return found
