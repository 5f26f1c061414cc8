"""Keys that change the fields of chosen columns: they cut or mask texts, or add the type of the column to the schema.

The names of these keys contain a number, an algorithm or a salt, such as `column.truncate.to.20.chars`. As in Debezium,
the first rule that fits a column holds, keys of records are not changed, and masks change only characters, although the
schema of each masked column has the parameter `masked`.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kcli.config.definition import invalid_value
from kcli.connectors.cdc.expressions import any_matches
from kcli.connectors.cdc.value_types import DOMAIN, ENUM, TypeInfo, ValueType, numeric_size
from kcli.model.java_regex import JavaRegexError
from kcli.model.java_text import split_list

_log = logging.getLogger("kcli.connectors.cdc")
LENGTH_MAX = 2_147_483_647
"""The length of a column without a limit."""
_CHARACTERS = frozenset({"bpchar", "varchar", "text"})
_MASK_MAX = 1_000_000
"""The longest mask, because each value becomes as long."""
_SERIALIZED_TEXT = b"\xac\xed\x00\x05t"
"""The beginning of a text that Java has serialized. Version 1 of a hash is made of it."""
_SERIALIZED_MAX = 65_535
_SERIALIZED_LONG = b"\xac\xed\x00\x05|"
_ALGORITHMS: Mapping[str, str] = {
    "MD5": "md5", "SHA": "sha1", "SHA-1": "sha1", "SHA-224": "sha224", "SHA-256": "sha256", "SHA-384": "sha384",
    "SHA-512": "sha512", "SHA3-224": "sha3_224", "SHA3-256": "sha3_256", "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}  # fmt: skip
"""The names of hashes in Java and in Python."""
_TRUNCATE = re.compile(r"column\.truncate\.to\.([0-9]{1,9})\.chars")
_MASK = re.compile(r"column\.mask\.with\.([0-9]{1,9})\.chars")
_HASH = re.compile(r"column\.mask\.hash\.(v2\.)?([^.]+)\.with\.salt\.(.+)")
_SOURCE_TYPE, _SOURCE_TYPE_OF_TYPES = "column.propagate.source.type", "datatype.propagate.source.type"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column with its modifier."""

    info: TypeInfo
    modifier: int

    @property
    def _plain(self) -> tuple[TypeInfo, int]:
        """The type of a value, under domains and arrays."""
        info, modifier = self.info, self.modifier
        while True:
            if info.kind == DOMAIN and info.base is not None:
                modifier = modifier if modifier >= 0 else info.base_modifier
                info = info.base
            elif info.item is not None:
                info = info.item
            else:
                return info, modifier

    @property
    def is_text(self) -> bool:
        """Whether the values are characters for the JDBC driver, so that masks change them."""
        plain, _ = self._plain
        return self.info.item is None and (plain.name in _CHARACTERS or plain.kind == ENUM)

    @property
    def length(self) -> int:
        return self._size[0]

    @property
    def scale(self) -> int:
        return self._size[1]

    @property
    def _size(self) -> tuple[int, int]:
        """The length and the scale, as the JDBC driver of PostgreSQL shows them."""
        info, modifier = self._plain
        if info.name in _SIZES:
            return _SIZES[info.name]
        if info.name in ("bpchar", "varchar"):
            return (modifier - 4, 0) if modifier >= 4 else (LENGTH_MAX, 0)
        if info.name in ("bit", "varbit"):
            return (modifier, 0) if modifier > 0 else (LENGTH_MAX, 0)
        if info.name == "numeric":
            return numeric_size(modifier) or (131_089, 0)
        if info.name in _CLOCK_LENGTHS:
            precision = modifier if modifier >= 0 else 6
            # The driver counts two digits for a precision of 1.
            fraction = max(precision, 2) + 1 if precision else 0
            return _CLOCK_LENGTHS[info.name] + fraction, precision
        if info.name == "interval":
            return 49, modifier & 0xFFFF if modifier >= 0 and modifier & 0xFFFF != 0xFFFF else 6
        return LENGTH_MAX, 0


_SIZES: Mapping[str, tuple[int, int]] = {
    "int2": (5, 0), "int4": (10, 0), "int8": (19, 0), "oid": (10, 0), "bool": (1, 0), "date": (13, 0),
    "float4": (8, 8), "float8": (17, 17),
}  # fmt: skip
_CLOCK_LENGTHS: Mapping[str, int] = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}
"""The lengths of the texts without a fraction of a second."""


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """A key with the columns that it changes."""

    matches: Callable[[str, TypeInfo], bool]
    """Whether a column is chosen, by `schema.table.column` and its type."""
    change: Callable[[str, ColumnType, ValueType], ValueType]
    """The new type of a field. The first argument is the name of the column."""


def changed_type(
    rules: Sequence[ColumnRule], table: str, column: str, kind: ColumnType, type: ValueType
) -> ValueType:
    for rule in rules:
        if rule.matches(f"{table}.{column}", kind.info):
            return rule.change(column, kind, type)
    return type


def is_rule(key: str) -> bool:
    return key in (_SOURCE_TYPE, _SOURCE_TYPE_OF_TYPES) or any(
        pattern.fullmatch(key) for pattern in (_TRUNCATE, _MASK, _HASH)
    )


