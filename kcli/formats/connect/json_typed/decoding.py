"""JSON as values of Connect's data model, with a function for each schema."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.json_typed.encoding import is_union
from kcli.formats.connect.json_typed.settings import KEY, VALUE
from kcli.formats.connect.logical import date_from_days, decimal_from_bytes, time_from_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Instant, as_key
from kcli.model.java_numbers import to_byte, to_int, to_long, to_short

Decode = Callable[[Any], object]
DIGITS_MAX = 100
"""The most digits of a whole number that is written with an exponent. The few characters of 1e999999999 would otherwise
become a number of 400 MB."""

_MISSING = object()
_WHOLE = {
    SchemaType.INT8: to_byte,
    SchemaType.INT16: to_short,
    SchemaType.INT32: to_int,
    SchemaType.INT64: to_long,
}


class JsonReaders:
    """Makes the functions that convert trees of JSON. The functions raise DataException."""

    def __init__(self) -> None:
        self._reads: dict[int, Decode] = {}
        self._schemas: list[Schema] = []

    def of(self, schema: Schema) -> Decode:
        """Returns the function that converts a tree to a value of a schema."""
        if (known := self._reads.get(id(schema))) is not None:
            return known
        self._schemas.append(schema)  # an identity has a meaning only while its object lives
        # Structs may contain themselves, so until the function is complete, it is looked up when it is called.
        self._reads[id(schema)] = lambda tree: self._reads[id(schema)](tree)
        convert, default, is_optional = self._present(schema), schema.default, schema.optional

        def decode(tree: Any) -> object:
            if tree is not None and tree is not _MISSING:
                return convert(tree)
            if default is None and tree is None and not is_optional:
                raise DataException(f"Invalid null value for required {schema.type.name} field")
            return default

        self._reads[id(schema)] = decode
        return decode

    def _present(self, schema: Schema) -> Decode:
        if (logical := _logical(schema)) is not None:
            return logical
        match schema.type:
            case SchemaType.STRUCT if is_union(schema):
                return self._union(schema)
            case SchemaType.STRUCT:
                return self._struct(schema)
            case SchemaType.ARRAY:
                assert schema.value_schema is not None, "an array has a schema of its items"
                read = self.of(schema.value_schema)
                return lambda tree: [read(item) for item in _checked(schema, tree, list)]
            case SchemaType.MAP:
                return self._map(schema)
            case _:
                return _scalar(schema)

    def _struct(self, schema: Schema) -> Decode:
        steps = [(item.name, self.of(item.schema)) for item in schema.fields]
        make = Struct.of_checked

        def decode(tree: Any) -> object:
            if not isinstance(tree, dict):
                raise DataException(
                    f"Structs should be encoded as JSON objects, but found {_node_type(tree)}"
                )
            get = tree.get
            return make(schema, [read(get(name, _MISSING)) for name, read in steps])

        return decode

    def _union(self, schema: Schema) -> Decode:
        reads = [self.of(item.schema) for item in schema.fields]

        def decode(tree: Any) -> object:
            position = _fitting(schema, tree)
            values: list[object] = [None] * len(reads)
            values[position] = reads[position](tree)
            return Struct.of_checked(schema, values)

        return decode

    def _map(self, schema: Schema) -> Decode:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None and values is not None, "a map has schemas of its keys and values"
        read_key, read = self.of(keys), self.of(values)
        if keys.type is SchemaType.STRING and not keys.optional:
            return lambda tree: {name: read(item) for name, item in _checked(schema, tree, dict).items()}

        def decode(tree: Any) -> object:
            made = {}
            for entry in _checked(schema, tree, list):
                if not isinstance(entry, dict) or entry.keys() != {KEY, VALUE}:
                    raise DataException(f"Found invalid map entry instead of object: {_node_type(entry)}")
                made[as_key(read_key(entry[KEY]))] = read(entry[VALUE])
            return made

        return decode


def _fitting(schema: Schema, tree: Any) -> int:
    """Returns the position of the field whose schema a value fits: the first of its type, or the struct with the most
    properties of the value."""
    best, most = -1, 0
    for position, item in enumerate(schema.fields):
        if _is_simple(item.schema, tree):
            return position
        matches = _matches(item.schema, tree)
        if matches > most:
            best, most = position, matches
    if best < 0:
        raise DataException("Did not find matching oneof field for data")
    return best


def _is_simple(schema: Schema, tree: Any) -> bool:
    match schema.type:
        case SchemaType.BOOLEAN:
            return isinstance(tree, bool)
        case SchemaType.STRING:
            return isinstance(tree, str)
        case SchemaType.FLOAT32 | SchemaType.FLOAT64:
            return isinstance(tree, (int, Decimal)) and not isinstance(tree, bool)
        case SchemaType.BYTES:
            return isinstance(tree, Decimal)
        case SchemaType.ARRAY:
            return isinstance(tree, list)
        case SchemaType.MAP:
            return isinstance(tree, (dict, list))
        case SchemaType.STRUCT:
            return False
        case _:
            return isinstance(tree, int) and not isinstance(tree, bool)


def _matches(schema: Schema, tree: Any) -> int:
    """Returns how many properties of an object are fields of a struct, also in inner structs."""
    if schema.type is not SchemaType.STRUCT or not isinstance(tree, dict):
        return 0
    both = [item for item in schema.fields if item.name in tree]
    return len(both) + sum(_matches(item.schema, tree[item.name]) for item in both)


def _logical(schema: Schema) -> Decode | None:
    match schema.name:
        case name if name == DECIMAL:
            return lambda tree: _decimal(schema, tree)
        case name if name == DATE:
            return lambda tree: date_from_days(_int(schema, tree, "Date"))
        case name if name == TIME:
            return lambda tree: time_from_ms(_int(schema, tree, "Time"))
        case name if name == TIMESTAMP:
            return lambda tree: Instant(_int(schema, tree, "Timestamp"))
        case _:
            return None


def _decimal(schema: Schema, tree: Any) -> object:
    if isinstance(tree, (int, Decimal)) and not isinstance(tree, bool):
        return Decimal(tree)
    if not isinstance(tree, str):
        raise DataException(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was"
            f" {_node_type(tree)}"
        )
    try:
        return decimal_from_bytes(schema, b64decode(tree, validate=True))
    except (binascii.Error, ValueError, JavaException) as error:
        raise DataException("Invalid bytes for Decimal field") from error


def _int(schema: Schema, tree: Any, name: str) -> int:
    if not isinstance(tree, int) or isinstance(tree, bool):
        raise DataException(
            f"Invalid type for {name}, underlying representation should be integer but was {_node_type(tree)}"
        )
    return tree


def _scalar(schema: Schema) -> Decode:
    match schema.type:
        case SchemaType.BOOLEAN:
            return lambda tree: _checked(schema, tree, bool)
        case SchemaType.STRING:
            return lambda tree: _checked(schema, tree, str)
        case SchemaType.BYTES:
            return lambda tree: _bytes(schema, tree)
        case SchemaType.FLOAT32:
            return lambda tree: Float32.of(_float(schema, tree))
        case SchemaType.FLOAT64:
            return lambda tree: _float(schema, tree)
        case kind:
            narrow = _WHOLE[kind]

            def whole(tree: Any) -> object:
                if isinstance(tree, Decimal):
                    tree = _whole_part(schema, tree)
                return narrow(_checked(schema, tree, int))

            return whole


def _whole_part(schema: Schema, number: Decimal) -> int:
    """Returns the whole part of a number. Raises DataException for one with too many digits."""
    if number.adjusted() > DIGITS_MAX:
        raise DataException(f"Invalid type for {schema.type.name}: a number of more than {DIGITS_MAX} digits")
    return int(number)


def _checked(schema: Schema, tree: Any, kind: type) -> Any:
    if not isinstance(tree, kind) or (isinstance(tree, bool) and kind is not bool):
        raise DataException(f"Invalid type for {schema.type.name}: {_node_type(tree)}")
    return tree


def _float(schema: Schema, tree: Any) -> float:
    if isinstance(tree, str) and tree in ("NaN", "Infinity", "-Infinity"):
        return float(tree)
    return float(tree if isinstance(tree, Decimal) else _checked(schema, tree, int))


def _bytes(schema: Schema, tree: Any) -> bytes:
    try:
        return b64decode(_checked(schema, tree, str), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataException("Invalid bytes field") from error


def _node_type(tree: Any) -> str:
    """The name of Jackson for the type of a value."""
    match tree:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
        case dict():
            return "OBJECT"
        case _:
            return "NUMBER"
