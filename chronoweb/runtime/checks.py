"""System checks: what is wrong with an installation's settings, told before anything runs, each with an id and a hint.

E001 no DATABASE_URL      E002 no REDIS_URL          E003 no SECRET_KEY              E004 a knob out of its range
E005 Redis may evict      E006 Kafka addresses       E007 networks that are none     E008 no key for secrets
E009 a key that is none   E010 variables of tenants  E011 no way into Vault          W001 Redis not reached

E004, E006, E007, E009 and E010 are told to every command. The others matter to what runs for long, and not to
`makemigrations`: they are deployment checks (`manage.py check --deploy`), and daemons and the web process make them
when they start.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import redis
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage

from chronoweb.runtime import config, encryption, outbound, redis_client
from chronoweb.runtime.addresses import configured
from chronoweb.runtime.errors import ConfigurationError

ALWAYS, DAEMON, WEB, SECRETS = "chronoweb", "chronoweb_daemon", "chronoweb_web", "chronoweb_secrets"
"""Tags: for every command; for what works on the ledger; for what serves pages; for what opens tenants' secrets."""

UNSET_SECRET_KEY = "unset-"  # noqa: S105  what settings put before a key that they had to invent
_KAFKA_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_SAFE_POLICY = "noeviction"
_QUICKSTART = "or run `manage.py quickstart`, which starts services that other commands of this folder find"


def register_all() -> None:
    """Make the checks known to Django; called once, when apps are ready."""
    found: tuple[tuple[Callable[..., list[CheckMessage]], tuple[str, ...], bool], ...] = (
        (check_config, (ALWAYS,), False),
        (check_kafka, (ALWAYS,), False),
        (check_networks, (ALWAYS,), False),
        (check_encryption_keys, (ALWAYS,), False),
        (check_database_url, (DAEMON, WEB), True),
        (check_redis_url, (DAEMON, WEB), True),
        (check_secret_key, (WEB,), True),
        (check_encryption_key, (WEB, SECRETS), True),
        (check_vault, (SECRETS,), True),
        (check_eviction, (DAEMON,), True),
    )
    for check, tags, deploy in found:
        checks.register(check, *tags, deploy=deploy)


def refuse_to_serve() -> None:
    """Raise ConfigurationError, with every error and hint, if the web process would not be fit to serve."""
    found = checks.run_checks(tags=[ALWAYS, WEB], include_deployment_checks=True)
    errors = [message for message in found if message.is_serious()]
    if errors:
        raise ConfigurationError("\n".join(str(error) for error in errors))


def check_database_url(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    if configured().database_url:
        return []
    hint = f"Set DATABASE_URL=postgres://user:password@host:5432/name, {_QUICKSTART}."
    return [checks.Error("DATABASE_URL is not set, and no embedded services run.", hint=hint, id="chronoweb.E001")]


def check_redis_url(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    if configured().redis_url:
        return []
    hint = f"Set REDIS_URL=redis://:password@host:6379/0, {_QUICKSTART}."
    return [checks.Error("REDIS_URL is not set, and no embedded services run.", hint=hint, id="chronoweb.E002")]


def check_secret_key(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    if not settings.SECRET_KEY.startswith(UNSET_SECRET_KEY):
        return []
    hint = "Set SECRET_KEY to 50 random characters, the same in every web process, and keep it secret."
    problem = "SECRET_KEY is not set: each web process would sign sessions with a key of its own."
    return [checks.Error(problem, hint=hint, id="chronoweb.E003")]


def check_encryption_key(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    if settings.SECRET_ENCRYPTION_KEYS:
        return []
    hint = f"Make one with {encryption.HOW}, set it in every web process and worker, and keep a copy elsewhere."
    problem = f"{encryption.SETTING} is not set: tenants' secrets could be neither kept nor read."
    return [checks.Error(problem, hint=hint, id="chronoweb.E008")]


def check_encryption_keys(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    hint = f"Keys are made with {encryption.HOW}; several are written with commas, the newest first."
    problems = encryption.key_problems(settings.SECRET_ENCRYPTION_KEYS)
    return [checks.Error(problem + ".", hint=hint, id="chronoweb.E009") for problem in problems]


def check_config(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    hint = "Correct or unset the variable; .env.example tells each one's default and meaning."
    return [
        checks.Error(problem + ".", hint=hint, id="chronoweb.E004") for problem in config.problems(settings.CHRONOWEB)
    ]


def check_eviction(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Asks Redis. One that is away is no error: daemons outlast that, and ask again at their next start."""
    url = configured().redis_url
    if not url:
        return []
    try:
        with redis_client.connect(url) as client:
            answer = client.config_get("maxmemory-policy")
    except redis.ResponseError:
        return []  # a hosted Redis that hides CONFIG; its policy is set elsewhere
    except (redis.RedisError, OSError, ValueError) as error:
        hint = "Is it running, and is REDIS_URL right? Daemons start without it and go on when it comes."
        return [checks.Warning(f"Redis was not reached: {error}.", hint=hint, id="chronoweb.W001")]
    policy = _text(next(iter(answer.values()), _SAFE_POLICY))
    if policy == _SAFE_POLICY:
        return []
    hint = "Set `maxmemory-policy noeviction` in redis.conf, or `CONFIG SET maxmemory-policy noeviction`."
    problem = f"Redis evicts keys when memory is short (maxmemory-policy {policy}): executions would not start on time."
    return [checks.Error(problem, hint=hint, id="chronoweb.E005")]


def check_kafka(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    hint = "Write host:port, several with commas: kafka-1:9092,kafka-2:9092. Unset it to use Redis streams."
    return [
        checks.Error(f"KAFKA_BOOTSTRAP_SERVERS holds {word!r}, which is no host:port.", hint=hint, id="chronoweb.E006")
        for word in _unfit_kafka_addresses(configured().kafka_bootstrap_servers)
    ]


def check_networks(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    try:
        outbound.parse_networks(settings.CHRONOWEB.outbound_allowed_networks)
    except ValueError as error:
        hint = "Write networks as 10.1.0.0/16, several with commas."
        return [checks.Error(f"{outbound.SETTING}: {error}.", hint=hint, id="chronoweb.E007")]
    return []


def check_vault(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    address = settings.CHRONOWEB.vault_address
    if not address:
        return []
    if not address.startswith(("http://", "https://")):
        problem = f"CHRONOWEB_VAULT_ADDRESS={address!r} is no address of Vault."
    elif not settings.VAULT_TOKEN and not (settings.VAULT_ROLE_ID and settings.VAULT_SECRET_ID):
        problem = "CHRONOWEB_VAULT_ADDRESS is set, but nothing that opens Vault."
    else:
        return []
    hint = "Set it to https://host:8200, and VAULT_TOKEN, or VAULT_ROLE_ID and VAULT_SECRET_ID, for every worker."
    return [checks.Error(problem, hint=hint, id="chronoweb.E011")]


def _unfit_kafka_addresses(text: str) -> Sequence[str]:
    unfit = []
    for word in text.split(",") if text else ():
        found = _KAFKA_ADDRESS.fullmatch(word.strip())
        if found is None or not 1 <= int(found[2]) <= 65535:
            unfit.append(word.strip())
    return unfit


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
