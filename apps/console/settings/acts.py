"""What persons change of a tenant from the console: the services of the API, by POST, answered in JSON."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest

from apps.console.settings import forms
from apps.console.settings.refusals import acted
from apps.definitions import secret_use
from apps.executions import circuit_services
from apps.tenants import channels, keys, members, secret_store
from apps.tenants.key_input import read_name, read_scopes, refuse_past
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import NotFound

Told = dict[str, Any]
_SECRET = ("store", "value", "variable", "path", "key_of_vault")
_CHANNEL = ("kind", "url", "to", "routing_key", "severity")


@acted(Role.OWNER, "username", "role")
def add_member(request: HttpRequest, principal: Principal) -> Told:
    role = members.read_role(forms.text(request.POST, "role"))
    made = members.add(principal=principal, username=forms.text(request.POST, "username"), role=role)
    return {"said": f"{made.user.get_username()} is a member", "reload": True}


@acted(Role.OWNER, "role")
def member_act(request: HttpRequest, principal: Principal, *, username: str, act: str) -> Told:
    """role, remove."""
    if act == "role":
        role = members.read_role(forms.text(request.POST, "role"))
        members.change(principal=principal, username=username, role=role)
        return {"said": f"{username} is {role.value}", "reload": True}
    _only(act, "remove")
    members.remove(principal=principal, username=username)
    return {"said": f"{username} is no member any more", "reload": True}


@acted(Role.OWNER, "name", "role", "life", "expires_at", several=("scopes",))
def make_key(request: HttpRequest, principal: Principal) -> Told:
    """The key's text is in this answer and nowhere else."""
    now = SYSTEM_CLOCK.now()
    expires_at = forms.expiry(request.POST, now)
    refuse_past(expires_at, given=forms.text(request.POST, "expires_at"), now=now)
    made = keys.make_over_rest(
        principal=principal,
        name=read_name(request.POST.get("name")),
        role=members.read_role(forms.text(request.POST, "role")),
        expires_at=expires_at,
        scopes=read_scopes(request.POST.getlist("scopes"), principal),
    )
    return {"said": "made", "key": made.text, "name": made.key.name}


@acted(Role.OWNER)
def key_act(request: HttpRequest, principal: Principal, *, key_id: UUID, act: str) -> Told:
    """revoke."""
    _only(act, "revoke")
    keys.revoke(principal=principal, key_id=key_id, now=SYSTEM_CLOCK.now())
    return {"said": "revoked", "reload": True}


@acted(Role.OPERATOR, "name", *_SECRET)
def make_secret(request: HttpRequest, principal: Principal) -> Told:
    name = forms.text(request.POST, "name")
    secret_store.create(principal=principal, name=name, given=forms.secret(request.POST))
    return {"said": f"{name} is kept", "reload": True}


@acted(Role.OPERATOR, *_SECRET)
def secret_act(request: HttpRequest, principal: Principal, *, name: str, act: str) -> Told:
    """replace, delete (refused while something refers to it)."""
    if act == "replace":
        secret_store.replace(principal=principal, name=name, given=forms.secret(request.POST))
        return {"said": f"{name} is replaced", "reload": True}
    _only(act, "delete")
    secret_use.delete_secret(principal=principal, name=name)
    return {"said": f"{name} is forgotten", "reload": True}


@acted(Role.OPERATOR, "name", *_CHANNEL)
def make_channel(request: HttpRequest, principal: Principal) -> Told:
    kind = forms.text(request.POST, "kind")
    given = forms.channel(request.POST, kind)
    made = channels.create(principal=principal, kind=kind, name=forms.text(request.POST, "name"), given=given)
    return {"said": f"{made.uri} is made", "reload": True}


@acted(Role.OPERATOR, *_CHANNEL)
def channel_act(request: HttpRequest, principal: Principal, *, channel_id: UUID, act: str) -> Told:
    """replace (secret parts left empty stay), delete (refused while something names it)."""
    if act == "replace":
        kind = channels.channel(principal, channel_id).kind
        given = forms.channel(request.POST, kind)
        made = channels.replace(principal=principal, channel_id=channel_id, given=given)
        return {"said": f"{made.uri} is configured anew", "reload": True}
    _only(act, "delete")
    secret_use.delete_channel(principal=principal, channel_id=channel_id)
    return {"said": "forgotten", "reload": True}


@acted(Role.OPERATOR)
def circuit_act(request: HttpRequest, principal: Principal, *, circuit_id: int, act: str) -> Told:
    """close."""
    _only(act, "close")
    circuit_services.reset(principal=principal, circuit_id=circuit_id)
    return {"said": "closed", "reload": True}


def _only(act: str, known: str) -> None:
    if act != known:
        raise NotFound(f"{act} is nothing that can be done here")
