"""What can go wrong while the embedded services start."""

from chronoweb.runtime.errors import ConfigurationError, Conflict, ServiceUnavailable


class EmbeddedServiceFailed(ServiceUnavailable):
    """A server did not come up; the message ends with the last lines of its log."""


class PortTaken(EmbeddedServiceFailed):
    """Somebody else took the port between picking it and listening on it; another one is tried."""


class EmbeddedServiceMissing(ConfigurationError):
    """The package that carries a server is not installed; the message names the pip line."""


class DataDirectoryInUse(Conflict):
    """A living process holds this data directory; the message names its pid."""


class WebPortTaken(Conflict):
    """Somebody listens on the port that the web process was to have; the message names it."""
