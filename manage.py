#!/usr/bin/env python
"""chronoweb's command line: `manage.py help` lists what it can do."""

import gc
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoweb.settings")
    if "runserver" not in sys.argv[1:2]:  # which starts again what it could not import
        prepare()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


def prepare() -> None:
    """Import the applications. What that makes stays: looking for garbage meanwhile is a fifth of a start."""
    gc.disable()
    try:
        import django

        django.setup()
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
