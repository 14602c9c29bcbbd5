"""Which chronoweb this is: workers say so, so that a fleet of several can be told apart."""

VERSION = "0.1.0"
"""The same as in pyproject.toml, which need not be there where chronoweb runs."""