def parse_rules(config: Mapping[str, str]) -> tuple[ColumnRule, ...]:
    """The rules of a configuration, in the order in which they hold. Raises ConfigError."""
    ranked = [
        (rank, rule)
        for key, value in config.items()
        for rank, parse in enumerate((_truncate_rule, _mask_rule, _hash_rule, _source_type_rule))
        if (rule := parse(key, value)) is not None
    ]
    return tuple(rule for _, rule in sorted(ranked, key=lambda pair: pair[0]))


def _columns(key: str, value: str) -> Callable[[str, TypeInfo], bool]:
    try:
        matches = any_matches(split_list(value))
    except JavaRegexError as error:
        raise invalid_value(key, value, f"Invalid regex: {error}") from None
    return lambda column, _: matches(column)


def _with_parameters(type: ValueType, parameters: Mapping[str, str]) -> ValueType:
    return replace(
        type, schema=replace(type.schema, parameters={**(type.schema.parameters or {}), **parameters})
    )


def _with_values(type: ValueType, change: Callable[[object], object]) -> ValueType:
    """The type with changed values. NULL stays NULL."""
    convert = type.convert
    return replace(
        type,
        convert=lambda text: change(convert(text)),
        fallback=change(type.fallback),
        unavailable=change(type.unavailable),
    )


def _truncate_rule(key: str, value: str) -> ColumnRule | None:
    match = _TRUNCATE.fullmatch(key)
    if match is None:
        return None
    length = int(match[1])

    def change(_: str, kind: ColumnType, type: ValueType) -> ValueType:
        if kind.length <= length:
            return type
        return _with_values(
            _with_parameters(type, {"truncateLength": str(length)}), lambda value: _shortened(value, length)
        )

    return ColumnRule(_columns(key, value), change)


def _shortened(value: object, length: int) -> object:
    """The beginning of a text or of bytes.

    The length of a text is in UTF-16, as in Java. Half a character at the end is left out, because UTF-8 has no form
    of it.
    """
    if isinstance(value, bytes):
        return value[:length]
    if not isinstance(value, str):
        return value
    return value[:length].encode("utf-16-le")[: length * 2].decode("utf-16-le", "ignore")


def _mask_rule(key: str, value: str) -> ColumnRule | None:
    match = _MASK.fullmatch(key)
    if match is None:
        return None
    if int(match[1]) > _MASK_MAX:
        raise invalid_value(key, value, f"expected a mask of at most {_MASK_MAX} characters")
    mask = "*" * int(match[1])

    def change(column: str, kind: ColumnType, type: ValueType) -> ValueType:
        type = _masked(column, kind, type)
        if not kind.is_text:
            return type
        return replace(type, convert=lambda _: mask, fallback=mask, unavailable=mask, null=mask)

    return ColumnRule(_columns(key, value), change)


def _hash_rule(key: str, value: str) -> ColumnRule | None:
    match = _HASH.fullmatch(key)
    if match is None:
        return None
    algorithm = _ALGORITHMS.get(match[2].upper())
    if algorithm is None:
        raise invalid_value(key, value, f"unknown hash {match[2]}: expected one of {', '.join(_ALGORITHMS)}")
    salt, encode = match[3].encode(), str.encode if match[1] else _serialized

    def change(column: str, kind: ColumnType, type: ValueType) -> ValueType:
        def hashed(text: object) -> object:
            assert isinstance(text, str), "the values of characters are texts"
            return hashlib.new(algorithm, salt + encode(text), usedforsecurity=False).hexdigest()[
                : kind.length
            ]

        type = _masked(column, kind, type)
        return _with_values(type, hashed) if kind.is_text else type

    return ColumnRule(_columns(key, value), change)


def _masked(column: str, kind: ColumnType, type: ValueType) -> ValueType:
    if not kind.is_text:
        _log.warning(
            "%s is not masked, because masks change only characters, and not %s", column, kind.info.name
        )
    return _with_parameters(type, {"masked": "true"})


def _serialized(text: str) -> bytes:
    """A text as Java serializes it: in UTF-8 of each half of a pair in UTF-16, and with two bytes for zero."""
    units = text.encode("utf-16-be")
    halves = "".join(chr(int.from_bytes(units[place : place + 2])) for place in range(0, len(units), 2))
    encoded = halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(encoded) <= _SERIALIZED_MAX:
        return _SERIALIZED_TEXT + len(encoded).to_bytes(2) + encoded
    return _SERIALIZED_LONG + len(encoded).to_bytes(8) + encoded


def _source_type_rule(key: str, value: str) -> ColumnRule | None:
    if key not in (_SOURCE_TYPE, _SOURCE_TYPE_OF_TYPES):
        return None
    columns = _columns(key, value)

    def matches_type(column: str, info: TypeInfo) -> bool:
        return columns(f"{column.rpartition('.')[0]}.{info.name}", info)

    return ColumnRule(columns if key == _SOURCE_TYPE else matches_type, _with_source_type)


def _with_source_type(column: str, kind: ColumnType, type: ValueType) -> ValueType:
    parameters = {
        "type": kind.info.name.upper(), "length": str(kind.length), "scale": str(kind.scale), "name": column
    }  # fmt: skip
    return _with_parameters(
        type, {f"__debezium.source.column.{name}": value for name, value in parameters.items()}
    )
