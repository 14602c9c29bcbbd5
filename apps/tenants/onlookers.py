"""Who looks on at what goes on: pages that are open live, and tails of logs. Whether they may is asked again and again,
and a web process has so many places for them.
"""

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.models import Session
from django.db.models.functions import Now

from apps.tenants.models import Membership, Role, Tenant
from apps.tenants.people import Person
from apps.tenants.principal import Principal
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import ChronowebError

RECHECK_SECONDS = 10.0
"""So long whoever has logged out, has another password, or is no longer a member, may go on looking."""


class Onlooker(NamedTuple):
    """A person in a tenant, and what they have proved it by."""

    person: Any
    slug: str
    session: str
    mark: str
    """Changes with the password."""


def onlooker(person: Person, session: Any, slug: str) -> Onlooker:
    """`person` as their session has just shown them."""
    assert not isinstance(person, AnonymousUser)
    return Onlooker(person.pk, slug, session.session_key or "", person.get_session_auth_hash())


def roles_of(looking: Collection[Onlooker]) -> dict[Onlooker, Role]:
    """The role of each whose session goes on and for whom people.principal_of would not raise; four queries, always."""
    people, slugs = {one.person for one in looking}, {one.slug for one in looking}
    active = get_user_model().objects.filter(pk__in=people, is_active=True)
    accounts = {account.pk: (account.is_superuser, account.get_session_auth_hash()) for account in active}
    memberships = Membership.objects.filter(user__in=people, tenant__slug__in=slugs)
    members = {(key, slug): Role(role) for key, slug, role in memberships.values_list("user", "tenant__slug", "role")}
    known = set(Tenant.objects.filter(slug__in=slugs).values_list("slug", flat=True))
    sessions = Session.objects.filter(session_key__in={one.session for one in looking}, expire_date__gt=Now())
    open_ = set(sessions.values_list("session_key", flat=True))
    found = {}
    for one in looking:
        everywhere, mark = accounts.get(one.person, (False, ""))
        role = Role.OWNER if everywhere else members.get((one.person, one.slug))
        if one.session in open_ and one.mark == mark and one.slug in known and role is not None:
            found[one] = role
    return found


class NoPlace(ChronowebError):
    """A person or a tenant looks on at as many places as this process has for one."""


class _Places:
    """Safe from any thread: tails begin on threads of requests, and sockets on the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str | UUID] = Counter()

    def take(self, who: Principal) -> None:
        with self._lock:
            for key, most, whose in (
                (who.actor, config().live_views_per_person, "you have"),
                (who.tenant_id, config().live_views_per_tenant, f"tenant {who.tenant_slug} has"),
            ):
                if self._taken[key] >= most:
                    raise NoPlace(f"{whose} {most} live pages and tails open; close some of them")
            self._taken.update((who.actor, who.tenant_id))

    def leave(self, who: Principal) -> None:
        with self._lock:
            for key in (who.actor, who.tenant_id):
                self._taken[key] -= 1
                if not self._taken[key]:
                    del self._taken[key]


_places = _Places()


@contextmanager
def place(who: Principal) -> Iterator[None]:
    """Look on. Raises NoPlace."""
    _places.take(who)
    try:
        yield
    finally:
        _places.leave(who)
