"""What each test would pay for and none looks at, paid once: a plugin of the suite (named in conftest.py).

Nothing here changes what an application under test does, only how often the same is worked out.
"""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connections, transaction
from django.test import TransactionTestCase
from django.test.utils import override_settings
from whitenoise.middleware import WhiteNoiseMiddleware

# Hundreds of processes are started of the same modules, which each would compile where the environment says so.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


class OneRound(PBKDF2PasswordHasher):
    """The hasher of the settings with one round instead of a million, each of which costs a microsecond.

    A password's hash says its own rounds: web processes that run beside the tests verify it as any other.
    """

    iterations = 1


@pytest.fixture(scope="session", autouse=True)
def _passwords_are_hashed_in_no_time() -> Iterator[None]:
    with override_settings(PASSWORD_HASHERS=[f"{__name__}.{OneRound.__name__}"]):
        yield


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_looked_for_once() -> Iterator[None]:
    """Each test client builds its own chain of middleware; the files that it may serve are the same for all."""
    found: dict[str, Any] = {}
    look = WhiteNoiseMiddleware.add_files_from_finders

    def look_once(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            look(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", look_once)
        yield


KEPT = ("django_migrations", "django_content_type", "auth_permission")
"""What stands in an empty database, as migrating it leaves it."""
WITH_PAGES = """
SELECT quote_ident(relname) FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND pg_relation_size(oid) > 0
    AND relname <> ALL (%s)
ORDER BY relname
"""


def delete_what_was_committed(case: TransactionTestCase) -> None:
    """Instead of TRUNCATE, which makes new files for every table, index and partition, used or not.

    As with TRUNCATE, transactions that still write are waited for, and what they write goes, too.
    """
    for alias in case._databases_names(include_mirrors=False):  # type: ignore[attr-defined]
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(WITH_PAGES, [list(KEPT)])
            tables = [name for (name,) in cursor.fetchall()]
            if tables:
                cursor.execute(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")
                cursor.execute("; ".join(f"DELETE FROM {name}" for name in tables))


@pytest.fixture(scope="session", autouse=True)
def _databases_are_emptied_by_deleting() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", delete_what_was_committed)
        yield
