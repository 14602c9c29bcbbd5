"""Labels: what a worker has and a task may require. Pure.

A label is a word ("gpu") or a word with a value ("region=eu"); a task runs only on workers that carry every label it
requires, word for word. `tenant=acme` on a worker makes it that tenant's own: see docs/decisions.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chronoweb.runtime.errors import ConfigurationError, InvalidInput, InvalidInputs

RESOURCE_TYPES = ("cpu", "gpu", "io")
GENERAL = ("cpu", "io")
"""What a worker has that names no resource type."""
CONTAINER = "container"
"""Carried by workers that have found a container engine, required by container tasks; nobody writes it on a worker."""
TENANT = "tenant"
MOST = 16
_LABEL = re.compile(r"[a-z][a-z0-9._-]{0,62}(=[A-Za-z0-9][A-Za-z0-9._-]{0,62})?", re.ASCII)
_LEGAL = 'a word such as "gpu", or a word and a value such as "region=eu"'


def read_requires(data: Any) -> list[str]:
    """The labels of a task's `requires`, sorted, each once. Raises InvalidInputs, pointers relative."""
    if not isinstance(data, list) or len(data) > MOST:
        raise InvalidInputs([InvalidInput("", data, "must be a list of labels", f"at most {MOST} labels")])
    errors = []
    for position, label in enumerate(data):
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            errors.append(InvalidInput(f"/{position}", label, "is not a label", _LEGAL))
        elif label.partition("=")[0] == TENANT:
            problem = "cannot be required: a tenant's work goes to its own workers by itself"
            errors.append(InvalidInput(f"/{position}", label, problem, _LEGAL))
    if errors:
        raise InvalidInputs(errors)
    return sorted(set(data))


def required_by(document: Mapping[str, Any]) -> list[str]:
    """What a task's document, or a version's definition, asks of a worker."""
    labels = set(document.get("requires") or ())
    if document["handler"]["type"] == CONTAINER:
        labels.add(CONTAINER)
    return sorted(labels)


def read_worker_labels(words: Iterable[str]) -> tuple[tuple[str, ...], str | None]:
    """(labels that a worker carries, slug of the tenant it is kept for). Raises ConfigurationError."""
    labels, tenant = set(), None
    for word in words:
        name, _, value = word.partition("=")
        if not _LABEL.fullmatch(word):
            raise ConfigurationError(f"the worker's label {word!r} is not {_LEGAL}")
        if name == CONTAINER:
            raise ConfigurationError(f"the worker's label {word!r} is not to be given: who finds an engine carries it")
        if name == TENANT:
            if not value or tenant not in (None, value):
                raise ConfigurationError(f"the worker's label {word!r} must name its one tenant: {TENANT}=SLUG")
            tenant = value
        else:
            labels.add(word)
    if not labels.intersection(RESOURCE_TYPES):
        labels.update(GENERAL)
    return tuple(sorted(labels)), tenant


def is_special(labels: Iterable[str]) -> bool:
    """Whether a worker has something that most have not: work that needs none of it goes elsewhere first."""
    return not set(labels) <= {*GENERAL, CONTAINER}


def no_worker(document: Mapping[str, Any]) -> str:
    """Why work of a task waits, for people: `no worker has this label: gpu`."""
    return no_worker_text(required_by(document))


def no_worker_text(labels: Sequence[str]) -> str:
    """The same of its labels; `no worker lives` of what requires none."""
    if not labels:
        return "no worker lives"
    return f"no worker has {'this label' if len(labels) == 1 else 'these labels'}: {', '.join(labels)}"
