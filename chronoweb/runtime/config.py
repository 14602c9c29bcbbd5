"""chronoweb's own settings: typed, with their unit in the name, read from the environment, checked at start.

Each field of `Config` is one environment variable, `CHRONOWEB_` + the field's name in capitals. `.env.example`
lists them all; `read` turns the environment into a `Config`; `problems` says what is wrong with one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from chronoweb.runtime.errors import ConfigurationError

PREFIX = "CHRONOWEB_"
_REGION_URL = re.compile(r"[a-z0-9][a-z0-9-]{0,62}=https?://[^\s/?#]+(?:/[^\s?#]*)?", re.ASCII)
_TRACE_URL = re.compile(r"https?://\S*\{trace_id\}\S*")
_UID_RANGE = re.compile(r"(\d{1,10})-(\d{1,10})", re.ASCII)
_WORDS = {
    "container_engine": ("auto", "podman", "docker", "none"),
    "container_pull": ("always", "missing", "never"),
}


def _number(default: float, low: float, high: float, about: str) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "about": about})


def _words(about: str) -> Any:
    return field(default=(), metadata={"about": about})


def _word(default: str, about: str) -> Any:
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Config:
    """Every knob of the scheduler itself. Times are in the unit that the name ends with."""

    # When
    lookahead_minutes: int = _number(60, 1, 1440, "how far ahead executions enter the hot tier")
    lookahead_under_pressure_minutes: int = _number(10, 1, 1440, "the same while Redis is short of memory")
    hot_tier_entries: int = _number(50_000, 100, 10_000_000, "entries of one tenant and class in the hot tier")
    materialise_margin_seconds: int = _number(120, 0, 3600, "occurrences become rows this much earlier still")
    partition_days_ahead: int = _number(14, 2, 400, "day partitions made ahead")
    partition_days_back: int = _number(7, 1, 400, "day partitions made behind, for catch-up")
    misfire_grace_seconds: int = _number(5, 0, 3600, "an occurrence this late still fires under catchup 0")
    jitter_seconds: int = _number(120, 0, 3600, "largest jitter of a cron task without strict_timing")
    preloader_poll_seconds: float = _number(1.0, 0.05, 60, "how often the preloader looks without a wake-up")
    hydrate_batch: int = _number(2000, 1, 10000, "rows that one hydrate statement moves to the hot tier")

    # Who
    dispatch_lead_ms: int = _number(150, 0, 5000, "how long before run_at work is popped and published")
    dispatch_tick_ms: int = _number(10, 1, 1000, "shortest dispatcher tick")
    unroutable_after_seconds: float = _number(3, 0, 3600, "work whose labels nobody carries is put aside after this")
    dispatch_batch: int = _number(1000, 1, 5000, "executions that one tick dispatches at most")
    credit_floor: int = _number(200, 1, 5000, "credits of a worker whose speed is not known yet")
    message_records: int = _number(500, 1, 5000, "executions in one message at most")

    # How
    worker_slots: int = _number(16, 1, 1024, "attempts that one worker runs at once")
    worker_labels: tuple[str, ...] = _words("what a worker carries: gpu, region=eu, tenant=acme (only for that tenant)")
    standard_slots_percent: int = _number(25, 1, 98, "slots of standard work's own; critical work has what is left")
    bulk_slots_percent: int = _number(15, 1, 98, "slots of bulk work's own, its cap while there is critical work")
    critical_reserve_percent: int = _number(10, 0, 100, "slots that are never lent: they wait for critical work")
    bulk_lend_after_ms: int = _number(1000, 0, 600_000, "without critical work for so long, bulk borrows its slots")
    claim_ahead_ms: int = _number(30, 1, 1000, "how long before run_at a worker claims")
    drain_grace_seconds: float = _number(30, 0, 3600, "how long SIGTERM waits for running attempts")
    drain_long_seconds: float = _number(300, 0, 86400, "what runs longer is asked at once to leave a checkpoint")
    cancel_grace_seconds: float = _number(5, 0, 25, "between asking a handler that looks out for it and killing it")
    heartbeat_seconds: float = _number(10, 0.1, 60, "how often a worker renews its lease")
    worker_lease_seconds: float = _number(30, 1, 600, "a silent worker's work is taken away after this")

    # Commands and containers
    command_user: str = _word("", "one user, by name or number, for the commands of all tenants; empty: see the next")
    command_uids: str = _word("", "first-last: numbers of which each tenant's commands get one if the worker is root")
    command_root_allowed: int = _number(0, 0, 1, "1 lets commands of a root worker run as root")
    command_memory_mib: int = _number(16384, 16, 1048576, "largest address space of a command's process")
    command_file_size_mib: int = _number(10240, 1, 1048576, "largest file that a command may write")
    command_processes: int = _number(1024, 1, 1000000, "most processes of the user that commands run as")
    command_open_files: int = _number(1024, 8, 1048576, "most files that a command's process may hold open")
    command_cpu_seconds: int = _number(86400, 1, 31536000, "most processor time of a command's process")
    container_engine: str = _word("auto", "what runs containers: auto, podman, docker or none")
    container_engine_arguments: tuple[str, ...] = _words("arguments of the engine itself, before its subcommand")
    container_run_arguments: tuple[str, ...] = _words("more arguments of the engine's run")
    container_pull: str = _word("missing", "when images are fetched: always, missing or never")
    container_processes: int = _number(256, 1, 100000, "most processes in a container")
    container_tmp_mib: int = _number(64, 1, 8192, "size of a container's /tmp, which its memory limit counts")
    container_sweep_seconds: float = _number(60, 1, 3600, "how often a worker looks for containers left behind")

    # Logs
    log_line_kib: int = _number(256, 1, 512, "longest line of a log that is kept whole")
    log_attempt_mib: float = _number(50, 0.01, 4096, "log of one attempt; behind it only the last lines are kept")
    log_buffer_mib: float = _number(8, 0.25, 1024, "lines that a worker holds while the transport does not take them")
    log_shard_mib: float = _number(8, 1, 1024, "lines of one of 16 shards that wait in Redis to be shipped")
    log_block_seconds: float = _number(10, 0, 600, "how long a full transport holds up who prints; then lines are lost")
    log_ship_seconds: float = _number(5, 0.05, 600, "lines of an attempt that goes on are shipped this often at least")
    log_claim_seconds: float = _number(5, 0.1, 600, "what a dead shipper was shipping is another's after so long")
    log_days: int = _number(90, 1, 3650, "how long logs are kept, counted from the day of scheduled_at")

    # Did it
    lease_ttl_seconds: float = _number(15, 1, 300, "how long a role's lease lasts without renewal")
    lease_renew_seconds: float = _number(5, 0.1, 100, "how often a role's lease is renewed")
    takeover_poll_ms: int = _number(250, 10, 5000, "how often a standby tries the role's lock")
    lock_lost_seconds: float = _number(2, 0.1, 60, "a worker whose lock is free this long is lost")
    claim_deadline_seconds: float = _number(30, 1, 600, "a dispatch unclaimed this long is taken back")

    # Failures of the work
    circuit_failures: int = _number(5, 1, 100, "failures in a row that open a circuit; half of the last 20 do, too")
    circuit_sample_seconds: float = _number(60, 1, 3600, "failures longer ago do not open a circuit")
    circuit_base_seconds: float = _number(30, 0.1, 3600, "first quarantine of a circuit; doubled at each relapse")
    circuit_spread_seconds: float = _number(30, 0, 3600, "up to so much, at random, is added to each quarantine")
    circuit_slow_start_seconds: float = _number(120, 0.1, 3600, "how long after a quarantine only a share runs")
    circuit_slow_start_percent: int = _number(5, 1, 100, "that share")
    retry_budget_percent: int = _number(20, 1, 1000, "a tenant's retries a minute, as a share of its executions")
    retry_budget_floor: int = _number(30, 1, 1_000_000, "retries a minute that every tenant has at least")

    # Services
    redis_prefix: str = _word("chronoweb:", "what every Redis key of this installation starts with")
    kafka_prefix: str = _word("chronoweb.", "what every Kafka topic of this installation starts with")

    kafka_partitions: int = _number(16, 1, 1000, "partitions of each topic that is made: at least the most workers")

    # Secrets
    secret_environment: tuple[str, ...] = _words("variables that secrets may be: acme=ACME_SECRET_,beta=BETA_SECRET_")
    vault_address: str = _word("", "where HashiCorp Vault answers, such as https://vault:8200; empty: there is none")
    vault_mount: str = _word("secret", "where Vault's key-value store, version 2, is mounted")
    vault_prefix: str = _word("chronoweb", "the folder there in which each tenant has a folder of its slug")
    vault_namespace: str = _word("", "Vault's namespace; empty: none")
    vault_approle_mount: str = _word("approle", "where Vault's AppRole is mounted, if there is no VAULT_TOKEN")
    vault_ca_file: str = _word("", "certificates that Vault's is checked against; empty: the system's")
    vault_timeout_seconds: float = _number(5, 0.1, 60, "how long a worker waits for an answer of Vault's")

    # Where
    region: str = _word("", "the region of this installation; empty: it serves tenants of every region")
    region_urls: tuple[str, ...] = _words(
        "where the other regions are: eu-west=https://eu.example.com, comma-separated"
    )

    trace_url: str = _word("", "where traces are looked at, such as https://tracing.example.com/trace/{trace_id}")

    # API
    web_threads: int = _number(8, 1, 500, "requests that a web process works on at once")
    web_database_connections: int = _number(
        12, 0, 1000, "most connections to PostgreSQL of a web process's requests, which share them; 0: each has its own"
    )
    web_statement_seconds: float = _number(
        5, 0, 600, "longest statement of a request, and search of an act by filter; exports and streams none; 0: no end"
    )
    payload_bytes: int = _number(262144, 1024, 16777216, "largest parameters or result, as JSON text")
    idempotency_days: int = _number(7, 1, 90, "how long an idempotency key is remembered")
    access_token_minutes: float = _number(10, 0.01, 1440, "how long an access token of a person is good")
    refresh_token_days: float = _number(7, 0.01, 365, "how long a refresh token is good; each is good once")
    login_tries_per_account: int = _number(10, 1, 10_000, "tries a minute of one account's password from one address")
    login_tries_per_address: int = _number(60, 1, 100_000, "tries a minute of any password from one address")
    login_accounts_per_password: int = _number(
        50, 1, 100_000, "accounts an hour that one password is tried at in vain, from where they have not logged in"
    )
    live_views_per_person: int = _number(
        50, 1, 100_000, "live pages and tails of logs that one web process serves one person, or one API key"
    )
    live_views_per_tenant: int = _number(2000, 1, 1_000_000, "the same of one tenant")
    outbound_allowed_networks: tuple[str, ...] = _words("CIDRs that webhooks and containers may reach although private")

    @property
    def unknown_words(self) -> list[str]:
        """What is wrong with the settings that are one of a few words."""
        return [
            f"{PREFIX}{name.upper()}={getattr(self, name)!r} is none of {', '.join(legal)}"
            for name, legal in _WORDS.items()
            if getattr(self, name) not in legal
        ]

    @property
    def urls_by_region(self) -> dict[str, str]:
        """Region → base URL, without a slash at its end."""
        pairs = (word.partition("=") for word in self.region_urls)
        return {region: url.rstrip("/") for region, _, url in pairs}

    @property
    def is_consistent(self) -> bool:
        return self.lease_renew_seconds * 2 <= self.lease_ttl_seconds


def read(environment: Mapping[str, str]) -> Config:
    """The configuration that `environment` asks for; names that it lacks keep their default.

    Raises ConfigurationError for a value that is not of the field's type.
    """
    given: dict[str, Any] = {}
    for spec in fields(Config):
        text = environment.get(PREFIX + spec.name.upper())
        if text is None or text == "":
            continue
        given[spec.name] = _parse(spec.name, spec.type, text)
    return Config(**given)


def _parse(name: str, kind: Any, text: str) -> Any:
    if kind is int or kind is float:
        try:
            return kind(text)
        except ValueError:
            raise ConfigurationError(f"{PREFIX}{name.upper()}={text!r} is not a number") from None
    if kind is str:
        return text
    return tuple(word.strip() for word in text.split(",") if word.strip())


def uid_range(text: str) -> range | None:
    """The numbers of first-last; None if they are none that users may have."""
    found = _UID_RANGE.fullmatch(text)
    if found is None or not 1000 <= int(found[1]) <= int(found[2]) < 2**32 - 2:
        return None
    return range(int(found[1]), int(found[2]) + 1)


def problems(config: Config) -> list[str]:
    """What is out of range, one sentence each, naming the variable, its value and the legal range."""
    found = []
    for spec in fields(Config):
        low, high = spec.metadata.get("low"), spec.metadata.get("high")
        value = getattr(config, spec.name)
        if low is not None and not low <= value <= high:
            found.append(f"{PREFIX}{spec.name.upper()}={value} is outside {low} to {high}")
    found += config.unknown_words
    if config.command_uids and uid_range(config.command_uids) is None:
        found.append(f"{PREFIX}COMMAND_UIDS={config.command_uids!r} is not first-last, numbers from 1000 to 4294967293")
    found += [
        f"{PREFIX}REGION_URLS: {word!r} is not a region and its URL, such as eu-west=https://eu.example.com"
        for word in config.region_urls
        if not _REGION_URL.fullmatch(word)
    ]
    if config.trace_url and not _TRACE_URL.fullmatch(config.trace_url):
        found.append(f"{PREFIX}TRACE_URL={config.trace_url!r} is no http or https URL with {{trace_id}} in it")
    if config.standard_slots_percent + config.bulk_slots_percent >= 100:
        found.append(
            f"{PREFIX}STANDARD_SLOTS_PERCENT={config.standard_slots_percent} and "
            f"{PREFIX}BULK_SLOTS_PERCENT={config.bulk_slots_percent} must leave something of 100 to critical work"
        )
    if not config.is_consistent:
        found.append(
            f"{PREFIX}LEASE_RENEW_SECONDS={config.lease_renew_seconds} must be at most half of "
            f"{PREFIX}LEASE_TTL_SECONDS={config.lease_ttl_seconds}, or one late renewal loses the role"
        )
    return found


def config() -> Config:
    """The running process's configuration."""
    from django.conf import settings

    return settings.CHRONOWEB
