"""Why an execution is not running, as one short chip a row: the words of apps/explain."""

from apps.explain.chips import Evidence, error_line, gather, of
from apps.explain.words import Reason

__all__ = ["Evidence", "Reason", "error_line", "gather", "of"]
