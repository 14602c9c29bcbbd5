"""Where the wheels that carry the servers are installed."""

from importlib.util import find_spec
from pathlib import Path

from apps.quickstart.errors import EmbeddedServiceMissing


def package_folder(module: str, *, requirements: str) -> Path:
    """The folder of an installed package, without importing it.

    Raises EmbeddedServiceMissing with the pip line that installs it.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise EmbeddedServiceMissing(
            f"the package {module.replace('_', '-')} is not installed: pip install -r {requirements}, "
            "or name a running server in the environment (DATABASE_URL, REDIS_URL, KAFKA_BOOTSTRAP_SERVERS)"
        )
    return Path(spec.origin).parent
