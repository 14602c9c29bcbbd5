"""The suite's own rules: a skip or an expected failure fails the run, whatever its reason."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CASES = {
    "a skip": ("@pytest.mark.skip(reason='later')\ndef test_it(): pass", 1),
    "a skip in the body": ("def test_it(): pytest.skip('no')", 1),
    "a skipped module": ("pytest.importorskip('no_such_module')\ndef test_it(): pass", 1),
    "an expected failure": ("@pytest.mark.xfail\ndef test_it(): assert False", 1),
    "an unexpected success": ("@pytest.mark.xfail\ndef test_it(): pass", 1),
    "a test that passes": ("def test_it(): pass", 0),
}


@pytest.mark.parametrize(("body", "code"), CASES.values(), ids=CASES.keys())
def test_neither_skip_nor_expected_failure_passes(tmp_path: Path, body: str, code: int) -> None:
    """The inner run finds this run's services in its environment and starts none."""
    (tmp_path / "test_inner.py").write_text(f"import pytest\n{body}\n")
    plugins = ("-p", "tests.services", "-p", "no:django", "-p", "no:cacheprovider")
    place = ("-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *place],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stdout + result.stderr
    assert ("neither is allowed" in result.stdout) == bool(code)
    assert "PostgreSQL: " in result.stdout
