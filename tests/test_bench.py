"""manage.py bench: the README's own daemons on services of its own; its figures, not its speed, are tested here."""

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings

OWN = ("DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS")


@pytest.mark.timeout(300)
def test_a_small_drain_loses_nothing_and_doubles_nothing() -> None:
    """It starts PostgreSQL and Valkey itself, whatever this suite's environment names."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "bench", "drain", "--count", "2000"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    figures = json.loads(line)
    assert figures["scenario"] == "drain"
    assert figures["transport"] == "redis"
    assert figures["count"] == 2000
    assert figures["lost"] == 0
    assert figures["duplicates"] == 0
    assert figures["ledger_duplicates"] == 0
    assert figures["early"] == 0
    assert figures["handler_runs"] == 2000
    assert figures["executions_per_second"] > 0
    assert figures["enqueue_per_second"] > 0
    assert figures["lateness_p50_ms"] <= figures["lateness_p99_ms"] <= figures["lateness_max_ms"]
    told = done.stderr
    assert "synchronous_commit on" in told
    assert "isolation" in told
