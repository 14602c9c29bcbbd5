"""Login links: once, for a while, for open accounts."""

import pytest
from django.test import Client

from apps.console.login_links import Refused, mint, redeem
from tests.console_ledger import make_person, make_tenant

pytestmark = pytest.mark.django_db


def test_a_link_logs_in_once_and_shows_the_live_page() -> None:
    tenant = make_tenant()
    path = mint(make_person(tenant))
    first = Client()
    answer = first.get(path, follow=True)
    assert answer.redirect_chain[-1][0] == f"/t/{tenant.slug}/"
    second = Client()
    answer = second.get(path)
    assert answer.status_code == 403
    assert "has been used" in answer.content.decode()
    assert second.get(f"/t/{tenant.slug}/executions/").status_code == 302


def test_links_that_are_over_forged_or_of_closed_accounts_are_refused() -> None:
    person = make_person(None)
    token = mint(person).removeprefix("/login/")
    over = redeem(mint(person, valid_seconds=-1).removeprefix("/login/"))
    assert isinstance(over, Refused)
    assert "is over" in over.why
    assert isinstance(redeem(token[:-1] + ("A" if token[-1] != "A" else "B")), Refused)
    assert isinstance(redeem("nonsense"), Refused)
    person.is_active = False
    person.save()
    closed = redeem(token)
    assert isinstance(closed, Refused)
    assert "closed" in closed.why
