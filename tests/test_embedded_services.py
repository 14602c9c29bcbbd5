"""The embedded services: they come up, keep their data, and leave nothing behind however their parent ends."""

import contextlib
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from apps.quickstart import data_directory
from apps.quickstart.child_process import last_lines
from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.errors import DataDirectoryInUse, EmbeddedServiceFailed, EmbeddedServiceMissing
from apps.quickstart.packages import package_folder
from apps.quickstart.services import EmbeddedServices, ServiceAddresses, running_services
from tests.waiting import PATIENCE_SECONDS, eventually

ROOT = Path(__file__).resolve().parent.parent
HOLDER = """
import signal, sys
from pathlib import Path
from apps.quickstart.services import EmbeddedServices
EmbeddedServices(Path(sys.argv[1]), kafka=True, postgres_settings={"shared_buffers": "32MB"}).start()
signal.pause()
"""


def embedded(data_dir: Path, **settings: str) -> EmbeddedServices:
    return EmbeddedServices(data_dir, postgres_settings={"shared_buffers": "32MB"} | settings)


def write_row(addresses: ServiceAddresses, text: str) -> None:
    with psycopg.connect(addresses.database_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (line text)")
        connection.execute("INSERT INTO kept VALUES (%s)", [text])


def rows(addresses: ServiceAddresses) -> list[str]:
    with psycopg.connect(addresses.database_url) as connection:
        return [line for (line,) in connection.execute("SELECT line FROM kept ORDER BY line")]


def show(addresses: ServiceAddresses, name: str) -> str:
    with psycopg.connect(addresses.database_url) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def servers_of(data_dir: Path, name: str = "") -> list[psutil.Process]:
    """Every living process (of that name) that works in the data directory, children of servers included."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(str(data_dir)) and process.status() != psutil.STATUS_ZOMBIE:
                found += [process] if name in ("", process.name()) else []
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def addresses_listened_on(data_dir: Path) -> set[str]:
    """Where they listen. PostgreSQL's helpers come and go: one that has just ended listens nowhere."""
    found: set[str] = set()
    for process in servers_of(data_dir):
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
    return found


def server_named(data_dir: Path, name: str) -> psutil.Process:
    """The oldest process of that name: for PostgreSQL the postmaster."""
    return min(servers_of(data_dir, name), key=lambda p: (p.create_time(), p.pid))


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # between the two questions
        return True


def none_left(data_dir: Path) -> Callable[[], bool]:
    return lambda: not servers_of(data_dir)


def start_holder(data_dir: Path) -> tuple[subprocess.Popen[bytes], ServiceAddresses]:
    """Another process that runs services until it is killed."""
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(data_dir)], cwd=ROOT)
    addresses = eventually(lambda: holder.poll() is None and running_services(data_dir))
    assert isinstance(addresses, ServiceAddresses)
    return holder, addresses


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_restart_keeps_data_addresses_and_passwords(data_dir: Path) -> None:
    with embedded(data_dir) as first:
        write_row(first, "before")
        assert running_services(data_dir) == first
    assert running_services(data_dir) is None
    assert servers_of(data_dir) == []
    with embedded(data_dir) as second:
        assert second == first
        assert rows(second) == ["before"]


