"""Handlers of examples/document-processing: what a document is decides which of two ways it goes."""

import re
from typing import Any

from apps.worker.handlers import PermanentError, TaskContext, task_handler

_TOTAL = re.compile(r"total:?\s*(\d+(?:\.\d{2})?)", re.IGNORECASE)
_NUMBER = re.compile(r"invoice\s+(?:no\.?\s*)?(\w+)", re.IGNORECASE)


@task_handler("documents.classify")
def classify(context: TaskContext, *, document: str | None = None) -> dict[str, Any]:
    """What kind of document a text is; without parameters of its own it reads those of its run."""
    given = (context.run or {}).get("parameters", {})
    text = document if document is not None else str(given.get("document", ""))
    for kind in ("invoice", "receipt"):
        if kind in text.lower():
            return {"type": kind, "text": text}
    return {"type": "unknown", "text": text}


@task_handler("documents.invoice")
def invoice(context: TaskContext, *, text: str | None = None) -> dict[str, Any]:
    """Reads number and total of an invoice."""
    text = _text(context, text)
    number = _NUMBER.search(text)
    return {"kind": "invoice", "number": number[1] if number else None, "total": _total(text)}


@task_handler("documents.receipt")
def receipt(context: TaskContext, *, text: str | None = None) -> dict[str, Any]:
    """Reads the total of a receipt."""
    return {"kind": "receipt", "total": _total(_text(context, text))}


@task_handler("documents.archive")
def archive(context: TaskContext) -> dict[str, Any]:
    """Keeps what the way that was taken has read; the other way's result is None."""
    read = {name: result for name, result in context.parents.items() if result is not None}
    print(f"archiving {read}")
    return {"archived": read}


def _text(context: TaskContext, given: str | None) -> str:
    return given if given is not None else str(context.parents["classify"]["text"])


def _total(text: str) -> float:
    found = _TOTAL.search(text)
    if found is None:
        raise PermanentError(f"no total in {text[:80]!r}: write it as `total: 12.50`")
    return float(found[1])
