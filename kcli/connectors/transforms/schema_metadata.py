"""SetSchemaMetadata: changes the name and the version of a schema."""

from __future__ import annotations

from dataclasses import replace

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance
from kcli.connectors.records import ConnectRecord, R
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    PartTransformation,
    Plans,
    fields_of,
    struct_of,
    values_of,
)
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import Schema
from kcli.formats.connect.structs import Struct

_NAME = "schema.name"
_VERSION = "schema.version"


class SetSchemaMetadata(PartTransformation[R]):
    """Changes the name and the version of the schema of a struct."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _NAME,
                ConfigType.STRING,
                None,
                importance=Importance.HIGH,
                documentation="The new name of the schema.",
            ),
            ConfigKey(
                _VERSION,
                ConfigType.INT,
                None,
                importance=Importance.HIGH,
                documentation="The new version of the schema.",
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        if self.config[_NAME] is None and self.config[_VERSION] is None:
            raise ConfigError("Neither schema name nor version configured")
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._schemas = Plans(self._renamed)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if schema is None:
            if value is None:
                return schema, value
            raise DataException("Schema required for [updating schema metadata]")
        renamed = self._schemas.of(schema)
        if not isinstance(value, Struct):
            return renamed, value
        return renamed, struct_of(renamed, values_of(value, with_defaults=self._with_defaults))

    def _renamed(self, schema: Schema) -> Schema:
        fields_of(schema)
        name, version = self.config[_NAME], self.config[_VERSION]
        bare = replace(
            schema,
            name=name if isinstance(name, str) else schema.name,
            version=version if isinstance(version, int) else schema.version,
            default=None,
        )
        if not isinstance(schema.default, Struct):
            return bare
        return replace(bare, default=struct_of(bare, schema.default.values))


class SetSchemaMetadataKey(SetSchemaMetadata[R]):
    is_key = True
    java_classes = (f"{PACKAGE}SetSchemaMetadata$Key",)


class SetSchemaMetadataValue(SetSchemaMetadata[R]):
    java_classes = (f"{PACKAGE}SetSchemaMetadata$Value",)
