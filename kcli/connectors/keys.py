"""Helpers for the keys of a connector: their declaration in groups, and their values by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcli.config.definition import ConfigKey, ConfigValue, Width


@dataclass(slots=True)
class KeyGroup:
    """Declares the keys of a group, whose order in a form is the order of the declarations."""

    name: str
    keys: list[ConfigKey] = field(default_factory=list)

    def add(self, key: ConfigKey, display: str, width: Width = Width.MEDIUM) -> None:
        placed = replace(key, group=self.name, order=len(self.keys) + 1, display_name=display, width=width)
        self.keys.append(placed)


def text(values: Mapping[str, ConfigValue], key: str) -> str:
    return optional_text(values, key) or ""


def number(values: Mapping[str, ConfigValue], key: str) -> int:
    value = values[key]
    assert isinstance(value, int), key
    return value


def names(values: Mapping[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = values[key]
    assert isinstance(value, tuple), key
    return tuple(item for item in value if item)


def optional_text(values: Mapping[str, ConfigValue], key: str) -> str | None:
    value = values.get(key)
    assert value is None or isinstance(value, str), key
    return value
