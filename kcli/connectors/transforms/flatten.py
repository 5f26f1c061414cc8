"""Flatten: makes one level of fields of nested structs or maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from kcli.connectors.records import ConnectRecord, R
from kcli.connectors.transforms.shared import (
    PACKAGE,
    PartTransformation,
    Plans,
    fields_of,
    required_map,
    required_struct,
    struct_schema_like,
    text_key,
    type_of,
)
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import Field, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import java_class

_DELIMITER = "delimiter"
_PURPOSE = "flattening"


@dataclass(frozen=True, slots=True)
class _Level:
    """The fields of a struct: the name of each field in the flat struct, or the level of a field that is a struct."""

    fields: tuple[str | _Level, ...]


@dataclass(frozen=True, slots=True)
class _Flat:
    schema: Schema
    level: _Level


class Flatten(PartTransformation[R]):
    """Makes one struct or map of nested ones. The new names join the names on the way to a field."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _DELIMITER,
                ConfigType.STRING,
                ".",
                importance=Importance.MEDIUM,
                documentation="The text between the joined names.",
            ),
        )
    )

    def prepare(self) -> None:
        self._delimiter = self.text(_DELIMITER)
        self._plans = Plans(self._flat)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if value is None:
            return schema, value
        if schema is None:
            return None, dict(self._pairs(required_map(value, _PURPOSE), ""))
        struct = required_struct(value, _PURPOSE)
        flat = self._plans.of(schema)
        made = Struct(flat.schema)
        _fill(made, struct, flat.level)
        return flat.schema, made

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    # Maps.

    def _pairs(self, fields: dict[object, object], prefix: str) -> Iterator[tuple[object, object]]:
        for key, value in fields.items():
            text = text_key(key)
            name = self._name(prefix, "null" if text is None else text)
            kind = type_of(value)
            if kind is SchemaType.MAP:
                yield from self._pairs(required_map(value, _PURPOSE), name)
                continue
            if value is not None and kind is None:
                raise DataException(
                    f"Flatten transformation was passed a value of type class {java_class(value)} which is not"
                    " supported by Connect's data API"
                )
            if kind is SchemaType.STRUCT:
                raise DataException(
                    f"Flatten transformation does not support class {java_class(value)} for record without schemas (for"
                    f" field {name})."
                )
            yield (None if key is None and not prefix else name), value

    # Structs.

    def _flat(self, schema: Schema) -> _Flat:
        fields: list[Field] = []
        level = self._level(schema, "", fields, schema.optional, schema.default)
        return _Flat(struct_schema_like(schema, fields), level)

    def _level(
        self, schema: Schema, prefix: str, flat: list[Field], optional: bool, default: object
    ) -> _Level:
        """Adds the flat fields of a struct to `flat`. A field is optional if a struct on the way to it is, and the
        default of a struct contains the defaults of its fields."""
        level: list[str | _Level] = []
        for field in fields_of(schema):
            name = self._name(prefix, field.name)
            is_optional = optional or field.schema.optional
            own = field.schema.default
            if own is None and isinstance(default, Struct):
                own = default.get(field.name)
            if field.schema.type is SchemaType.STRUCT:
                level.append(self._level(field.schema, name, flat, is_optional, own))
            elif field.schema.type is SchemaType.MAP:
                raise DataException(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            else:
                flat.append(Field(name, _flat_schema(field.schema, is_optional, own)))
                level.append(name)
        return _Level(tuple(level))


class FlattenKey(Flatten[R]):
    is_key = True
    java_classes = (f"{PACKAGE}Flatten$Key",)


class FlattenValue(Flatten[R]):
    java_classes = (f"{PACKAGE}Flatten$Value",)


def _flat_schema(schema: Schema, optional: bool, default: object) -> Schema:
    return Schema(
        schema.type,
        optional,
        default,
        schema.name,
        schema.version,
        schema.doc,
        schema.parameters,
        value_schema=schema.value_schema,
    )


def _fill(made: Struct, struct: Struct, level: _Level) -> None:
    """Stores the fields of a struct in the flat struct. The fields of a nested struct that is null have no value."""
    for field, place, value in zip(struct.schema.fields, level.fields, struct.values, strict=True):
        if isinstance(place, str):
            made.put(place, field.schema.default if value is None else value)
        elif value is not None:
            _fill(made, required_struct(value, _PURPOSE), place)
