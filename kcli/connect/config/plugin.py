"""The interface of the table of plugins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class PluginType(StrEnum):
    """The kinds of plugins. The text is the `type` in `GET /connector-plugins`."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin under the class name that users write. `load` imports its Python class."""

    class_name: str
    """The name in answers: Java's name if the class replaces a Java class, else the dotted Python name."""
    python_name: str
    """`module:Class`, which a task process can import."""
    kind: PluginType
    version: str
    aliases: Sequence[str]

    def load(self) -> type[object]:
        from importlib import import_module

        module, _, name = self.python_name.partition(":")
        return getattr(import_module(module), name)  # type: ignore[no-any-return]


class Plugins(Protocol):
    def all(self, *kinds: PluginType) -> Sequence[Plugin]: ...

    def find(self, name: str, *kinds: PluginType) -> Plugin:
        """The plugin of a class name or alias. Raises ConnectException with near matches if the name is unknown."""
        ...
