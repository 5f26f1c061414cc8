"""The interface of the table of plugins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Protocol

from kcli.formats.connect.errors import ConnectException

UNDEFINED_VERSION = "undefined"
"""The version of a plugin that has none, as in Java."""

CLASSPATH = "classpath"
"""The location of plugins that are installed beside the worker, as Java calls it."""


class PluginType(StrEnum):
    """The kinds of plugins. The text is the `type` in `GET /connector-plugins`, which lists them in this order."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


CONNECTORS = (PluginType.SINK, PluginType.SOURCE)


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
    path: str | None = None
    """The entry of sys.path that has the module. None if the module is installed beside the worker."""
    location: str = CLASSPATH
    """The file or directory in which the plugin was found."""
    has_entry_point: bool = True

    def load(self) -> type[object]:
        return load_class(self.python_name, self.path)

    def __str__(self) -> str:
        """The form in which Java lists plugins in an error."""
        location = self.location if self.location == CLASSPATH else f"file:{self.location}"
        return (
            f"PluginDesc{{klass=class {self.class_name}, name='{self.class_name}', version='{self.version}', "
            f"encodedVersion={self.version}, type={self.kind}, typeName='{self.kind}', location='{location}'}}"
        )


class VersionNotFound(ConnectException):
    """A plugin is known, but not in a version that the configuration asks for."""

    def __init__(self, message: str, available: Sequence[str]) -> None:
        super().__init__(message)
        self.available = available


class Plugins(Protocol):
    def all(self, *kinds: PluginType) -> Sequence[Plugin]:
        """The plugins of these kinds, by kind and name. Without kinds: all plugins."""
        ...

    def find(self, name: str, *kinds: PluginType, version: str | None = None) -> Plugin:
        """The plugin of a class name or alias. Without kinds: of any kind.

        Raises ConnectException if the name is unknown, VersionNotFound, and InvalidVersion.
        """
        ...

    def class_named(self, name: str) -> str | None:
        """The full name of a plugin's class, or of an abstract class such as `…Cast` of `…Cast$Key`. None if the name
        is unknown."""
        ...


def load_class(python_name: str, path: str | None) -> type[object]:
    """Imports `module:Class`. `path` becomes an entry of sys.path, after all others, because the modules of a plugin
    must not replace those of the worker."""
    if path is not None and path not in sys.path:
        sys.path.append(path)
    module, _, name = python_name.partition(":")
    return getattr(import_module(module), name)  # type: ignore[no-any-return]
