"""A button of any page, and what its dialog says; templates/console/_acts.html and _act_dialog.html show them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Act:
    """A button, and what its dialog says. when: words of a run's or node's standing that must all hold (`!`: not).

    typed: whether the name must be typed first. note: the label of a field for a note; empty: none.
    """

    key: str
    label: str
    title: str
    text: str
    when: str = ""
    typed: bool = False
    note: str = ""
    danger: bool = False

    def shown(self, standing_words: str) -> bool:
        found = set(standing_words.split())
        return all((word[1:] not in found) if word[0] == "!" else word in found for word in self.when.split())
