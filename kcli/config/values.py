"""Parsed values of a configuration, read by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.definition import ConfigValue


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a definition. Each method takes keys of its type only."""

    values: Mapping[str, ConfigValue]

    def text(self, key: str) -> str:
        value = self.values[key]
        assert isinstance(value, str), key
        return value

    def optional_text(self, key: str) -> str | None:
        value = self.values[key]
        assert value is None or isinstance(value, str), key
        return value

    def integer(self, key: str) -> int:
        value = self.values[key]
        assert isinstance(value, int), key
        return value

    def optional_integer(self, key: str) -> int | None:
        value = self.values[key]
        assert value is None or isinstance(value, int), key
        return value

    def boolean(self, key: str) -> bool:
        value = self.values[key]
        assert isinstance(value, bool), key
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """The items of a list. A list that is null is empty."""
        value = self.values[key]
        assert value is None or isinstance(value, tuple), key
        return value or ()
