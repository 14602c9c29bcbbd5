"""Encryption at rest: what the database keeps of secrets is readable only with a key that it does not hold.

SECRET_ENCRYPTION_KEYS lists Fernet keys, the newest first: it seals, all of them open. To change keys, put a new one in
front in every process, run `manage.py reseal_secrets`, then take the old one away.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from chronoweb.runtime.errors import ChronowebError, ConfigurationError

SETTING = "SECRET_ENCRYPTION_KEYS"
HOW = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
_KEY_BYTES = 32


class Unreadable(ChronowebError):
    """No key opens it, or it was sealed for another place: the key is gone, or the row was altered."""


def seal(text: str, *context: str) -> str:
    """The sealed text. context: where it belongs; nowhere else it opens, so that rows cannot be exchanged.

    Raises ConfigurationError without a key.
    """
    return _box().encrypt(json.dumps([*context, text]).encode()).decode()


def unseal(sealed: str, *context: str) -> str:
    """What was sealed for this context. Raises Unreadable, ConfigurationError without a key."""
    try:
        *sealed_for, text = json.loads(_box().decrypt(sealed.encode()))
    except InvalidToken:
        raise Unreadable(f"no key of {SETTING} opens it") from None
    if sealed_for != list(context):
        raise Unreadable("it was sealed for another tenant or name")
    return text


def reseal(sealed: str) -> str:
    """The same under the newest key. Raises Unreadable."""
    try:
        return _box().rotate(sealed.encode()).decode()
    except InvalidToken:
        raise Unreadable(f"no key of {SETTING} opens it") from None


def new_key() -> str:
    return Fernet.generate_key().decode()


def key_problems(keys: Sequence[str]) -> list[str]:
    """What is wrong with the keys, one sentence each; a key itself is never said."""
    return [f"key {n} of {len(keys)} in {SETTING} is no Fernet key" for n, key in enumerate(keys, 1) if not _fits(key)]


def _fits(key: str) -> bool:
    try:
        return len(base64.b64decode(key, altchars=b"-_", validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _box() -> MultiFernet:
    keys = tuple(settings.SECRET_ENCRYPTION_KEYS)
    if not keys:
        raise ConfigurationError(
            f"{SETTING} is not set, so secrets can be neither kept nor read: make a key with {HOW}"
        )
    if problems := key_problems(keys):
        raise ConfigurationError("; ".join(problems))
    return _box_of(keys)


@lru_cache(maxsize=4)
def _box_of(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])