def test_only_the_owner_reads_passwords(data_dir: Path) -> None:
    with embedded(data_dir):
        private = [data_dir / "services.json", data_dir / "valkey" / "valkey.conf", *data_dir.glob("secrets/*")]
        assert len(private) == 5
        for path in private:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        for path in (data_dir / "logs", data_dir / "valkey", data_dir / "secrets", data_dir / "postgresql"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
        for path in (data_dir / "logs").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert not stat.S_IMODE(data_dir.stat().st_mode) & 0o066
        secrets = [path.read_text() for path in data_dir.glob("secrets/*")]
        arguments = [" ".join(process.cmdline()) for process in servers_of(data_dir)]
        assert not [line for line in arguments if any(secret in line for secret in secrets)]
    assert not (data_dir / "services.json").exists()


def test_what_others_could_read_in_an_older_data_directory_is_closed(data_dir: Path) -> None:
    data_dir.chmod(0o755)
    for name in ("logs", "log-chunks", "kafka"):
        (data_dir / name).mkdir(mode=0o755)
    (data_dir / "logs" / "worker-1.log").touch(mode=0o644)
    data = DataDirectory(data_dir)
    data.acquire()
    data.release()
    assert stat.S_IMODE(data_dir.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)
    for name in ("logs", "log-chunks", "kafka"):
        assert stat.S_IMODE((data_dir / name).stat().st_mode) == 0o700
    assert stat.S_IMODE((data_dir / "logs" / "worker-1.log").stat().st_mode) == 0o600


def test_servers_listen_on_loopback_only_and_ask_for_a_password(data_dir: Path) -> None:
    with embedded(data_dir) as addresses:
        assert addresses_listened_on(data_dir) == {"127.0.0.1"}
        wrong = psycopg.conninfo.make_conninfo(addresses.database_url, password="guess")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)
        host = addresses.redis_url.rpartition("@")[2]
        with pytest.raises(redis.AuthenticationError):
            redis.Redis.from_url(f"redis://{host}").ping()


def test_servers_run_with_the_promised_settings(data_dir: Path) -> None:
    with embedded(data_dir, work_mem="9MB") as addresses:
        assert show(addresses, "server_version").startswith("18.")
        for name, value in {
            "server_encoding": "UTF8",
            "TimeZone": "UTC",
            "lc_messages": "C",
            "synchronous_commit": "on",
            "fsync": "on",
            "shared_buffers": "32MB",
            "work_mem": "9MB",
            "max_wal_size": "4GB",
            "max_locks_per_transaction": "256",
            "jit": "off",
        }.items():
            assert show(addresses, name) == value, name
        client = redis.Redis.from_url(addresses.redis_url, decode_responses=True)
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "no"}
        assert client.config_get("save") == {"save": ""}
        client.close()


def test_a_data_directory_in_use_is_refused_and_the_owner_named(data_dir: Path) -> None:
    holder, addresses = start_holder(data_dir)
    try:
        with pytest.raises(DataDirectoryInUse, match=rf"in use by the running process {holder.pid}:"):
            embedded(data_dir).start()
        assert show(addresses, "TimeZone") == "UTC"  # the owner's services are as they were
    finally:
        kill(holder)
    eventually(none_left(data_dir))


