"""Refuses Avro schemas with which a few bytes can stand for an endless array."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.formats.avro import AvroSchema
from kcli.formats.codec import FormatError

MAX_DEPTH = 100


def without_endless_arrays(schema: AvroSchema) -> AvroSchema:
    """Returns the schema. Raises FormatError if it has an array whose elements may have no bytes.

    A value contains the number of elements of an array. If elements have no bytes, a value of ten bytes can be an array
    of 2^60 elements, and the decoder would never end.
    """
    parts = list(_parts(schema, 0))
    empty = {"null"}
    # A record is empty if all its fields are empty. So each round may find more empty types.
    while names := {name for part in parts if (name := _name(part)) not in empty and _is_empty(part, empty)}:
        empty |= names
    for part in parts:
        if isinstance(part, dict) and "items" in part and _is_empty(part["items"], empty):
            raise FormatError(
                "the Avro schema has an array whose elements have no bytes, which is not decoded"
            )
    return schema


def _parts(schema: AvroSchema, depth: int) -> Iterator[AvroSchema]:
    """Yields a schema and all schemas in it."""
    if depth > MAX_DEPTH:
        raise FormatError(f"the Avro schema is nested more than {MAX_DEPTH} times")
    yield schema
    inner: list[AvroSchema] = []
    if isinstance(schema, list):
        inner = schema
    elif isinstance(schema, dict):
        inner = [schema[name] for name in ("items", "values") if name in schema]
        inner += [field["type"] for field in schema.get("fields", ())]
        if not isinstance(schema.get("type", ""), str):
            inner.append(schema["type"])
    for part in inner:
        yield from _parts(part, depth + 1)


def _name(schema: AvroSchema) -> str:
    """The name of a declared type, or an empty text."""
    return str(schema.get("name", "")) if isinstance(schema, dict) else ""


def _is_empty(schema: AvroSchema, empty: set[str]) -> bool:
    """Whether the values of a schema have no bytes. `empty` has the names of types whose values have no bytes."""
    if isinstance(schema, str):
        return schema in empty or schema.rpartition(".")[2] in empty
    if isinstance(schema, list):
        return False  # the bytes of a union begin with the number of its branch
    kind = schema.get("type")
    if kind in ("record", "error"):
        return all(_is_empty(field["type"], empty) for field in schema.get("fields", ()))
    if kind == "fixed":
        return schema.get("size") == 0
    return False if kind is None or kind in ("array", "map", "enum") else _is_empty(kind, empty)
