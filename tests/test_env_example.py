""".env.example names every setting, with the default and the meaning that the code has."""

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest

from chronoweb.runtime.config import PREFIX, Config, read

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / ".env.example").read_text()
LINES = TEXT.splitlines()
VARIABLE = re.compile(r"#?([A-Z][A-Z0-9_]+)=(.*)")
GIVEN = {found[1]: found[2] for line in LINES if (found := VARIABLE.fullmatch(line))}
SERVICES = {"DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS"}


@pytest.mark.parametrize("spec", fields(Config), ids=lambda spec: spec.name)
def test_a_knob_stands_there_with_default_meaning_and_range(spec: Field[Any]) -> None:
    name = f"{PREFIX}{spec.name.upper()}"
    position = next(n for n, line in enumerate(LINES) if line.startswith(f"#{name}="))
    assert getattr(read({name: GIVEN[name]}), spec.name) == spec.default
    metadata = spec.metadata
    assert metadata["about"].lower() in LINES[position - 1].lower()
    if "low" in metadata:
        assert f"({metadata['low']} to {metadata['high']})" in LINES[position - 1]


def test_what_settings_read_is_all_there_and_nothing_else() -> None:
    source = (ROOT / "chronoweb" / "settings" / "__init__.py").read_text()
    read_by_settings = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', source))
    knobs = {f"{PREFIX}{spec.name.upper()}" for spec in fields(Config)}
    assert set(GIVEN) == read_by_settings | knobs | SERVICES


def test_nothing_is_set_by_copying_it() -> None:
    assert all(line.startswith("#") or not line for line in LINES)
