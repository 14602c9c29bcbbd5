"""Passwords are checked here. One that is tried at account after account is found out wherever the tries come from.

Kept in Redis for an hour: at how many accounts a password was tried in vain, under 24 bits of its keyed hash, so that
who reads Redis and holds the key, too, learns of no password more than that. Nothing tells whether it is somebody's:
what succeeds is not counted, and the refusal comes before the account is looked at. Nobody is locked out of where they
work: a network from which an account has logged in is not asked for this count.
"""

import logging
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from apps.tenants.limits import account_of, network_of
from chronoweb.runtime.config import config
from chronoweb.runtime.rate_limit import TooMany, limiter

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 3600
KNOWN_SECONDS = 90 * 24 * 3600
"""So long a network is one from which the account logs in, since it last has."""
_PASSWORD_DIGITS = 6
_PLACE_DIGITS = 32


class CountedPasswords(ModelBackend):
    """Django's check of a name and a password. Raises TooMany for a password that goes around."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        if request is None or not username or not password:
            return super().authenticate(request, username, password, **kwargs)
        tried = _Tried(network_of(request.META.get("REMOTE_ADDR", "")), account_of(username), password)
        tried.refuse_what_goes_around()
        user = super().authenticate(request, username, password, **kwargs)
        tried.in_vain() if user is None else tried.well()
        return user


class _Tried:
    """One password at one account, from one network."""

    def __init__(self, network: str, account: str, password: str) -> None:
        password = _hashed("password", password, _PASSWORD_DIGITS)
        self._count = f"login:password:{password}"
        self._pair = f"login:tried:{_hashed('pair', f'{password} {account}', _PLACE_DIGITS)}"
        self._place = f"login:known:{_hashed('place', f'{account} {network}', _PLACE_DIGITS)}"

    def refuse_what_goes_around(self) -> None:
        limit = config().login_accounts_per_password
        taken = limiter().take(self._count, limit, window_seconds=WINDOW_SECONDS, count=0)
        if taken is None or taken.remaining or limiter().is_noted(self._place):
            return
        logger.warning("a password is tried at many accounts", extra={"action": "login.spray", "accounts": taken.used})
        taken = taken._replace(let_in=False, retry_seconds=max(1, taken.reset_seconds))
        raise TooMany(taken, f"too many tries to log in; try again in {taken.retry_seconds} s")

    def in_vain(self) -> None:
        """Counted once for each account: who mistypes their own again and again goes around nowhere."""
        if limiter().note(self._pair, WINDOW_SECONDS):
            limiter().take(self._count, config().login_accounts_per_password, window_seconds=WINDOW_SECONDS)

    def well(self) -> None:
        limiter().note(self._place, KNOWN_SECONDS, anew=True)


def _hashed(what: str, text: str, digits: int) -> str:
    return salted_hmac(f"chronoweb.login.{what}", text.encode("utf-8", "replace"), algorithm="sha256").hexdigest()[
        :digits
    ]
