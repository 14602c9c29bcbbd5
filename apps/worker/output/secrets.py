"""The worker's own secrets, which its handlers could print."""

import os

from django.conf import settings

from apps.logs.masking import secrets_of_process
from chronoweb.runtime.addresses import Addresses


def own_secrets(addresses: Addresses) -> frozenset[str]:
    """Values of secret-looking variables, of Django's key, and the passwords of the services."""
    variables = {
        **os.environ,
        "SECRET_KEY": settings.SECRET_KEY,
        **{f"SECRET_ENCRYPTION_KEY_{n}": key for n, key in enumerate(settings.SECRET_ENCRYPTION_KEYS)},
        "database": addresses.database_url,
        "direct": addresses.database_direct_url,
        "redis": addresses.redis_url,
    }
    return secrets_of_process(variables)
