"""The settings of the mapping between Connect's data model and JSON Schema, under Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kcli.config.definition import ConfigKey, ConfigType, ConfigValue, Importance, OneOf
from kcli.formats.connect.avro.settings import FLATTEN
from kcli.formats.connect.data_keys import DATA_KEYS, GENERALIZED, IGNORE_DEFAULT

SPACE: Final = "io.confluent.connect.json"
ENUM, ONE_OF, ID = f"{SPACE}.Enum", f"{SPACE}.OneOf", f"{SPACE}.Id"
NULL_SYMBOL: Final = "<NULL>"
UNION_PREFIX: Final = "connect_union_"
UNION_FIELD: Final = "connect_union_field_"
CONNECT_TYPE, CONNECT_INDEX = "connect.type", "connect.index"
CONNECT_VERSION, CONNECT_PARAMETERS = "connect.version", "connect.parameters"
KEY, VALUE = "key", "value"

ADDITIONAL: Final = "object.additional.properties"
NON_REQUIRED: Final = "use.optional.for.nonrequired"
DECIMAL_FORMAT: Final = "decimal.format"

_BOOLEAN, _MEDIUM, _LOW = ConfigType.BOOLEAN, Importance.MEDIUM, Importance.LOW

KEYS = (
    *DATA_KEYS,
    ConfigKey(ADDITIONAL, _BOOLEAN, "true", None, _MEDIUM,
              "Whether the schema of a struct permits properties that are no fields."),
    ConfigKey(NON_REQUIRED, _BOOLEAN, "false", None, _MEDIUM,
              "Whether a property that is not required becomes an optional field."),
    ConfigKey(DECIMAL_FORMAT, ConfigType.STRING, "BASE64", OneOf(("BASE64", "NUMERIC"), ignore_case=True), _LOW,
              "How decimals are written: BASE64 for the bytes of their digits, NUMERIC for JSON numbers."),
    ConfigKey(FLATTEN, _BOOLEAN, "true", None, _LOW,
              "Whether a combination of one schema becomes this schema, and not a struct with one field."),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSettings:
    """How values and schemas are mapped. Each field is a key of `KEYS`."""

    generalized: bool = False
    ignores_defaults: bool = False
    additional: bool = True
    optional_unless_required: bool = False
    numeric_decimals: bool = False
    flattens: bool = True

    @classmethod
    def of(cls, values: Mapping[str, ConfigValue]) -> JsonSettings:
        return cls(
            generalized=values[GENERALIZED] is True,
            ignores_defaults=values[IGNORE_DEFAULT] is True,
            additional=values[ADDITIONAL] is True,
            optional_unless_required=values[NON_REQUIRED] is True,
            numeric_decimals=str(values[DECIMAL_FORMAT]).upper() == "NUMERIC",
            flattens=values[FLATTEN] is True,
        )
