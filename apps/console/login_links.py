"""Login links for people who start an installation: signed, good for a while, and once."""

import secrets
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core import signing

from chronoweb.runtime import redis_client
from chronoweb.runtime.config import config

_SALT = "chronoweb.console.login"


@dataclass(frozen=True)
class Refused:
    """Why a link does not log in, for its holder to read."""

    why: str


def mint(user: AbstractBaseUser, valid_seconds: int = 3600) -> str:
    """A path that logs `user` in once, within `valid_seconds`."""
    content = [user.pk, secrets.token_urlsafe(12), valid_seconds]
    token = signing.TimestampSigner(salt=_SALT).sign_object(content, compress=False)
    return f"/login/{token}"


def redeem(token: str) -> Any:
    """The user that the link is for, or Refused. A second call for one link is refused.

    Raises redis.RedisError while Redis is away: then nobody can say whether the link was used.
    """
    signer = signing.TimestampSigner(salt=_SALT)
    try:
        user_id, nonce, valid_seconds = signer.unsign_object(token)
        signer.unsign_object(token, max_age=valid_seconds)
    except signing.SignatureExpired:
        return Refused("this login link is over")
    except signing.BadSignature:
        return Refused("this is no login link of this installation")
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return Refused("the account of this login link is closed")
    with redis_client.connect() as client:
        first = client.set(f"{config().redis_prefix}login:{nonce}", b"used", nx=True, ex=valid_seconds + 60)
    return user if first else Refused("this login link has been used; each works once")
