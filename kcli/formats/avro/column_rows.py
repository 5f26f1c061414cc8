"""Encodes rows whose values have the types of Arrow columns: the reverse of `columns.py`.

A union of several types is a struct of its branches there, a record in itself is JSON, and a map is a list of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from uuid import UUID

from kcli.formats.avro import json_text
from kcli.formats.avro.arrow_types import DECIMAL_DIGITS, Path, branch_fields, branches_with_values
from kcli.formats.avro.codec import avro_codec
from kcli.formats.avro.json_values import value_of
from kcli.formats.avro.language import AvroSchema
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.avro.schema import Array, Fixed, Logical, Map, Part, Primitive, Record, Union, branch_name
from kcli.formats.avro.stored_values import Convert
from kcli.formats.codec import FormatError, Value


def row_encoder(schema: AvroSchema) -> Callable[[Value], bytes]:
    """Returns a function that encodes a row. The function raises InvalidAvro."""
    encode, convert = avro_codec(schema).encode, _converter(schema.root, ())
    if convert is None:
        return encode
    converted = convert
    return lambda row: encode(converted(row))  # type: ignore[arg-type]


def _converter(part: Part, path: Path) -> Convert | None:
    """Returns the function that converts values of a column to values of the codec. None if they are equal."""
    match part:
        case Primitive() | Fixed():
            return _scalar(part)
        case Record():
            return _from_json(part) if part in path else _record(part, path)
        case Array():
            items = _converter(part.items, path)
            return None if items is None else _list(items)
        case Map():
            return _pairs(_converter(part.values, path))
        case Union():
            return _union(part, path)
        case _:
            return None


def _scalar(part: Primitive | Fixed) -> Convert | None:
    match None if part.logical is None else part.logical.logical:
        case Logical.UUID if isinstance(part, Fixed):
            return lambda value: _parsed(UUID, value) if isinstance(value, str) else value
        case Logical.BIG_DECIMAL:
            return lambda value: _parsed(Decimal, value) if isinstance(value, str) else value
        case Logical.DECIMAL if part.logical is not None and part.logical.precision > DECIMAL_DIGITS:
            return lambda value: _parsed(Decimal, value) if isinstance(value, str) else value
        case _:
            return None


def _parsed(parse: Callable[[str], object], text: str) -> object:
    try:
        return parse(text)
    except (ValueError, InvalidOperation):
        raise InvalidAvro(f"{text!r:.100} cannot be stored") from None


def _from_json(part: Record) -> Convert:
    def convert(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            parsed = json_text.parse(value)
        except FormatError as error:
            raise InvalidAvro(str(error)) from None
        if parsed is None or parsed.rest:
            raise InvalidAvro("expected one JSON value")
        return value_of(part, parsed.value)

    return convert


def _record(part: Record, path: Path) -> Convert | None:
    inner = (*path, part)
    fields = [(field.name, _converter(field.type, inner)) for field in part.fields]
    converters = [(name, convert) for name, convert in fields if convert is not None]
    if not converters:
        return None

    def convert(value: object) -> object:
        if not isinstance(value, dict):
            return value
        changed = {name: convert(value[name]) for name, convert in converters if name in value}
        return value | changed

    return convert


def _list(items: Convert) -> Convert:
    return lambda value: [items(item) for item in value] if isinstance(value, list) else value


def _pairs(values: Convert | None) -> Convert:
    def convert(value: object) -> object:
        pairs = value.items() if isinstance(value, dict) else value
        if not isinstance(pairs, (list, type({}.items()))):
            return value
        return {name: item if values is None else values(item) for name, item in pairs}

    return convert


def _union(part: Union, path: Path) -> Convert | None:
    branches = branches_with_values(part)
    converters = [_converter(branch, path) for branch in branches]
    if len(branches) < 2:
        convert = converters[0] if converters else None
        return None if convert is None else lambda value: None if value is None else convert(value)
    fields = dict(zip(branch_fields(branches), zip(branches, converters, strict=True), strict=True))

    def convert_branch(value: object) -> object:
        if not isinstance(value, dict):
            return value
        chosen = [name for name, item in value.items() if item is not None]
        if len(chosen) != 1 or chosen[0] not in fields:
            raise InvalidAvro(f"expected one of the branches {', '.join(fields)}, found {', '.join(chosen)}")
        branch, convert = fields[chosen[0]]
        item = value[chosen[0]]
        return branch_name(branch), item if convert is None else convert(item)

    return convert_branch
