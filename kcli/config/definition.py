"""Configuration keys: type, default, valid values and documentation, with Java's exact error texts.

A `ConfigDef` is an ordered table of `ConfigKey`. Parsing trims the text, converts it to a Python value, and checks the
value with the key's validator. An invalid value raises `ConfigError` with the text of Kafka's ConfigException, because
clients and scripts read that text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar, Protocol

from kcli.model.java_floats import java_double
from kcli.model.java_text import (
    parse_boolean,
    parse_double,
    parse_int,
    parse_long,
    parse_short,
    split_list,
    trim,
)

ConfigValue = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The types of a key's value, with their numbers in DescribeConfigs v3."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(StrEnum):
    HIGH = "H"
    MEDIUM = "M"
    LOW = "L"


class Width(StrEnum):
    """The width of the field of a key in a form (ConfigDef.Width)."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class UpdateMode(StrEnum):
    """Whether a broker key may change without a restart, for one broker or for the whole cluster (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(ValueError):
    """A key has an invalid value. `str()` is Kafka's text. `where` is the `file:line` of the value, if known."""

    def __init__(self, message: str, *, key: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
        self.where = where

    def at(self, where: str) -> ConfigError:
        """The same error with the place of the value, such as `server.properties:12`."""
        return ConfigError(self.message, key=self.key, where=self.where or where)

    def located(self) -> str:
        """The text with the place of the value, and with the name of the key."""
        text = self.message if self.key is None or self.key in self.message else f"{self.key}: {self.message}"
        return f"{self.where}: {text}" if self.where else text


def invalid_value(key: str, value: object, reason: str) -> ConfigError:
    shown = java_string(value)
    return ConfigError(f"Invalid value {shown} for configuration {key}: {reason}", key=key)


def missing_value(key: str) -> ConfigError:
    return ConfigError(f'Missing required configuration "{key}" which has no default value.', key=key)


def invalid_change(reason: str, key: str | None = None) -> ConfigError:
    """The error of a part of a broker that refuses a change of dynamic configs, with Kafka's text."""
    exception = "org.apache.kafka.common.config.ConfigException"
    return ConfigError(
        f"Invalid value {exception}: {reason} for configuration Invalid dynamic configuration", key=key
    )


class Validator(Protocol):
    def check(self, key: str, value: ConfigValue) -> None: ...


@dataclass(frozen=True, slots=True)
class Range:
    """A number of at least `low` and, if given, at most `high`."""

    low: float | None = None
    high: float | None = None

    def check(self, key: str, value: ConfigValue) -> None:
        if value is None:
            raise invalid_value(key, value, "Value must be non-null")
        assert isinstance(value, (int, float))
        if self.low is not None and value < self.low:
            raise invalid_value(key, value, f"Value must be at least {java_string(self.low)}")
        if self.high is not None and value > self.high:
            raise invalid_value(key, value, f"Value must be no more than {java_string(self.high)}")

    def __str__(self) -> str:
        if self.high is None:
            return f"[{java_string(self.low)},...]"
        if self.low is None:
            return f"[...,{java_string(self.high)}]"
        return f"[{java_string(self.low)},...,{java_string(self.high)}]"


@dataclass(frozen=True, slots=True)
class RangeOr:
    """A compression level: a number from `low` to `high`, or the number `other`, which means the default level of the
    codec."""

    low: int
    high: int
    other: int

    def check(self, key: str, value: ConfigValue) -> None:
        if value is None:
            raise invalid_value(key, value, "Value must be non-null")
        assert isinstance(value, int)
        if value != self.other and not self.low <= value <= self.high:
            reason = f"Value must be between {self.low} and {self.high} or equal to {self.other}"
            raise invalid_value(key, value, reason)

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.other}"


