"""A secret that everything has used is found nowhere: in no table, key, topic, file, log, answer or page.

The tables come from the catalog, the routes from the resolver, the admin's pages from its registry: what is added later
is searched, too. What is compressed is searched unpacked; what is escaped, in every form that anything here escapes to.
"""

import base64
import html
import json
import logging
import secrets
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import psycopg
import pytest
import redis
from asgiref.sync import async_to_sync
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver, reverse
from pytest_django import DjangoDbBlocker, Settings

from apps.executions.models import Execution
from apps.executions.states import Status
from apps.quickstart.services import ServiceAddresses
from apps.tenants.models import Role, Tenant
from apps.tenants.secret_places import Store
from chronoweb.runtime.logs import JsonFormatter
from tests.console_ledger import make_person
from tests.container_tools import IMAGE, podman
from tests.factories import Api, make_api, make_tenant
from tests.stack import Processes, cloned, django_uses, processes
from tests.test_handlers_webhook import Answers, Server
from tests.test_tenant_walls import OPEN, Route, walk
from tests.vault_server import TOKEN, VaultServer
from tests.waiting import eventually

DAEMONS = ("preloader", "dispatcher", "worker", "logshipper")
PRINTS = 'echo "$TOKEN"; printf %s "$TOKEN" | base64 -w0; echo; printf "{\\"t\\": \\"%s\\"}\\n" "$TOKEN"'


# ---- the forms of a value ------------------------------------------------------------------------------------------


def forms_of(value: str) -> set[bytes]:
    """Every form that something here, or a program that prints it, may give to a value."""
    quoted = {quote(value, safe=""), quote(value), quote_plus(value)}
    texts = {value, html.escape(value), value.encode().hex(), *quoted}
    texts |= {text.replace(text, _small_escapes(text)) for text in quoted}
    texts |= {json.dumps(text)[1:-1] for text in texts}
    texts |= {json.dumps(text)[1:-1] for text in texts}
    return {text.encode() for text in texts | set(_in_base64(value.encode()))} | {value[-16:].encode()}


def _small_escapes(text: str) -> str:
    return "".join(part if n == 0 else part[:2].lower() + part[2:] for n, part in enumerate(text.split("%")))


def _in_base64(raw: bytes) -> Iterator[str]:
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")[4:-4]
        yield from (text, text.replace("+", "-").replace("/", "_"))


def test_the_forms_are_those_that_would_be_found() -> None:
    value = 'pl&nt "q" <b>/+ü'
    forms = forms_of(value)
    for hidden in (
        f"x{value}y",
        json.dumps({"a": json.dumps([value])}),
        f"https://x/?q={quote(value)}",
        base64.b64encode(b"user:" + value.encode()).decode(),
        html.escape(f"<p>{value}"),
    ):
        assert any(form in hidden.encode() for form in forms), hidden


# ---- everything that uses it --------------------------------------------------------------------------------------


class Echo(Answers):
    """Answers with what it was sent, as servers do that explain their refusals."""

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append({"path": self.path, "headers": dict(self.headers), "body": body})
        said = json.dumps({"path": self.path, "headers": dict(self.headers), "body": body.decode()}).encode()
        self.answer(500 if "fail" in self.path else 200, said, {"X-Echo": self.headers.get("X-Token", "")})

    do_GET = do_POST = handle_any


