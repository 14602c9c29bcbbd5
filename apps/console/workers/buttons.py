"""The one button of a worker, and what pressing it leads to. acts in views.py do what it says."""

from apps.console.buttons import Act
from apps.executions.models import Worker


def drain_act(worker: Worker, *, stay: str, grace: str) -> Act:
    """stay: a sentence about who runs its work then. grace: how long what it runs may take."""
    text = (
        f"It takes nothing more from the next second on, and this is not taken back. What it runs may end within "
        f"{grace}; what takes longer is asked to leave a checkpoint and goes on elsewhere, uncounted. Then it leaves. "
        f"{stay} Whatever supervises its process may start a new one in its place."
    )
    return Act("drain", "Drain", f"Drain {worker}?", text, typed=True, danger=True)
