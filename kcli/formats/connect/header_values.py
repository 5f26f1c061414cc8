"""Finds the value that the text of a header probably has (`Values.parseString` of Kafka Connect).

The value is a number, a date, a boolean, null, an array or a map, or else the text itself. Java looks only at the first
token of many texts: `1,2` is the number 1. Texts in arrays and maps keep their backslashes.
"""

from __future__ import annotations

from decimal import Decimal

from kcli.formats.connect.common_schema import CommonSchema, fitted
from kcli.formats.connect.converter import NULL, SchemaAndValue
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.header_text import DATE_PATTERN, TIME_PATTERN, TIMESTAMP_PATTERN
from kcli.formats.connect.header_tokens import Tokens, is_blank
from kcli.formats.connect.schema import (
    BOOLEAN_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    decimal_schema,
)
from kcli.formats.connect.values import Float32, Float64, Instant, Int8, Int16, Int32, Int64, as_key
from kcli.model.java_dates.formats import SimpleDateFormat, UnparseableDate
from kcli.model.java_numbers import decimal_to_double, decimal_to_float
from kcli.model.java_text import (
    BYTE_MAX,
    BYTE_MIN,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    SHORT_MAX,
    SHORT_MIN,
    big_decimal,
    trim,
)

_LITERALS = {
    "null": NULL,
    "true": SchemaAndValue(BOOLEAN_SCHEMA, True),
    "false": SchemaAndValue(BOOLEAN_SCHEMA, False),
}
_INTEGERS: tuple[tuple[int, int, Schema, type[int]], ...] = (
    (BYTE_MIN, BYTE_MAX, INT8_SCHEMA, Int8),
    (SHORT_MIN, SHORT_MAX, INT16_SCHEMA, Int16),
    (INT_MIN, INT_MAX, INT32_SCHEMA, Int32),
    (LONG_MIN, LONG_MAX, INT64_SCHEMA, Int64),
)
# The lengths of texts of dates, with their patterns.
_DATES = {
    13: (TIME_SCHEMA, TIME_PATTERN),
    24: (TIMESTAMP_SCHEMA, TIMESTAMP_PATTERN),
    10: (DATE_SCHEMA, DATE_PATTERN),
}
_TOKENS_OF_TIME_AFTER_FIRST = 4
_FIRST_OF_VALUES = frozenset("+-[{")
_INTEGER_POWER_MAX = 20
"""A number of more digits is not a long."""


def parse_value(text: str) -> SchemaAndValue:
    """The value of a text. Raises ValueError in a few cases in which Java raises an unchecked exception."""
    if _is_plain(text):
        return SchemaAndValue(STRING_SCHEMA, text)
    return _Parser(text).value(embedded=False)


