"""Holds answers against docs/openapi.yaml: status, media type, headers and body must be as it says."""

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs
import yaml
from django.conf import settings

from apps.api.openapi.document import BEFORE


@cache
def description() -> dict[str, Any]:
    """The committed document."""
    text = (settings.BASE_DIR / "docs" / "openapi.yaml").read_text()
    found: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return found


def check_answer(method: str, path: str, response: Any) -> None:
    """Fail where an answer is not one that the description has for this route. Unknown routes have none."""
    if response.status_code == 500:
        return  # nobody's promise; whoever provokes it looks at it
    template = template_of(path)
    operation = None if template is None else description()["paths"][template].get(method.lower())
    if operation is None:
        assert response.status_code in (404, 405), f"{method} {path} is not described"
        return
    where = f"{method.upper()} {template} → {response.status_code}"
    answer = _resolved(operation["responses"].get(str(response.status_code)))
    assert answer is not None, f"{where} is not described: {response.content[:500]!r}"
    for name, header in answer.get("headers", {}).items():
        if name in response:
            _fit(f"{where}, header {name}", _resolved(header)["schema"], _header_value(header, response[name]))
    media = response["Content-Type"].split(";")[0] if "Content-Type" in response else ""
    content = answer.get("content", {})
    if not content:
        assert not response.content, f"{where} has no body: {response.content[:500]!r}"
        return
    assert media in content, f"{where} is {media}, not {', '.join(content)}"
    if media.endswith("json"):
        _fit(where, content[media]["schema"], json.loads(response.content))


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    paths = sorted(description()["paths"], key=lambda path: (path.count("{"), path))
    return [(re.compile(re.sub(r"{\w+}", "[^/]+", path)), path) for path in paths]


def template_of(path: str) -> str | None:
    """The path of the description that this one is an instance of."""
    plain = path.split("?")[0]
    full = plain if plain.startswith(BEFORE) else BEFORE + plain.lstrip("/")
    return next((template for pattern, template in _patterns() if pattern.fullmatch(full)), None)


def _resolved(part: Any) -> Any:
    if isinstance(part, dict) and "$ref" in part:
        found: Any = description()
        for word in part["$ref"].removeprefix("#/").split("/"):
            found = found[word]
        return found
    return part


def _header_value(header: Any, text: str) -> Any:
    return int(text) if _resolved(header)["schema"].get("type") == "integer" else text


def _fit(where: str, schema: Any, value: Any) -> None:
    for error in _validator(json.dumps(schema)).iter_errors(value):
        place = "/".join(map(str, error.instance_path))
        raise AssertionError(f"{where}: /{place}: {error.message[:1000]}")


@cache
def _validator(schema: str) -> Any:
    whole = {**json.loads(schema), "components": description()["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