@dataclass(frozen=True, slots=True)
class OneOf:
    values: tuple[str, ...]
    ignore_case: bool = False

    def check(self, key: str, value: ConfigValue) -> None:
        for item in value if isinstance(value, tuple) else (value,):
            if not self._has(item):
                kind = " (case insensitive)" if self.ignore_case else ""
                names = ", ".join(self.values)
                raise invalid_value(key, item, f"String must be one of{kind}: {names}")

    def _has(self, item: object) -> bool:
        if self.ignore_case and isinstance(item, str):
            return item.upper() in {value.upper() for value in self.values}
        return item in self.values

    def __str__(self) -> str:
        return ("(case insensitive) " if self.ignore_case else "") + f"[{', '.join(self.values)}]"


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """A string or list that is null or not empty."""

    def check(self, key: str, value: ConfigValue) -> None:
        if value == "":
            raise invalid_value(key, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NonNull:
    def check(self, key: str, value: ConfigValue) -> None:
        if value is None:
            raise invalid_value(key, value, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


@dataclass(frozen=True, slots=True)
class Matching:
    """A value that a given function accepts. `reason` is the error text, with `{key}` and `{value}` filled in."""

    accepts: Callable[[ConfigValue], bool]
    reason: str
    text: str

    def check(self, key: str, value: ConfigValue) -> None:
        if not self.accepts(value):
            reason = self.reason.replace("{key}", key).replace("{value}", java_string(value))
            raise invalid_value(key, value, reason)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression for the metrics filter. An invalid expression raises an error with the same text as in
    Kafka."""

    def check(self, key: str, value: ConfigValue) -> None:
        from kcli.model.java_regex import JavaRegexError, compile_java

        try:
            compile_java(java_string(value))
        except JavaRegexError as error:
            message = f"JMX filter for configuration {key} is not a valid regular expression: {error}"
            raise ConfigError(message, key=key) from None

    def __str__(self) -> str:
        return "regular expression"


class Recommender(Protocol):
    """Looks at the parsed values of all keys, and tells a form about one key (ConfigDef.Recommender)."""

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        """The values that a form offers. An empty list means that the key has no list of values."""
        ...

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        """Whether the key matters with these values."""
        ...


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A regular expression of Java for names of topics. Null is invalid, with the text of Java's own error."""

    # The translation of a pattern takes about 2 µs a character, and a worker validates for every client.
    LENGTH_MAX: ClassVar[int] = 1 << 15

    def check(self, key: str, value: ConfigValue) -> None:
        from kcli.model.java_regex import JavaRegexError, compile_java

        if value is None:
            reason = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'
            raise invalid_value(key, value, f"Invalid regex: {reason}")
        assert isinstance(value, str)
        if len(value) > self.LENGTH_MAX:
            reason = f"a pattern may have up to {self.LENGTH_MAX} characters"
            raise ConfigError(f"Invalid value for configuration {key}: {reason}", key=key)
        try:
            compile_java(value, ascii_only=True)
        except JavaRegexError as error:
            raise invalid_value(key, value, f"Invalid regex: {error.java_message}") from None

    def __str__(self) -> str:
        return "valid regex"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. `default` is the text of the default value. A `required` key has no default.

    The fields from `group` on are for forms and for the validation of all keys at once (`kcli.config.validation`). A
    broker's keys do not have them.
    """

    name: str
    type: ConfigType
    default: str | None
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False
    required: bool = False
    group: str | None = None
    order: int = -1
    """The place in the group. -1 stands for no place."""
    width: Width = Width.NONE
    display_name: str = ""
    """The label in a form. An empty text stands for the name."""
    dependents: tuple[str, ...] = ()
    """The keys whose meaning depends on this key."""
    recommender: Recommender | None = None
    find_class: Callable[[str], str | None] | None = None
    """Converts the name of a class to its full name, or returns None if there is no such class."""

    def parse(self, text: str | None) -> ConfigValue:
        """Converts `text` to a value of this key. Raises ConfigError with Kafka's text if it is invalid."""
        value = self.convert(text)
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    def convert(self, text: str | None) -> ConfigValue:
        """Converts `text` without the validator. Raises ConfigError if the text has another type."""
        value = parse_type(self.name, text, self.type)
        if self.find_class is None or not isinstance(value, str):
            return value
        name = self.find_class(value)
        if name is None:
            raise invalid_value(self.name, text, f"Class {text} could not be found.")
        return name

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


class ConfigDef(Mapping[str, ConfigKey]):
    """A table of keys in the order in which they are declared. Kafka lists a broker's keys by name."""

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        self._keys = {key.name: key for key in keys}
        self._defaults: dict[str, ConfigValue] = {
            key.name: parse_type(key.name, key.default, key.type) for key in self._keys.values()
        }

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def default(self, name: str) -> ConfigValue:
        return self._defaults[name]

    def parse(self, texts: Mapping[str, str]) -> dict[str, ConfigValue]:
        """The value of every key, parsed from `texts`. A key that is missing in `texts` has its default."""
        values: dict[str, ConfigValue] = {}
        for key in self._keys.values():
            if key.name in texts:
                values[key.name] = key.parse(texts[key.name])
            elif key.required:
                raise missing_value(key.name)
            else:
                values[key.name] = self._defaults[key.name]
        return values


_INTEGERS = {ConfigType.INT: parse_int, ConfigType.SHORT: parse_short, ConfigType.LONG: parse_long}


def parse_type(key: str, text: str | None, kind: ConfigType) -> ConfigValue:
    """Converts a text to a value of `kind` by the rules of Java's ConfigDef. The text is trimmed first."""
    if text is None:
        return None
    trimmed = trim(text)
    match kind:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise invalid_value(key, text, "Expected value to be either true or false")
            return parse_boolean(trimmed)
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG | ConfigType.DOUBLE:
            try:
                return parse_double(trimmed) if kind is ConfigType.DOUBLE else _INTEGERS[kind](trimmed)
            except ValueError:
                raise invalid_value(key, text, f"Not a number of type {kind.name}") from None
        case ConfigType.LIST:
            return split_list(trimmed)
        case _:
            return trimmed


def java_string(value: object) -> str:
    """Formats a value as Java's `String.valueOf` and ConfigDef's `convertToString` do."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case tuple():
            return "[" + ", ".join(map(str, value)) + "]"
        case _:
            return str(value)


def value_text(value: ConfigValue) -> str | None:
    """Converts a parsed value to the text that DescribeConfigs sends. The items of a list are joined by commas. None
    stays None."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return ",".join(value)
    return java_string(value)
