"""The validators and recommenders of the keys of connectors, with Java's texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigError, ConfigValue, Range, invalid_value
from kcli.connect.config.plugin import Plugins, PluginType
from kcli.connect.config.versions import InvalidVersion, required_range

SIMPLE_NAMES = {
    PluginType.SINK: "SinkConnector",
    PluginType.SOURCE: "SourceConnector",
    PluginType.TRANSFORMATION: "Transformation",
    PluginType.PREDICATE: "Predicate",
    PluginType.CONVERTER: "Converter",
    PluginType.HEADER_CONVERTER: "HeaderConverter",
}
"""The simple names of Java's interfaces."""

NAMES_MAX = 1000
"""The most transformations, predicates or groups of topics. Each transformation has about ten rows in an answer."""


class Name:
    """The name of a connector: a text that is not empty and has no control characters."""

    def check(self, key: str, value: ConfigValue) -> None:
        if value is None:
            return
        assert isinstance(value, str)
        if not value:
            raise invalid_value(key, value, "String may not be empty")
        codes = [str(ord(char)) for char in value if unicodedata.category(char) == "Cc"]
        if codes:
            raise invalid_value(
                key,
                value,
                "String may not contain control sequences but had the following ASCII chars: "
                + ", ".join(codes),
            )

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


@dataclass(frozen=True, slots=True)
class UniqueNames:
    """A list without a name that is there twice. `what` describes the names."""

    what: str

    def check(self, key: str, value: ConfigValue) -> None:
        if value is None:
            raise invalid_value(key, value, "entry must be non null")
        assert isinstance(value, tuple)
        if len(value) > NAMES_MAX:
            raise ConfigError(f"Invalid value for configuration {key}: more than {NAMES_MAX} names", key=key)
        if len(set(value)) < len(value):
            raise invalid_value(key, value, "Duplicate alias provided.")

    def __str__(self) -> str:
        return f"non-null string, unique {self.what}"


class OptionalInterval:
    """A number of milliseconds, or null."""

    def check(self, key: str, value: ConfigValue) -> None:
        if value is not None:
            Range(0).check(key, value)

    def __str__(self) -> str:
        return "[0,...]"


class VersionSpec:
    """A version or a range of versions, or null."""

    def check(self, key: str, value: ConfigValue) -> None:
        assert value is None or isinstance(value, str)
        try:
            required_range(value)
        except InvalidVersion as error:
            raise invalid_value(key, value, str(error)) from None

    def __str__(self) -> str:
        return "a version, or a range of versions such as [1.0,2.0)"


@dataclass(frozen=True, slots=True)
class ClassOf:
    """The full name of a class, which is a plugin of one kind."""

    plugins: Plugins
    kind: PluginType

    def check(self, key: str, value: ConfigValue) -> None:
        """Accepts null, because an unknown class has been reported before."""
        if value is None:
            return
        assert isinstance(value, str)
        if any(plugin.class_name == value for plugin in self.plugins.all(self.kind)):
            return
        inner = [
            plugin.class_name
            for plugin in self.plugins.all(self.kind)
            if plugin.class_name.startswith(f"{value}$")
        ]
        if inner:
            names = ", ".join(inner)
            raise ConfigError(f"This class is abstract and cannot be created. Did you mean {names}?", key=key)
        raise ConfigError(
            f"Class class {value} does not implement the {SIMPLE_NAMES[self.kind]} interface", key=key
        )

    def __str__(self) -> str:
        return f"A concrete subclass of {SIMPLE_NAMES[self.kind]}"


@dataclass(frozen=True, slots=True)
class Choices:
    """Recommends values that do not depend on other keys."""

    values: Sequence[str]

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return self.values

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class VersionsOf:
    """Recommends the versions of the class that another key names, and is visible if that class is known."""

    class_key: str
    versions: Sequence[str]

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return self.versions

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return values[self.class_key] is not None
