"""Where a secret's value is kept: sealed in the database, in a variable of the workers' environment, or in Vault. Pure.

A tenant names what is its own and nothing else. Of the environment it reads the variables that begin with the prefix
that CHRONOWEB_SECRET_ENVIRONMENT gives it (none, for most); in Vault what lies below CHRONOWEB_VAULT_PREFIX and its
slug.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import TextChoices

from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

ENVIRONMENT_SETTING = "CHRONOWEB_SECRET_ENVIRONMENT"
VAULT_SETTING = "CHRONOWEB_VAULT_ADDRESS"
PATH_CHARACTERS = 512
KEY_CHARACTERS = 255
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}", re.ASCII)
_KEY = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
_SHORTEST_PREFIX = 4


class Store(TextChoices):
    """Who keeps the value."""

    DATABASE = "database"
    ENVIRONMENT = "environment"
    VAULT = "vault"


FIELDS: dict[Store, tuple[str, ...]] = {
    Store.DATABASE: ("value",),
    Store.ENVIRONMENT: ("variable",),
    Store.VAULT: ("path", "key"),
}
"""What says where a value is, or the value itself."""


def read_store(data: Mapping[str, Any]) -> Store:
    """Which store the request means; the database where it says nothing. Raises InvalidInput, no value shown."""
    word = data.get("store")
    if word is None:
        return Store.DATABASE
    if not isinstance(word, str) or word not in Store.values:
        raise InvalidInput("/store", None, "is no store of secrets", Store.values)
    return Store(word)


def read_place(data: Mapping[str, Any], store: Store, *, slug: str, config: Config) -> dict[str, str]:
    """Where the secret of the tenant `slug` lies in `store`, which is not the database. Raises InvalidInputs."""
    found = _environment(data, slug, config) if store is Store.ENVIRONMENT else _vault(data, config)
    if found:
        raise InvalidInputs(found)
    return {name: str(data[name]) for name in FIELDS[store]}


def may_read(variable: str, slug: str, config: Config) -> bool:
    """Whether the tenant's secrets may be the value of this variable."""
    prefix = prefixes(config.secret_environment).get(slug)
    return prefix is not None and variable.startswith(prefix) and len(variable) > len(prefix)


def vault_path(path: str, slug: str, config: Config) -> str:
    """The path below the mount: what another tenant has lies below another slug."""
    return "/".join(part for part in (config.vault_prefix.strip("/"), slug, path) if part)


def prefixes(pairs: Sequence[str]) -> dict[str, str]:
    """Tenant's slug → prefix of its variables, of those pairs that can be read."""
    return {slug: prefix for slug, equals, prefix in (pair.partition("=") for pair in pairs) if equals and prefix}


def pair_problems(pairs: Sequence[str]) -> list[str]:
    """What is wrong with the setting, one sentence each: no tenant's prefix may begin with another's."""
    found = []
    known: dict[str, str] = {}
    for pair in pairs:
        slug, _, prefix = pair.partition("=")
        if not slug or not _VARIABLE.fullmatch(prefix) or len(prefix) < _SHORTEST_PREFIX:
            found.append(f"{pair!r} is no tenant=PREFIX_ with at least {_SHORTEST_PREFIX} letters, digits and _")
        elif prefix.startswith("CHRONOWEB_") or "CHRONOWEB_".startswith(prefix):
            found.append(f"{pair!r} would show a tenant chronoweb's own settings")
        elif slug in known:
            found.append(f"{slug!r} comes twice")
        else:
            found += [
                f"{prefix!r} of {slug} and {other!r} of {owner} overlap: one begins with the other"
                for owner, other in known.items()
                if prefix.startswith(other) or other.startswith(prefix)
            ]
            known[slug] = prefix
    return found


def _environment(data: Mapping[str, Any], slug: str, config: Config) -> list[InvalidInput]:
    variable = data.get("variable")
    prefix = prefixes(config.secret_environment).get(slug)
    if prefix is None:
        problem = f"the tenant {slug} may read no variables: {ENVIRONMENT_SETTING} does not name it"
        return [InvalidInput("/store", None, problem, (Store.DATABASE.value, Store.VAULT.value))]
    if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable) or not may_read(variable, slug, config):
        return [InvalidInput("/variable", None, "is no variable of this tenant", f"a name that begins with {prefix}")]
    return []


def _vault(data: Mapping[str, Any], config: Config) -> list[InvalidInput]:
    if not config.vault_address:
        problem = f"this installation has no Vault: {VAULT_SETTING} is not set"
        return [InvalidInput("/store", None, problem, (Store.DATABASE.value, Store.ENVIRONMENT.value))]
    found = []
    path, key = data.get("path"), data.get("key")
    fits = isinstance(path, str) and len(path) <= PATH_CHARACTERS and all(map(_SEGMENT.fullmatch, path.split("/")))
    if not fits:
        legal = 'such as "payments/api": letters, digits, "_", "-", "." and "@", below the tenant\'s own folder'
        found.append(InvalidInput("/path", None, "is no path", legal))
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        found.append(InvalidInput("/key", None, "is no name of a field", f"1 to {KEY_CHARACTERS} characters"))
    return found