def _is_plain(text: str) -> bool:
    """Whether a text can be nothing but a text, because of its first character."""
    first = text[:1]
    if first.isdecimal() or first <= " " or first in _FIRST_OF_VALUES:
        return not text
    return trim(text) not in _LITERALS


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)

    def value(self, *, embedded: bool) -> SchemaAndValue:
        """Reads a value. Raises DataException if an embedded value is not valid."""
        tokens = self._tokens
        if not tokens.has_next():
            return NULL
        if embedded and tokens.takes('"'):
            return self._quoted()
        for literal, value in _LITERALS.items():
            if self._takes_literal(literal, embedded=embedded):
                return value
        start = tokens.mark()
        try:
            if tokens.takes("["):
                return self._array()
            if tokens.takes("{"):
                return self._map()
        except DataException:
            tokens.rewind(start)
        token = tokens.take()
        if is_blank(token):
            return SchemaAndValue(STRING_SCHEMA, token)
        return self._single(trim(token), embedded=embedded)

    def _takes_literal(self, literal: str, *, embedded: bool) -> bool:
        """Skips a literal. Outside of arrays and maps, nothing may follow it."""
        start = self._tokens.mark()
        if self._tokens.takes(literal) and (embedded or not self._tokens.has_next()):
            return True
        self._tokens.rewind(start)
        return False

    def _single(self, token: str, *, embedded: bool) -> SchemaAndValue:
        is_digit = token[0].isdecimal()
        if is_digit and (date := self._date(token)) is not None:
            return date
        if is_digit or token[0] in "+-":
            try:
                return _number(big_decimal(token))
            except ValueError:
                pass
        if embedded:
            raise DataException("Failed to parse embedded value")
        return SchemaAndValue(STRING_SCHEMA, self._tokens.text)

    def _date(self, token: str) -> SchemaAndValue | None:
        """A date whose first token is `token`, because the colons of a time are delimiters."""
        start = self._tokens.mark()
        rest = self._tokens.take_joined(_TOKENS_OF_TIME_AFTER_FIRST)
        if rest is not None and (date := _date(token + rest)) is not None:
            return date
        self._tokens.rewind(start)
        return _date(token)

    def _quoted(self) -> SchemaAndValue:
        parts = []
        while self._tokens.has_next() and not self._tokens.takes('"'):
            parts.append(self._tokens.take())
        content = "".join(parts)
        return _date(content) or SchemaAndValue(STRING_SCHEMA, content)

    def _array(self) -> SchemaAndValue:
        items: list[object] = []
        common = CommonSchema()
        while self._tokens.has_next():
            if self._tokens.takes("]"):
                schema = common.schema
                if schema is not None:
                    items = [fitted(schema, item) for item in items]
                return SchemaAndValue(Schema(SchemaType.ARRAY, value_schema=schema), items)
            if self._tokens.takes(","):
                raise self._invalid("Unable to parse an empty array element")
            item = self.value(embedded=True)
            common.add(item.schema)
            items.append(item.value)
            start = self._tokens.mark()
            if self._tokens.takes("]"):
                self._tokens.rewind(start)
            elif not self._tokens.takes(","):
                raise DataException("Array elements missing ',' delimiter")
        raise self._invalid("Array is missing terminating ']'")

    def _map(self) -> SchemaAndValue:
        entries: dict[object, object] = {}
        keys, values = CommonSchema(), CommonSchema()
        while self._tokens.has_next():
            if self._tokens.takes("}"):
                return _map(entries, keys.schema, values.schema)
            if self._tokens.takes(","):
                raise self._invalid("Unable to parse a map entry with no key or value")
            key = self.value(embedded=True)
            if key.value is None:
                raise self._invalid("Map entry may not have a null key")
            if not self._tokens.takes(":"):
                place = self._tokens.position
                raise DataException(f"Map entry is missing ':' at {place} in {self._tokens.text}")
            item = self.value(embedded=True)
            entries[as_key(key.value)] = item.value
            self._tokens.takes(",")
            keys.add(key.schema)
            values.add(item.schema)
        raise self._invalid("Map is missing terminating '}'")

    def _invalid(self, reason: str) -> DataException:
        return DataException(f"{reason}: {self._tokens.text}")


def _map(entries: dict[object, object], keys: Schema | None, values: Schema | None) -> SchemaAndValue:
    if keys is None:
        return SchemaAndValue(Schema(SchemaType.MAP), entries)
    fitting = {
        as_key(fitted(keys, key)): item if values is None else fitted(values, item)
        for key, item in entries.items()
    }
    return SchemaAndValue(Schema(SchemaType.MAP, key_schema=keys, value_schema=values), fitting)


def _date(text: str) -> SchemaAndValue | None:
    text = text.replace("\\:", ":")
    schema, pattern = _DATES.get(len(text), (None, ""))
    if schema is None:
        return None
    try:
        return SchemaAndValue(schema, Instant(SimpleDateFormat(pattern, None).parse(text)))
    except UnparseableDate:
        return None


def _number(number: Decimal) -> SchemaAndValue:
    """The smallest type that has a number."""
    for least, most, schema, kind in _INTEGERS:
        if _is_whole(number) and least <= number <= most:
            return SchemaAndValue(schema, kind(number))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the number is finite"
    if exponent:
        single, double = decimal_to_float(number), decimal_to_double(number)
        if abs(single) != float("inf"):
            return SchemaAndValue(FLOAT32_SCHEMA, Float32(single))
        if abs(double) != float("inf"):
            return SchemaAndValue(FLOAT64_SCHEMA, Float64(double))
    return SchemaAndValue(decimal_schema(-exponent), number)


def _is_whole(number: Decimal) -> bool:
    if not number:
        return True
    return 0 <= number.adjusted() <= _INTEGER_POWER_MAX and number == int(number)
