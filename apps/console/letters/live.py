"""The socket of the page of dead letters."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from apps.console.fragments import PiecesConsumer
from apps.console.letters.filters import Chosen
from apps.console.letters.page import MOST_WATCHED, LettersPage
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import InvalidInput, NotFound
from chronoweb.runtime.uuids import parse_uuid


def page_of(principal: Principal, given: Mapping[str, str], *, origin: str) -> LettersPage:
    """The page that a query is of. Raises InvalidInput."""
    watched = [found for text in given.get("canary", "").split(",")[:MOST_WATCHED] if (found := parse_uuid(text))]
    return LettersPage(
        principal, Chosen.of(given), before=parse_uuid(given.get("before", "")), watched=watched, origin=origin
    )


class LettersConsumer(PiecesConsumer):
    name = "letters"

    def check(self) -> None:
        try:
            given = {key: values[0] for key, values in parse_qs(self.query).items()}
            self._page = page_of(self.principal, given, origin=self.origin)
        except InvalidInput as error:
            raise NotFound(str(error)) from error

    def page(self) -> LettersPage:
        return self._page

    def key(self) -> tuple[Any, ...]:
        return (self._page.chosen, self._page.before, self._page.watched, self.origin)