@dataclass
class Stage:
    """All daemons on a database, a Redis prefix and Kafka topics of their own, and a tenant that uses secrets."""

    api: Api
    daemons: Processes
    folder: Path
    url: str
    prefix: str
    vault: VaultServer
    server: Server
    values: dict[str, str] = field(default_factory=dict)
    answers: list[tuple[str, bytes]] = field(default_factory=list)
    is_short: bool = False

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Over REST; every answer is searched later."""
        answer = self.api.call(method, path, body, **options)
        content = content_of(answer)
        self.answers.append((f"{method} {path}", content + str(answer.headers).encode()))
        return answer


def content_of(answer: Any) -> bytes:
    """Of a stream, too, up to its end."""
    if not answer.streaming:
        return answer.content
    return async_to_sync(_gathered)(answer) if answer.is_async else b"".join(answer.streaming_content)


async def _gathered(answer: Any) -> bytes:
    return b"".join([part async for part in answer.streaming_content])


@pytest.fixture
def stage(
    services: ServiceAddresses,
    template_database: str,
    django_db_blocker: DjangoDbBlocker,
    settings: Settings,
    unique: str,
    redis_prefix: str,
) -> Iterator[Stage]:
    slug, vault = "t" + secrets.token_hex(6), VaultServer()
    kafka = services.kafka_bootstrap_servers or ""
    with (
        tempfile.TemporaryDirectory(prefix="chronoweb-planted-") as name,
        podman() as engine,
        cloned(services, template_database) as url,
        django_uses(url, django_db_blocker),
        echoing() as server,
    ):
        folder = Path(name)
        variables = {
            "KAFKA_BOOTSTRAP_SERVERS": kafka,
            "CHRONOWEB_KAFKA_PREFIX": f"{unique}.",
            "CHRONOWEB_KAFKA_PARTITIONS": "2",
            "CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS": "127.0.0.0/8",
            "CHRONOWEB_CONTAINER_ENGINE": "podman",
            "CHRONOWEB_CONTAINER_ENGINE_ARGUMENTS": ",".join(engine.policy.engine_arguments),
            "CHRONOWEB_CONTAINER_RUN_ARGUMENTS": ",".join(engine.policy.run_arguments),
            "CHRONOWEB_CONTAINER_PULL": "never",
            "CHRONOWEB_SECRET_ENVIRONMENT": f"{slug}=PLANT_",
            "CHRONOWEB_VAULT_ADDRESS": vault.url,
            "CHRONOWEB_LOG_SHIP_SECONDS": "0.2",
            "VAULT_TOKEN": TOKEN,
            "LOG_DIRECTORY": str(folder / "chunks"),
            "LOG_LEVEL": "DEBUG",
        }
        values = {store: f'pl&nt "q" <b>/+ {secrets.token_urlsafe(24)}' for store in Store.values}
        variables["PLANT_IT"] = values[Store.ENVIRONMENT]
        vault.put(f"chronoweb/{slug}/planted", it=values[Store.VAULT])
        with processes(url, services, redis_prefix, folder, **variables) as daemons:
            for daemon in DAEMONS:
                daemons.start(daemon, daemon)
            settings.CHRONOWEB = replace(
                settings.CHRONOWEB,
                redis_prefix=redis_prefix,
                kafka_prefix=f"{unique}.",
                kafka_partitions=2,
                outbound_allowed_networks=("127.0.0.0/8",),
                secret_environment=(f"{slug}=PLANT_",),
                vault_address=vault.url,
            )
            settings.SERVICES = replace(settings.SERVICES, database_url=url, database_direct_url=url)
            logs = {"BACKEND": "apps.logs.objects.DurableFiles", "OPTIONS": {"location": str(folder / "chunks")}}
            settings.STORAGES = {**settings.STORAGES, "logs": logs}
            tenant = make_tenant()
            Tenant.objects.filter(id=tenant.id).update(slug=slug)
            tenant.refresh_from_db()
            api = make_api(tenant, role=Role.OWNER)
            yield Stage(api, daemons, folder, url, redis_prefix, vault, server, values)
    vault.close()


@contextmanager
def echoing() -> Iterator[Server]:
    server = Server()
    assert isinstance(server.RequestHandlerClass, type)
    assert issubclass(server.RequestHandlerClass, BaseHTTPRequestHandler)
    server.RequestHandlerClass = type("Bound", (Echo,), {"seen": server.seen})
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def plant(stage: Stage) -> None:
    """In every store, and with the mistakes that people make: twice, wrongly, over each other."""
    values = stage.values
    body = {"name": Store.DATABASE.value, "value": values[Store.DATABASE]}
    for _ in range(2):
        assert stage.ask("post", "/secrets", body, headers={"Idempotency-Key": "planted"}).status_code == 201
    assert stage.ask("post", "/secrets", body).status_code == 409
    for wrong in ({**body, "name": "no name"}, {**body, "note": values[Store.DATABASE]}, [values[Store.DATABASE]]):
        assert stage.ask("post", "/secrets", wrong).status_code == 422
    cut = json.dumps(body).encode()[:-1]
    assert stage.ask("post", "/secrets", cut).status_code == 400
    assert stage.ask("put", "/secrets/database", {"value": values[Store.DATABASE]}).status_code == 200
    elsewhere = (
        {"name": "environment", "store": "environment", "variable": "PLANT_IT"},
        {"name": "vault", "store": "vault", "path": "planted", "key": "it"},
    )
    for one in elsewhere:
        assert stage.ask("post", "/secrets", one).status_code == 201
    values["channel"] = "hook" + secrets.token_hex(12)
    channel = {"url": f"https://8.8.8.8/services/{values['channel']}"}
    made = stage.ask("post", "/notification-channels", {"kind": "slack", "name": "ops", "config": channel})
    assert made.status_code == 201
    assert stage.ask("put", f"/notification-channels/{made.json()['id']}", {"config": channel}).status_code == 200


def handlers(stage: Stage, name: str) -> dict[str, dict[str, Any]]:
    """Each kind of handler that may refer to the secret, and each place; a few of them for what lies elsewhere."""
    it = f"{{{{secret:{name}}}}}"
    webhook = {
        "type": "webhook",
        "headers": {"Authorization": {"secret": name, "prefix": "Bearer "}, "X-Token": it},
        "body": {"token": it, "both": f"{it}{it}"},
    }
    environment = {"TOKEN": it, "URL": f"postgres://u:{it}@h/d"}
    shell = ["/bin/sh", "-c"]
    found = {
        "webhook": {**webhook, "url": f"{stage.server.url}/ok/{it}?key={it}"},
        "webhook-fails": {**webhook, "url": f"{stage.server.url}/fail/{it}"},
        "webhook-text": {**webhook, "url": f"{stage.server.url}/ok", "body": f"token={it}"},
        "command": {"type": "command", "argv": [*shell, PRINTS], "environment": environment},
        "command-fails": {"type": "command", "argv": [*shell, f"({PRINTS}) >&2; exit 7"], "environment": environment},
        "container": {"type": "container", "image": IMAGE, "command": [*shell, PRINTS], "environment": environment},
        "container-fails": {
            "type": "container",
            "image": IMAGE,
            "command": [*shell, f"({PRINTS}) >&2; exit 7"],
            "environment": environment,
        },
    }
    few = ("webhook", "webhook-fails", "command", "command-fails")
    return found if name == Store.DATABASE and not stage.is_short else {kind: found[kind] for kind in few}


def use(stage: Stage, name: str) -> list[str]:
    """Tasks of every kind, triggered; a DAG whose first node fails, so that its second is never run. Execution ids."""
    runs = []
    for kind, handler in handlers(stage, name).items():
        once = {"max_attempts": 1, "backoff": "fixed", "base_delay_seconds": 0, "max_delay_seconds": 1}
        task = {"name": f"{name}-{kind}", "schedule": {"type": "manual"}, "handler": handler, "retry_policy": once}
        made = stage.ask("post", "/tasks", task)
        assert made.status_code == 201, made.content
        runs.append(stage.ask("post", f"/tasks/{made.json()['id']}/trigger", {}).json()["id"])
    failing, never = handlers(stage, name)["command-fails"], handlers(stage, name)["webhook"]
    nodes = [
        {"id": "fails", "handler": failing, "retry_policy": {"max_attempts": 1}},
        {"id": "never", "handler": never, "depends_on": ["fails"]},
    ]
    dag = stage.ask("post", "/dags", {"name": f"{name}-dag", "nodes": nodes})
    assert dag.status_code == 201, dag.content
    assert stage.ask("post", f"/dags/{dag.json()['id']}/trigger", {}).status_code == 202
    return runs


# ---- everything that is kept or shown -----------------------------------------------------------------------------


def of_database(url: str) -> Iterator[tuple[str, bytes]]:
    """Each row of each table, bytes as they are."""
    query = (
        "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        for (table,) in connection.execute(query).fetchall():
            for row in connection.cursor(binary=True).execute(f"SELECT * FROM {table}"):
                yield table, repr(row).encode()
                yield table, b" ".join(value for value in row if isinstance(value, bytes))
            for (text,) in connection.execute(f"SELECT t::text FROM {table} t"):
                yield table, text.encode()


def of_redis(client: redis.Redis, prefix: str) -> Iterator[tuple[str, bytes]]:
    """DUMP would be compressed; so every kind is read."""
    read: dict[Any, Any] = {
        b"string": lambda key: client.get(key),
        b"hash": lambda key: client.hgetall(key),
        b"stream": lambda key: client.xrange(key),
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": lambda key: client.smembers(key),
        b"zset": lambda key: client.zrange(key, 0, -1),
    }
    for key in client.scan_iter(match=f"{prefix}*", count=1000):
        kind = client.type(key)
        if kind != b"none":
            yield f"Redis {key!r}", key + b"".join(_bytes(read[kind](key)))


def _bytes(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
        yield from _unpacked(value)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _bytes(pair)
    elif isinstance(value, list | tuple | set):
        for one in value:
            yield from _bytes(one)


def _unpacked(data: bytes) -> Iterator[bytes]:
    """What is compressed by zlib or gzip, member by member."""
    while data:
        unpacker = zlib.decompressobj(47)
        try:
            yield unpacker.decompress(data)
        except zlib.error:
            return
        data = unpacker.unused_data


def of_kafka(bootstrap: str, prefix: str) -> Iterator[tuple[str, bytes]]:
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    own = {name: topic for name, topic in topics.items() if name.startswith(prefix)}
    assert own, "the daemons made topics"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{prefix}search", "enable.auto.commit": False})
    places = [(name, number) for name, topic in own.items() for number in topic.partitions]
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
    while (message := consumer.poll(2.0)) is not None:
        assert message.error() is None, message.error()
        yield f"Kafka {message.topic()}", b"".join(_bytes([message.key() or b"", message.value() or b""]))
        yield f"Kafka {message.topic()}", repr(message.headers()).encode()
    consumer.close()


def of_files(stage: Stage) -> Iterator[tuple[str, bytes]]:
    """Logs of daemons, chunks of attempts' logs."""
    for file in stage.folder.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            yield str(file.relative_to(stage.folder)), b"".join(_bytes(data))


