"""Reads the members of JSON objects by type, and makes objects without empty members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kcli.errors import KcliError
from kcli.model.java_order import text_order
from kcli.model.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from kcli.protocol.records.schema import Json

JsonObject = dict[str, Json]
T = TypeVar("T")


class InvalidDocument(KcliError):
    """A JSON value does not have the form of its document. The message names the member."""


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a JSON object. A member that is null counts as missing, and unknown members are ignored.

    Each method raises InvalidDocument if the member has another type.
    """

    values: Mapping[str, object]
    path: str

    @classmethod
    def of(cls, value: object, path: str) -> Members:
        """The members of a value that must be an object. `path` names the object in errors."""
        if not isinstance(value, dict):
            raise InvalidDocument(f"{path}: expected an object, found {_type_name(value)}")
        return cls(value, path)

    def is_null(self, name: str) -> bool:
        """Whether the member is present and null."""
        return name in self.values and self.values[name] is None

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def required_text(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise InvalidDocument(f"{self.path}.{name}: the member is missing")
        return value

    def number(self, name: str) -> int | None:
        """A whole number of 32 bits."""
        return self._number(name, INT_MIN, INT_MAX)

    def required_number(self, name: str) -> int:
        value = self.number(name)
        if value is None:
            raise InvalidDocument(f"{self.path}.{name}: the member is missing")
        return value

    def long(self, name: str) -> int | None:
        """A whole number of 64 bits."""
        return self._number(name, LONG_MIN, LONG_MAX)

    def boolean(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def list_of(self, name: str, parse: Callable[[object, str], T]) -> tuple[T, ...]:
        """A list, whose items `parse` reads. Its second argument names the item in errors."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return tuple(parse(item, f"{self.path}.{name}[{index}]") for index, item in enumerate(value))

    def map_of(self, name: str, parse: Callable[[object, str], T]) -> dict[str, T]:
        """An object, whose values `parse` reads. The names are in the order of Java's sorted maps."""
        value = self.values.get(name)
        if value is None:
            return {}
        members = Members.of(value, f"{self.path}.{name}").values
        return {
            key: parse(members[key], f"{self.path}.{name}.{key}") for key in sorted(members, key=text_order)
        }

    def object_of(self, name: str, parse: Callable[[object, str], T]) -> T | None:
        """An object that `parse` reads."""
        value = self.values.get(name)
        return None if value is None else parse(value, f"{self.path}.{name}")

    def _number(self, name: str, least: int, most: int) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(name, f"a whole number from {least} to {most}")
        return value

    def _wrong(self, name: str, expected: str) -> InvalidDocument:
        return InvalidDocument(
            f"{self.path}.{name}: expected {expected}, found {_type_name(self.values[name])}"
        )


def text_item(value: object, path: str) -> str:
    """A text in a list or in a map."""
    if not isinstance(value, str):
        raise InvalidDocument(f"{path}: expected a text, found {_type_name(value)}")
    return value


def sorted_texts(value: object, path: str) -> tuple[str, ...]:
    """A list of texts as a set, in the order of Java's sorted sets."""
    if not isinstance(value, list):
        raise InvalidDocument(f"{path}: expected a list, found {_type_name(value)}")
    return tuple(sorted({text_item(item, path) for item in value}, key=text_order))


def without_empty(members: JsonObject) -> JsonObject:
    """The members that have a value. None, an empty text and an empty list are left out, and false and 0 are not."""
    return {name: value for name, value in members.items() if value is not None and value not in ("", [])}


def _type_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a text"
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"the number {value}"
