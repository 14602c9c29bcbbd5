"""Puts the description together: what drf-spectacular asks for each method of each view, and the shared components."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from drf_spectacular.drainage import warn
from drf_spectacular.openapi import AutoSchema

from apps.api.openapi import headers, refusals
from apps.api.openapi.declare import Answer, Content, Operation, operation_of
from apps.api.openapi.parameters import OF_PATHS, OF_QUERIES
from apps.api.openapi.schemas import EXAMPLES, SCHEMAS
from apps.api.openapi.shapes import UUID, Shape, ref

BEFORE = "/api/v1/"
_READS = ("GET", "HEAD")


class Described(AutoSchema):
    """The operation that a method declares with `documented`, and what the view itself says by its attributes."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> Shape | None:
        self.method, self.path = method.upper(), path
        handler = getattr(self.view, method.lower())
        operation = operation_of(self.view, method.lower())
        if operation is None:
            warn(f"{type(self.view).__name__}.{method.lower()} ({path}) declares nothing: see apps/api/openapi")
            return None
        description = _paragraph(handler.__doc__ or type(self.view).__doc__)
        shown = {
            "operationId": _identifier(self.method, path),
            "summary": operation.summary,
            **({"description": description} if description else {}),
            "tags": [tag_of(path)],
            "parameters": self._parameters_of(operation),
            "security": [{name: []} for name in headers.SECURITY] if self._asks_who else [],
            "responses": self._responses_of(operation),
        }
        if operation.takes is not None:
            body = {"required": not operation.body_optional, "content": _content({"application/json": operation.takes})}
            shown["requestBody"] = body
        return shown

    @property
    def _asks_who(self) -> bool:
        return bool(self.view.authentication_classes)

    @property
    def _is_repeatable(self) -> bool:
        """Whether it heeds Idempotency-Key."""
        return self.method == "POST" and getattr(self.view, "repeatable", False)

    def _parameters_of(self, operation: Operation) -> list[Shape]:
        found = [
            {"name": name, "in": "path", "required": True, "schema": OF_PATHS.get(name, UUID)}
            for name in re.findall(r"{(\w+)}", self.path)
        ]
        named = getattr(self.view, "query_parameters", ()) if operation.heeds_query(self.method) else ()
        known = {**OF_QUERIES, **_shapes_of_list(self.view), **operation.parameters}
        for name in named:
            if name not in known:
                warn(f"the parameter {name} of {self.path} has no schema: see apps/api/openapi/parameters.py")
                continue
            found.append(_query_parameter(name, known[name]))
        heeded = (*(("Idempotency-Key",) if self._is_repeatable else ()), *operation.request_headers)
        return found + [{"name": name, "in": "header", **headers.OF_REQUESTS[name]} for name in heeded]

    def _responses_of(self, operation: Operation) -> Shape:
        fails = {*refusals.EVERYWHERE, *operation.fails}
        if self._asks_who:
            fails |= set(refusals.FOR_PEOPLE)
        if "{" in self.path:
            fails.add(404)
        if self.method not in _READS and self.method != "DELETE":
            fails |= set(refusals.WITH_BODY)
        if self._is_repeatable:
            fails |= {409, 422}
        if "If-Match" in operation.request_headers:
            fails |= {412, 422}
        answers = {str(status): self._answer(status, answer) for status, answer in operation.answers.items()}
        return {**answers, **{str(status): refusals.reference(status) for status in sorted(fails)}}

    def _answer(self, status: int, answer: Answer) -> Shape:
        names = (*answer.headers, *(headers.RATE_LIMITS if self._asks_who else ()))
        if self._is_repeatable:
            names = (*names, "Idempotent-Replayed")
        shown: Shape = {"description": _SUCCESSES[status]}
        if names:
            shown["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        if answer.media:
            shown["content"] = _content(answer.media)
        return shown


_SUCCESSES = {200: "Done.", 201: "Made.", 202: "Accepted: it goes on by itself.", 204: "Gone; no body."}


def put_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """drf-spectacular's hook: the shared parts, and the tags in the order of their names."""
    result["components"] = {
        "schemas": {**SCHEMAS, **refusals.schemas()},
        "responses": refusals.responses(),
        "headers": headers.OF_ANSWERS,
        "securitySchemes": headers.SECURITY,
    }
    tags = {tag for path in result["paths"].values() for operation in path.values() for tag in operation["tags"]}
    result["tags"] = [{"name": tag} for tag in sorted(tags)]
    return result


@cache
def document() -> dict[str, Any]:
    """The whole description, made once for each process."""
    from drf_spectacular.generators import SchemaGenerator

    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


def tag_of(path: str) -> str:
    """The group under which people find it: the first word of the path, but runs of DAGs have their own."""
    words = path.removeprefix(BEFORE).split("/")
    if words[0] == "dags" and "executions" in words:
        return "dag runs"
    return words[1] if words[0] == "admin" and words[1] == "dlq" else words[0]


def _identifier(method: str, path: str) -> str:
    """Unique, and stable while the route is: post_tasks_task_id_trigger."""
    return "_".join([method.lower(), *re.findall(r"\w+", path.removeprefix(BEFORE))])


def _query_parameter(name: str, schema: Mapping[str, Any]) -> Shape:
    shape = dict(schema)
    description = shape.pop("description", None)
    required = shape.pop("required", False)
    several = {"style": "form", "explode": False} if shape.get("type") == "array" else {}
    return {
        "name": name,
        "in": "query",
        **({"required": True} if required else {}),
        **({"description": description} if description else {}),
        **several,
        "schema": shape,
    }


def _shapes_of_list(view: Any) -> dict[str, Shape]:
    """Schemas of a list's own parameters (apps/api/lists.py)."""
    if not hasattr(view, "ordering"):
        return {}
    return {**view.filters.shapes(), "ordering": view.ordering.shape()}


def _content(media: Mapping[str, Content]) -> Shape:
    shown: Shape = {}
    for kind, content in media.items():
        schema = ref(content) if isinstance(content, str) else content
        examples = EXAMPLES.get(content, {}) if isinstance(content, str) else {}
        shown[kind] = {"schema": schema}
        if examples:
            shown[kind]["examples"] = {name: {"value": value} for name, value in examples.items()}
    return shown


def _paragraph(text: str | None) -> str:
    """A docstring as one text: lines joined, paragraphs kept."""
    lines = [line.strip() for line in (text or "").strip().splitlines()]
    return re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(lines))
