"""`manage.py dag` and `manage.py backfill`: what they print, what they write, and how they refuse."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from jsonschema import Draft202012Validator

from apps.definitions.dags import files, json_schema
from apps.definitions.models import Backfill, Dag
from apps.tenants.models import AuditEntry, Tenant
from tests.factories import EACH_MINUTE, make_principal, make_task, make_tenant
from tests.test_dag_document import SHORT, dag, node

pytestmark = pytest.mark.django_db
EXAMPLES = sorted(path for path in (settings.BASE_DIR / "examples").iterdir() if path.suffix in (".yaml", ".json"))


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def run(tenant: Tenant, *words: str) -> str:
    out = io.StringIO()
    call_command(*words, "--tenant", tenant.slug, stdout=out)
    return out.getvalue()


def written(folder: Path, document: Any) -> str:
    path = folder / "d.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_apply_shows_the_difference_first_and_export_brings_it_back(tenant: Tenant, tmp_path: Path) -> None:
    file = written(tmp_path, SHORT)
    shown = run(tenant, "dag", "apply", "--dry-run", file)
    assert "+ /nodes/invoice" in shown
    assert "would become version 1; nothing was written" in shown
    assert not Dag.objects.filter(tenant=tenant).exists()
    assert "document-processing: version 1 is in force" in run(tenant, "dag", "apply", file)
    assert "no difference, version 1 stays in force" in run(tenant, "dag", "apply", file)
    SHORT_AGAIN = {**SHORT, "tasks": [SHORT["tasks"][0]]}
    changed = run(tenant, "dag", "apply", written(tmp_path, SHORT_AGAIN))
    assert changed.splitlines()[0].startswith("- /nodes/invoice: ")
    assert "version 2 is in force" in changed
    for format in files.FORMATS:
        exported = tmp_path / f"exported.{format}"
        exported.write_text(run(tenant, "dag", "export", "document-processing", "--format", format))
        assert "no difference" in run(tenant, "dag", "apply", str(exported))
    (actor,) = set(AuditEntry.objects.filter(tenant=tenant).values_list("actor", flat=True))
    assert actor.startswith("shell:")


def test_faults_are_lines_with_file_pointer_value_and_legal_values(tenant: Tenant, tmp_path: Path) -> None:
    file = written(tmp_path, dag(node("load"), node("clean", "laod"), failure_policy="no"))
    for verb in ("apply", "validate"):
        with pytest.raises(CommandError) as caught:
            run(tenant, "dag", verb, file)
        assert f'{file} /failure_policy: is not one of the values: "no"; legal: skip_downstream, fail_all' in str(
            caught.value
        )
    file = written(tmp_path, dag(node("load"), node("clean", "laod")))
    with pytest.raises(CommandError, match=r'/nodes/1/depends_on/0: is no node of this DAG: "laod"; perhaps load'):
        run(tenant, "dag", "apply", file)
    with pytest.raises(CommandError, match="cannot be read"):
        run(tenant, "dag", "apply", str(tmp_path / "nothing.yaml"))
    with pytest.raises(CommandError, match="no DAG with name nothing"):
        run(tenant, "dag", "export", "nothing")
    assert not Dag.objects.filter(tenant=tenant).exists()


def test_a_tenant_that_is_not_there_is_told_with_those_that_are(tenant: Tenant, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"no tenant 'nobody'; tenants: .*{tenant.slug}"):
        call_command("dag", "export", "x", "--tenant", "nobody")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_valid_and_fit_the_schema(tenant: Tenant, path: Path) -> None:
    assert "is valid" in run(tenant, "dag", "validate", str(path))
    validator = Draft202012Validator(json_schema.schema())
    assert list(validator.iter_errors(files.read(path.read_text()))) == []
    run(tenant, "dag", "apply", str(path))


def test_the_published_schema_is_the_codes() -> None:
    published = json.loads((settings.BASE_DIR / "docs" / "dag.schema.json").read_text())
    assert published == json.loads(json.dumps(json_schema.schema()))
    Draft202012Validator.check_schema(published)


@pytest.mark.parametrize(
    "document",
    [
        dag(),
        {"nodes": [node("a")]},
        {**SHORT, "name": "twice"},
        dag(node("a"), colour=1),
        dag({"id": "a"}),
        dag({"id": "a", "handler": "x", "task": "y"}),
        dag(node("run")),
        dag(node("a b")),
        dag(node("a", trigger_rule="all")),
        dag(node("a", handler={"type": "smoke"})),
        dag(node("a", {"node": "b", "condition": {"path": "$", "gt": 1, "lt": 2}})),
        dag(node("a", {"node": "b", "condition": {"path": "$", "gt": None}})),
        dag(node("a"), failure_policy="no"),
        dag(node("a"), max_active_runs=0),
    ],
)
def test_the_schema_refuses_what_has_the_wrong_shape(document: Any) -> None:
    assert list(Draft202012Validator(json_schema.schema()).iter_errors(document))


def test_backfills_by_command(tenant: Tenant) -> None:
    make_task(make_principal(tenant), name="minutely", schedule=EACH_MINUTE)
    where = ("--start", "2026-01-01T00:00:00Z", "--end", "2026-01-01T00:03:00Z")
    listed = run(tenant, "backfill", "start", "--task", "minutely", *where, "--order", "newest_first", "--dry-run")
    assert listed.splitlines() == [
        *("2026-01-01T00:02:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:00:00Z"),
        "3 occurrences; nothing was made",
    ]
    assert not Backfill.objects.filter(tenant=tenant).exists()
    begun = run(tenant, "backfill", "start", "--task", "minutely", *where)
    identity = begun.split()[0]
    assert "running: task minutely, 0 of 3 made" in run(tenant, "backfill", "list")
    assert "stopped: task minutely" in run(tenant, "backfill", "stop", identity)
    with pytest.raises(CommandError, match="/end: is not a date-time"):
        run(tenant, "backfill", "start", "--task", "minutely", "--start", "2026-01-01T00:00:00Z", "--end", "soon")
    with pytest.raises(CommandError, match="no DAG named 'x'"):
        run(tenant, "backfill", "start", "--dag", "x", *where)
