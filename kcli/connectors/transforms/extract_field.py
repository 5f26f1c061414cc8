"""ExtractField and HoistField: from a struct or a map to one of its fields, and back."""

from __future__ import annotations

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from kcli.connectors.records import ConnectRecord, R
from kcli.connectors.transforms.field_path import SYNTAX_VERSION, SYNTAX_VERSION_KEY, FieldPath
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    PartTransformation,
    Plans,
    required_map,
    required_struct,
)
from kcli.formats.connect.errors import JavaException
from kcli.formats.connect.schema import Schema, struct_schema
from kcli.formats.connect.structs import Struct

_FIELD = "field"
_PURPOSE = "field extraction"


class ExtractField(PartTransformation[R]):
    """Replaces a struct or a map with one of its fields. Null stays null."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _FIELD,
                ConfigType.STRING,
                None,
                importance=Importance.MEDIUM,
                documentation="The name of the field, or the path to it with the syntax V2.",
                required=True,
            ),
            REPLACE_NULL_KEY,
            SYNTAX_VERSION_KEY,
        )
    )

    def prepare(self) -> None:
        self._path = FieldPath.parse(self.text(_FIELD), self.text(SYNTAX_VERSION))
        self._with_defaults = bool(self.config[REPLACE_NULL])

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if schema is None:
            return None, None if value is None else self._path.in_map(required_map(value, _PURPOSE))
        struct = None if value is None else required_struct(value, _PURPOSE)
        field = self._path.in_schema(schema)
        if field is None:
            raise JavaException("java.lang.IllegalArgumentException", f"Unknown field: {self.text(_FIELD)}")
        found = None if struct is None else self._path.in_struct(struct, with_defaults=self._with_defaults)
        return field.schema, found


class ExtractFieldKey(ExtractField[R]):
    is_key = True
    java_classes = (f"{PACKAGE}ExtractField$Key",)


class ExtractFieldValue(ExtractField[R]):
    java_classes = (f"{PACKAGE}ExtractField$Value",)


class HoistField(PartTransformation[R]):
    """Makes a struct or a map whose only field is the whole key or value."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _FIELD,
                ConfigType.STRING,
                None,
                importance=Importance.MEDIUM,
                documentation="The name of the field in the new struct or map.",
                required=True,
            ),
        )
    )

    def prepare(self) -> None:
        self._field = self.text(_FIELD)
        self._schemas = Plans(lambda schema: struct_schema({self._field: schema}))

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if schema is None:
            return None, {self._field: value}
        hoisted = self._schemas.of(schema)
        return hoisted, Struct(hoisted).put(self._field, value)


class HoistFieldKey(HoistField[R]):
    is_key = True
    java_classes = (f"{PACKAGE}HoistField$Key",)


class HoistFieldValue(HoistField[R]):
    java_classes = (f"{PACKAGE}HoistField$Value",)
