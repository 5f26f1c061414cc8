"""Schema compatibility: whether a record fits the object that is open, and its value under the schema of this object.

The rules are those of Confluent's storage connectors and of org.apache.kafka.connect.data.SchemaProjector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.schema import LOGICAL_NAMES, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Float64

NONE, BACKWARD, FORWARD, FULL = "NONE", "BACKWARD", "FORWARD", "FULL"
Project = Callable[[object], object]
_NUMBERS = (
    SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64,
)  # fmt: skip
_REAL: Mapping[SchemaType, Project] = {
    SchemaType.FLOAT32: lambda value: Float32.of(value),  # type: ignore[arg-type]
    SchemaType.FLOAT64: lambda value: Float64(value),  # type: ignore[arg-type]
}
_SCHEMAS_MAX = 1000


class Incompatible(Exception):
    """A value of one schema has no value under another schema."""


@lru_cache(_SCHEMAS_MAX)
def projection(compatibility: str, source: Schema | None, target: Schema | None) -> Project | None:
    """The function that projects values of the schema `source` to the schema `target` of an open object.

    None if the record needs a new object. Raises ConnectException if the schemas have no versions to compare.
    """
    if source == target:
        return _same
    if compatibility == NONE or source is None or target is None:
        return None
    if source.version is None or target.version is None:
        raise ConnectException(f"Schema version required for {compatibility} compatibility")
    is_newer = source.version > target.version
    is_older = source.version < target.version
    if is_older if compatibility == FORWARD else is_newer:
        return None
    try:
        return _project(source, target)
    except Incompatible:
        return None


def _same(value: object) -> object:
    return value


def _project(source: Schema, target: Schema) -> Project:
    """Raises Incompatible."""
    if source == target:
        return _same
    if source.optional and not target.optional and target.default is None:
        raise Incompatible
    inner = _project_type(source, target)
    default = target.default
    return lambda value: default if value is None else inner(value)


def _project_type(source: Schema, target: Schema) -> Project:
    is_logical = source.name in LOGICAL_NAMES or target.name in LOGICAL_NAMES
    if is_logical and (source.name, source.parameters) != (target.name, target.parameters):
        raise Incompatible
    if source.type in _NUMBERS and target.type in _NUMBERS:
        if _NUMBERS.index(source.type) > _NUMBERS.index(target.type):
            raise Incompatible
        return _REAL.get(target.type, _same)
    if source.type is not target.type:
        raise Incompatible
    match source.type:
        case SchemaType.STRUCT:
            return _project_struct(source, target)
        case SchemaType.ARRAY:
            items = _project(_inside(source.value_schema), _inside(target.value_schema))
            return lambda value: [items(item) for item in value]  # type: ignore[attr-defined]
        case SchemaType.MAP:
            keys = _project(_inside(source.key_schema), _inside(target.key_schema))
            values = _project(_inside(source.value_schema), _inside(target.value_schema))
            return lambda value: {keys(key): values(item) for key, item in value.items()}  # type: ignore[attr-defined]
        case _:
            return _same


def _project_struct(source: Schema, target: Schema) -> Project:
    if source.name != target.name:
        raise Incompatible
    fields: list[tuple[int | None, Project]] = []
    for field in target.fields:
        position = source.positions.get(field.name)
        if position is not None:
            fields.append((position, _project(source.fields[position].schema, field.schema)))
        elif field.schema.optional or field.schema.default is not None:
            default = field.schema.default
            fields.append((None, lambda _, default=default: default))  # type: ignore[misc]
        else:
            raise Incompatible

    def project(value: object) -> object:
        assert isinstance(value, Struct), "its schema is the schema of a struct"
        values = value.values
        projected = [convert(None if at is None else values[at]) for at, convert in fields]
        return Struct.of_checked(target, projected)

    return project


def _inside(schema: Schema | None) -> Schema:
    assert schema is not None, "arrays and maps have the schemas of their items"
    return schema
