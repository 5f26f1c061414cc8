"""The errors of filters."""

from __future__ import annotations

from kcli.errors import KcliError


class FilterSyntaxError(KcliError):
    """Raised for an invalid filter. `position` is the index of the character at which the mistake was found."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position + 1})")
        self.position = position


class TooMuchWork(KcliError):
    """Raised if the evaluation of a filter on one record needs more work than allowed."""
