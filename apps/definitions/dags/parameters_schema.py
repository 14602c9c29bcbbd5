"""The JSON Schema (2020-12) that a DAG's parameters must fit: its own check, and that of a run's parameters.

Schemas come from tenants. Nothing is fetched for a `$ref`, and a pattern that takes long is a refusal, not a wait.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import referencing
import referencing.exceptions
import regex
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from referencing.jsonschema import DRAFT202012

from apps.definitions import json_values
from chronoweb.runtime.errors import InvalidInput

SCHEMA_BYTES = 64 * 1024
_PATTERN_SECONDS = 0.1
_MOST_ERRORS = 20
_NAMES = ("properties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose object has names of the tenant's, each with a schema."""
_DATA = ("const", "enum", "default", "examples", "required", "dependentRequired", "type")
_ELSEWHERE = "a JSON Schema (2020-12) that refers to nothing outside itself"


def schema_problem(schema: Any) -> InvalidInput | None:
    """What is wrong with a schema, its pointer relative to it; None if nothing."""
    if not isinstance(schema, Mapping):
        return InvalidInput("", schema, "must be a JSON Schema: an object", 'such as {"type": "object"}')
    size = len(json_values.compact(schema))
    if size > SCHEMA_BYTES:
        return InvalidInput("", None, f"is {size} bytes of JSON", f"at most {SCHEMA_BYTES} bytes")
    try:
        Draft202012Validator.check_schema(schema)
        if (found := _unsupported(schema)) is not None:
            return found
        list(_validator(schema).iter_errors({}))
    except SchemaError as error:
        return InvalidInput(_pointer(error), _shown(error.instance), error.message[:300], "JSON Schema 2020-12")
    except referencing.exceptions.Unresolvable as error:
        return InvalidInput("", None, f"refers to what is not there: {error.ref}", _ELSEWHERE)
    except regex.error as error:
        return InvalidInput("", None, f"has a pattern that cannot be read: {error}", "a regular expression")
    except RecursionError:
        return InvalidInput("", None, "refers to itself without an end", _ELSEWHERE)
    return None


def misfits(schema: Mapping[str, Any] | None, parameters: Any) -> list[InvalidInput]:
    """Where parameters do not fit; pointers relative to them. schema None: everything fits."""
    if schema is None:
        return []
    try:
        errors = sorted(_validator(schema).iter_errors(parameters), key=lambda error: list(map(str, error.path)))
    except (RecursionError, referencing.exceptions.Unresolvable, regex.error) as error:
        return [InvalidInput("", None, f"cannot be judged by the schema: {error}"[:300], _ELSEWHERE)]
    return [
        InvalidInput(_pointer(e), _shown(e.instance), e.message[:300], f"{e.validator}: {e.validator_value!r:.200}")
        for e in errors[:_MOST_ERRORS]
    ]


def _unsupported(schema: Mapping[str, Any]) -> InvalidInput | None:
    """References that lead nowhere, and what this takes no part in."""
    resolver = referencing.Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    waiting: list[tuple[str, Any, bool]] = [("", schema, True)]
    while waiting:
        at, value, is_schema = waiting.pop()
        if isinstance(value, list):
            waiting += [(f"{at}/{position}", inner, True) for position, inner in enumerate(value)]
        if not isinstance(value, Mapping):
            continue
        if is_schema and "patternProperties" in value:
            return InvalidInput(f"{at}/patternProperties", None, "is not supported", "properties, by their names")
        if is_schema and isinstance(value.get("$ref"), str):
            try:
                resolver.lookup(value["$ref"])
            except referencing.exceptions.Unresolvable:
                return InvalidInput(f"{at}/$ref", value["$ref"], "refers to what is not there", _ELSEWHERE)
        waiting += [
            (f"{at}/{json_values.escape(str(name))}", inner, name not in _NAMES or not is_schema)
            for name, inner in value.items()
            if name not in _DATA or not is_schema
        ]
    return None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    try:
        if regex.search(pattern, instance, timeout=_PATTERN_SECONDS) is None:
            yield ValidationError(f"{instance[:80]!r} does not match {pattern!r}")
    except TimeoutError:
        yield ValidationError(f"the pattern {pattern!r} takes too long for this text")


def _no_pattern_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    yield ValidationError("patternProperties is not supported: name the properties")


_Validator = validators.extend(Draft202012Validator, {"pattern": _pattern, "patternProperties": _no_pattern_properties})


def _validator(schema: Mapping[str, Any]) -> Any:
    # An empty registry: without one the library would fetch what a $ref names.
    return _Validator(schema, registry=referencing.Registry())


def _pointer(error: SchemaError | ValidationError) -> str:
    return "".join(f"/{json_values.escape(str(step))}" for step in error.absolute_path)


def _shown(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else None