def of_routes(stage: Stage) -> Iterator[tuple[str, bytes]]:
    """Every GET of the API and of the console, for every object that there is."""
    owned = own_ids(stage)
    browser = Client()
    browser.force_login(make_person(stage.api.tenant, role=Role.OWNER))
    for route in walk_gets():
        assert set(route.parameters) <= owned.keys(), f"say in own_ids what {route.path} is to be asked for"
        tries: list[dict[str, Any]] = [{}]
        for name in route.parameters:
            tries = [{**one, name: value} for one in tries for value in owned[name]]
        for values in tries:
            path = route.to(values)
            headers = {"Authorization": f"Bearer {stage.api.key}"} if route.is_api else {}
            yield path, content_of(browser.get(path, headers=headers))
    for execution in owned["execution_id"]:
        stage.ask("get", f"/executions/{execution}/logs/download?format=text")
    for version in (1, 2):
        stage.ask("get", f"/dags/{owned['dag_id'][0]}/versions/1?compare={version}")


def walk_gets() -> list[Route]:
    found = walk(get_resolver().url_patterns)
    return [route for route in found if "get" in route.methods and route.path not in OPEN and "/docs" not in route.path]


def own_ids(stage: Stage) -> dict[str, list[Any]]:
    """A parameter of a route → what the tenant has."""

    def listed(path: str, name: str = "id") -> list[Any]:
        return [item[name] for item in stage.ask("get", path).json()["items"]]

    dags = listed("/dags")
    runs = [run for dag in dags for run in listed(f"/dags/{dag}/executions")]
    executions = [
        str(one) for one in Execution.objects.filter(tenant_id=stage.api.tenant.id).values_list("id", flat=True)
    ]
    return {
        "slug": [stage.api.tenant.slug],
        "task_id": listed("/tasks"),
        "execution_id": executions,
        "identity": executions,
        "circuit_id": listed("/circuits"),
        "key_id": listed("/api-keys"),
        "channel_id": listed("/notification-channels"),
        "username": [],
        "name": listed("/secrets", "name"),
        "dag_id": dags,
        "number": [1],
        "run_id": runs,
        "node_id": ["fails", "never"],
        "backfill_id": [],
        "replay_id": listed("/admin/dlq/replays"),
        "worker_id": [],  # these are POSTs
        "tenant_id": [],  # of the platform's own routes
        "act": [],  # these are POSTs
    }