def test_who_only_looks_whether_it_is_owned_delays_an_owner_and_refuses_none(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the system keeps the reader from letting go of the lock again."""
    monkeypatch.setattr(data_directory, "LOCK_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(data_directory, "READERS_PATIENCE_SECONDS", PATIENCE_SECONDS)
    data = DataDirectory(data_dir)
    data.acquire()
    data.release()
    with (data_dir / "lock").open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        threading.Timer(0.2, fcntl.flock, (reader, fcntl.LOCK_UN)).start()
        data.acquire()
        with pytest.raises(DataDirectoryInUse):
            DataDirectory(data_dir).acquire()
        data.release()


def test_kill_9_of_the_parent_leaves_no_orphans_and_keeps_the_data(data_dir: Path) -> None:
    holder, addresses = start_holder(data_dir)
    write_row(addresses, "committed")
    assert {process.name() for process in servers_of(data_dir)} >= {"postgres", "valkey-server", "tansu"}
    kill(holder)
    eventually(none_left(data_dir))
    assert running_services(data_dir) is None
    with embedded(data_dir) as again:
        assert rows(again) == ["committed"]


def test_a_start_right_after_kill_9_waits_for_the_dying_servers(data_dir: Path) -> None:
    holder, addresses = start_holder(data_dir)
    write_row(addresses, "committed")
    kill(holder)
    with embedded(data_dir) as again:
        assert rows(again) == ["committed"]
    assert servers_of(data_dir) == []


def test_servers_that_outlived_their_parent_are_stopped_by_the_next_start(data_dir: Path) -> None:
    """As after a parent-death signal that never came, and a postmaster killed before its backends."""
    services = embedded(data_dir)
    addresses = services.start()
    write_row(addresses, "committed")
    valkey = data_dir / "valkey"
    program = server_named(data_dir, "valkey-server").exe()
    server_named(data_dir, "postgres").kill()
    services.stop()
    orphan = subprocess.Popen([program, "--port", "0"], cwd=valkey, stdout=subprocess.DEVNULL)
    stranger = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        pid_file = data_dir / "postgresql" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]))
        with embedded(data_dir) as again:
            assert rows(again) == ["committed"]
            assert orphan.wait(PATIENCE_SECONDS) is not None
            assert stranger.poll() is None
    finally:
        kill(orphan)
        kill(stranger)


def test_what_dies_is_revived_where_it_was(data_dir: Path) -> None:
    services = embedded(data_dir)
    addresses = services.start()
    try:
        write_row(addresses, "committed")
        for name in ("postgres", "valkey-server"):
            process = server_named(data_dir, name)
            process.send_signal(signal.SIGKILL)
            eventually(partial(has_ended, process))
        services.revive()
        assert rows(addresses) == ["committed"]
        assert redis.Redis.from_url(addresses.redis_url).ping()
    finally:
        services.stop()


def test_a_server_that_cannot_start_shows_the_end_of_its_log(data_dir: Path) -> None:
    with pytest.raises(EmbeddedServiceFailed, match=r"(?s)postgresql exited .*postgresql\.log.*nonsense"):
        embedded(data_dir, work_mem="nonsense").start()
    assert servers_of(data_dir) == []
    with embedded(data_dir) as addresses:  # and nothing of the failure stays
        assert show(addresses, "TimeZone") == "UTC"


def test_a_port_taken_meanwhile_is_replaced(data_dir: Path) -> None:
    data = DataDirectory(data_dir)
    port = data.port("postgresql")
    with socket.create_server(("127.0.0.1", port)), embedded(data_dir) as addresses:
        assert f":{port}/" not in addresses.database_url
        assert show(addresses, "TimeZone") == "UTC"


def test_a_port_taken_in_the_last_moment_is_replaced(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port looks free when it is picked: the server itself finds out that it is not."""
    port = DataDirectory(data_dir).port("valkey")
    monkeypatch.setattr("apps.quickstart.data_directory.is_free", lambda _: True)
    with socket.create_server(("127.0.0.1", port)), embedded(data_dir) as addresses:
        assert f":{port}/" not in addresses.redis_url
        assert redis.Redis.from_url(addresses.redis_url).ping()
    assert "in use" in last_lines(data_dir / "logs" / "valkey.log", 1000)


def test_a_missing_package_is_named_with_its_pip_line() -> None:
    with pytest.raises(EmbeddedServiceMissing, match=r"no-such-wheel .*pip install -r requirements-dev\.txt"):
        package_folder("no_such_wheel", requirements="requirements-dev.txt")


def test_an_unfinished_first_start_is_begun_again(data_dir: Path) -> None:
    unfinished = data_dir / "postgresql.unfinished"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    with embedded(data_dir) as addresses:
        assert show(addresses, "TimeZone") == "UTC"
    assert not unfinished.exists()


def test_addresses_become_the_variables_that_settings_read() -> None:
    addresses = ServiceAddresses(database_url="postgres://d", redis_url="redis://r")
    assert addresses.environment() == {
        "DATABASE_URL": "postgres://d",
        "DATABASE_DIRECT_URL": "postgres://d",
        "REDIS_URL": "redis://r",
    }
    with_kafka = ServiceAddresses("postgres://d", "redis://r", "k:9092")
    assert with_kafka.environment()["KAFKA_BOOTSTRAP_SERVERS"] == "k:9092"


def test_the_suite_speaks_to_real_services(services: ServiceAddresses) -> None:
    assert services.environment().items() <= dict(os.environ).items()
