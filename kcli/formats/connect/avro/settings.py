"""The settings of the mapping between Connect's data model and Avro, under Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kcli.config.definition import ConfigKey, ConfigType, ConfigValue, Importance
from kcli.formats.connect.data_keys import DATA_KEYS, GENERALIZED, IGNORE_DEFAULT

ENHANCED: Final = "enhanced.avro.schema.support"
SCRUB: Final = "scrub.invalid.names"
META_DATA: Final = "connect.meta.data"
OPTIONAL_KEYS: Final = "allow.optional.map.keys"
FLATTEN: Final = "flatten.singleton.unions"
DISCARD: Final = "discard.type.doc.default"

_BOOLEAN, _MEDIUM, _LOW = ConfigType.BOOLEAN, Importance.MEDIUM, Importance.LOW

KEYS = (
    *DATA_KEYS,
    ConfigKey(ENHANCED, _BOOLEAN, "false", None, _MEDIUM,
              "Whether enums keep their symbols, and branches of unions their full names."),
    ConfigKey(SCRUB, _BOOLEAN, "false", None, _MEDIUM,
              "Whether characters that Avro does not permit in names are replaced."),
    ConfigKey(META_DATA, _BOOLEAN, "true", None, _LOW,
              "Whether the Avro schema keeps names, versions and parameters of Connect's schema."),
    ConfigKey(OPTIONAL_KEYS, _BOOLEAN, "false", None, _LOW,
              "Whether a map whose keys are optional texts becomes a map of Avro."),
    ConfigKey(FLATTEN, _BOOLEAN, "true", None, _LOW,
              "Whether a union of one type becomes this type, and not a struct with one field."),
    ConfigKey(DISCARD, _BOOLEAN, "false", None, _LOW,
              "Whether only the documentation and the defaults of fields are kept, and not those of types."),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSettings:
    """How values and schemas are mapped. Each field is a key of `KEYS`."""

    generalized: bool = False
    ignores_defaults: bool = False
    """Whether a null stays null if its field has a default."""
    enhanced: bool = False
    scrubs: bool = False
    meta_data: bool = True
    optional_keys: bool = False
    flattens: bool = True
    only_fields: bool = False
    """Whether only fields keep documentation and defaults."""

    @classmethod
    def of(cls, values: Mapping[str, ConfigValue]) -> AvroSettings:
        return cls(
            generalized=values[GENERALIZED] is True,
            ignores_defaults=values[IGNORE_DEFAULT] is True,
            enhanced=values[ENHANCED] is True,
            scrubs=values[SCRUB] is True,
            meta_data=values[META_DATA] is True,
            optional_keys=values[OPTIONAL_KEYS] is True,
            flattens=values[FLATTEN] is True,
            only_fields=values[DISCARD] is True,
        )