def of_admin() -> Iterator[tuple[str, bytes]]:
    """Every list and every object's page."""
    browser = Client()
    browser.force_login(User.objects.create_superuser("root-" + secrets.token_hex(4)))
    for model in admin.site._registry:
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield base, browser.get(reverse(f"{base}_changelist")).content
        for row in model._default_manager.all()[:6]:
            yield base, browser.get(reverse(f"{base}_change", args=[row.pk])).content
    yield "admin", browser.get("/admin/").content


class Kept(logging.Handler):
    """What the web process would log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def web_log() -> Iterator[Kept]:
    kept = Kept()
    logging.getLogger().addHandler(kept)
    yield kept
    logging.getLogger().removeHandler(kept)


@pytest.mark.parametrize(
    "stores", [("database",), pytest.param(("database", "environment", "vault"), marks=pytest.mark.drill)], ids=len
)
def test_it_is_nowhere(
    stage: Stage, services: ServiceAddresses, redis_client: redis.Redis, web_log: Kept, stores: tuple[str, ...]
) -> None:
    """In the suite with one store; with all of them, and in containers, it takes longer."""
    stage.is_short = len(stores) == 1
    plant(stage)
    runs = [run for name in stores for run in use(stage, name)]
    of_dags = Execution.objects.filter(tenant_id=stage.api.tenant.id, dag_run_id__isnull=False)

    def have_ended() -> bool:
        ended = (Status.COMPLETED, Status.DEAD_LETTER)
        rows = Execution.objects.filter(id__in=runs, status__in=ended).count()
        return rows == len(runs) and of_dags.filter(status__in=ended).count() == len(stores)

    eventually(have_ended, seconds=90)
    rows = {row.task_version.name: row for row in Execution.objects.filter(id__in=runs).select_related("task_version")}
    for name in stores:
        for kind in handlers(stage, name):
            row, fails = rows[f"{name}-{kind}"], kind.endswith("fails")
            assert row.state is (Status.DEAD_LETTER if fails else Status.COMPLETED), (row.error, row.result)
            assert "***" in json.dumps(row.error if fails else row.result), "it was there, and was hidden"
        seen = [one for one in stage.server.seen if stage.values[name] in str(one["headers"])]
        assert len(seen) == 2 + ("webhook-text" in handlers(stage, name)), "the server was told"
    eventually(lambda: any_chunk(stage))

    places = list(of_routes(stage)) + list(of_admin())
    places += of_database(stage.url)
    places += of_redis(redis_client, stage.prefix)
    places += of_kafka(services.kafka_bootstrap_servers or "", stage.prefix.rstrip(":") + ".")
    places += of_files(stage)
    places += [("the web process's log", line.encode()) for line in web_log.lines]
    places += stage.answers
    where = {place for place, _ in places}
    assert len(where) > 100
    assert sum("***" in content.decode("utf-8", "replace") for _, content in places) > 50
    forms = {form for value in stage.values.values() for form in forms_of(value)}
    found = {place: around(content, form) for place, content in places for form in forms if form in content}
    assert found == {}


def around(content: bytes, form: bytes) -> bytes:
    at = content.index(form)
    return content[max(0, at - 80) : at + len(form) + 40]


def any_chunk(stage: Stage) -> bool:
    return any(file.is_file() for file in (stage.folder / "chunks").rglob("*"))
