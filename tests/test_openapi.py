"""The API's description: committed, valid, complete, and true of its own examples."""

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from openapi_spec_validator import OpenAPIV31SpecValidator

from apps.api.base import UnknownRoute
from apps.api.openapi.declare import operation_of
from apps.api.openapi.schemas import EXAMPLES
from apps.api.openapi.views import Docs
from tests.openapi_contract import _fit, description

NOT_DESCRIBED = {Docs: "a page for people", UnknownRoute: "every path that there is not"}
"""Views below /api/ that the description leaves out, and why."""

METHODS = ("get", "post", "put", "patch", "delete")


def test_the_committed_document_is_what_the_views_declare() -> None:
    printed = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=printed)
    made = yaml.load(printed.getvalue(), Loader=yaml.CSafeLoader)
    again = "run: manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml"
    assert made["paths"] == description()["paths"], again
    assert (settings.BASE_DIR / "docs" / "openapi.yaml").read_text().strip() == printed.getvalue().strip(), again


def test_it_is_valid_openapi() -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(description()).iter_errors()] == []


def _routes() -> Iterator[tuple[str, Any]]:
    for outer in get_resolver().url_patterns:
        if not isinstance(outer, URLResolver) or str(outer.pattern) != "api/":
            continue
        for inner in outer.url_patterns:
            assert isinstance(inner, URLPattern)
            view = getattr(inner.callback, "cls", None) or getattr(inner.callback, "view_class", None)
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", f"/api/{inner.pattern}"), view


def test_every_route_is_described_with_all_its_methods() -> None:
    expected: dict[str, set[str]] = {}
    for path, view in _routes():
        if view not in NOT_DESCRIBED:
            expected.setdefault(path, set()).update(name for name in METHODS if hasattr(view, name))
    assert {path: set(methods) for path, methods in description()["paths"].items()} == expected


def test_parameters_of_paths_are_what_their_routes_take() -> None:
    """A number is no UUID: whoever reads the description would never reach the route."""
    kinds = {"int": ("integer", None), "uuid": ("string", "uuid"), "str": ("string", None), "slug": ("string", None)}
    seen = set()
    for outer in get_resolver().url_patterns:
        if not isinstance(outer, URLResolver) or str(outer.pattern) != "api/":
            continue
        for inner in outer.url_patterns:
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", f"/api/{inner.pattern}")
            taken = {name: kinds[kind] for kind, name in re.findall(r"<(\w+):(\w+)>", str(inner.pattern))}
            for operation in description()["paths"].get(path, {}).values():
                told = {one["name"]: one["schema"] for one in operation["parameters"] if one["in"] == "path"}
                assert {name: (one["type"], one.get("format")) for name, one in told.items()} == taken, path
                seen |= set(told)
    assert {"task_id", "circuit_id", "worker_id", "node_id"} <= seen


@pytest.mark.parametrize(("path", "view"), [route for route in _routes() if route[1] not in NOT_DESCRIBED])
def test_what_reads_a_body_says_which(path: str, view: Any) -> None:
    for method in {"post", "put", "patch"} & {name for name in METHODS if hasattr(view, name)}:
        operation = operation_of(view, method)
        assert operation is not None
        assert operation.takes is not None, f"{method} {path} says nothing of its body; Empty is a body, too"


@pytest.mark.parametrize("schema", EXAMPLES)
def test_examples_fit_their_schemas(schema: str) -> None:
    for name, value in EXAMPLES[schema].items():
        _fit(f"{schema}, {name}", {"$ref": f"#/components/schemas/{schema}"}, value)


def test_each_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for path in description()["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))


def test_it_is_served_to_anybody_and_not_twice_to_who_has_it() -> None:
    first = Client().get("/api/v1/openapi.json")
    assert first.json()["paths"].keys() == description()["paths"].keys()
    again = Client().get("/api/v1/openapi.json", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_has_no_inline_script_and_needs_no_other_host() -> None:
    page = Client().get("/api/docs").content.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\son\w+=|https?://", page) == []
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        assert Client().get(address).status_code == 200, address
