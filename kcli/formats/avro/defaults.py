"""Checks that the defaults of fields fit the types of the fields."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.formats.avro import json_text
from kcli.formats.avro.json_text import Json
from kcli.formats.avro.schema import Array, Enum, Field, Fixed, Kind, Map, Part, Primitive, Record, Union
from kcli.formats.avro.writing import java_text
from kcli.formats.codec import FormatError
from kcli.model.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

CHECKS_MAX = 100_000
"""The most values in all defaults. A default of a record may use the defaults of its fields, so the number of values
may grow exponentially with the size of the schema."""

NESTING_MAX = 100
"""The deepest nesting of defaults. A default may contain itself, if it is a record without the field."""


def check_defaults(fields: Iterable[Field]) -> None:
    """Raises FormatError for a default that does not fit the type of its field."""
    checker = _Checker()
    for field in fields:
        if field.default is not None and not checker.fits(field.type, field.default.json, 0):
            raise FormatError(
                f"Invalid default for field {field.name}:"
                f" {json_text.write(field.default.json)} not a {java_text(field.type)}"
            )


def fits_default(part: Part, value: Json) -> bool:
    """Whether a default fits the type of its field. Raises FormatError for a default with too many values."""
    return _Checker().fits(part, value, 0)


class _Checker:
    def __init__(self) -> None:
        self._checks = 0

    def fits(self, part: Part, value: Json, depth: int) -> bool:
        self._checks += 1
        if self._checks > CHECKS_MAX or depth > NESTING_MAX:
            raise FormatError("the defaults of the fields have too many values")
        match part:
            case Primitive():
                return _fits_primitive(part.kind, value)
            case Enum() | Fixed():
                return isinstance(value, str)
            case Array():
                return isinstance(value, list) and all(
                    self.fits(part.items, item, depth + 1) for item in value
                )
            case Map():
                return isinstance(value, dict) and all(
                    self.fits(part.values, item, depth + 1) for item in value.values()
                )
            case Union():
                return any(self.fits(branch, value, depth + 1) for branch in part.branches)
            case Record():
                return isinstance(value, dict) and all(
                    self._fits_field(field, value, depth + 1) for field in part.fields
                )

    def _fits_field(self, field: Field, record: dict[str, Json], depth: int) -> bool:
        if field.name in record:
            return self.fits(field.type, record[field.name], depth)
        return field.default is not None and self.fits(field.type, field.default.json, depth)


def _fits_primitive(kind: Kind, value: Json) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case Kind.NULL:
            return value is None
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.INT:
            return is_whole and INT_MIN <= value <= INT_MAX  # type: ignore[operator]
        case Kind.LONG:
            return is_whole and LONG_MIN <= value <= LONG_MAX  # type: ignore[operator]
        case Kind.FLOAT | Kind.DOUBLE:
            return is_whole or isinstance(value, float)
        case _:
            return isinstance(value, str)
