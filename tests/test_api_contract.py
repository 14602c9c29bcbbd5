"""The API does what docs/openapi.yaml says: thousands of generated requests, none of which fails or surprises.

The drill runs schemathesis with all its checks against a web process. Its short form takes a few requests for each
operation, right or wrong, in this process. What is left out, and why: contract_hooks.py, schemathesis.toml.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from tests import contract_hooks  # noqa: F401  schemathesis hears of its hooks by this
from tests.contract_tools import Full, make_full_tenant
from tests.openapi_contract import description
from tests.web_process import serving

ROOT = Path(__file__).resolve().parent.parent
CONFIG = str(ROOT / "tests" / "schemathesis.toml")
LEAST_CASES = 5000
ENDLESS = re.compile(r"/logs|/download")
"""Streams: the drill reads them from a real server."""


@pytest.fixture
def full(transactional_db: None) -> Full:
    return make_full_tenant()


@contextmanager
def connection_is_kept() -> Iterator[None]:
    """A request through WSGI would end the connection, and the test's transaction with it. Django's own test client
    connects these signals again, so it must not be used inside.
    """
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in signals:
            signal.connect(close_old_connections)


@pytest.mark.drill
@pytest.mark.timeout(1800)
def test_thousands_of_generated_requests(full: Full, tmp_path: Path) -> None:
    with serving() as url:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG),
                *("run", str(ROOT / "docs" / "openapi.yaml"), "--url", url, "--checks", "all"),
                *("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "10", "--continue-on-failure"),
                *("-H", f"Authorization: Bearer {full.owner.key}", "--workers", "2", "--no-color"),
            ],
            cwd=tmp_path,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.contract_hooks", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=1700,
        )
    cases = re.search(r"(\d+) generated", done.stdout)
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-20_000:]
    assert cases is not None
    assert int(cases[1]) >= LEAST_CASES


@pytest.mark.django_db
def test_a_few_generated_requests_for_each_operation() -> None:
    full = make_full_tenant()
    schema = schemathesis.openapi.from_dict(description(), config=SchemathesisConfig.from_path(CONFIG))
    schema.app = get_wsgi_application()
    cases = 0

    def tried(operation: Any, mode: GenerationMode, examples: int) -> None:
        nonlocal cases

        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def run(case: Any) -> None:
            nonlocal cases
            cases += 1
            case.call_and_validate(headers={"Authorization": f"Bearer {full.owner.key}"})

        run()

    with connection_is_kept():
        for result in schema.get_all_operations():
            operation: Any = result.ok()  # type: ignore[union-attr]
            if not ENDLESS.search(operation.path):
                tried(operation, GenerationMode.POSITIVE, 2)
                if operation.body or operation.path_parameters or operation.query:
                    tried(operation, GenerationMode.NEGATIVE, 1)
    print(f"{cases} cases")
    assert cases >= 200
