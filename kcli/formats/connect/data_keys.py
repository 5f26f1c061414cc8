"""The keys that the Avro, Protobuf and JSON Schema converters have in common for the mapping of values."""

from __future__ import annotations

from typing import Final

from kcli.config.definition import ConfigKey, ConfigType, Importance, Range

GENERALIZED: Final = "generalized.sum.type.support"
IGNORE_DEFAULT: Final = "ignore.default.for.nullables"
CACHE_SIZE: Final = "schemas.cache.config"

DATA_KEYS = (
    ConfigKey(GENERALIZED, ConfigType.BOOLEAN, "false", None, Importance.MEDIUM,
              "Whether enums and unions have the same parameters in all schema languages."),
    ConfigKey(IGNORE_DEFAULT, ConfigType.BOOLEAN, "false", None, Importance.MEDIUM,
              "Whether a null stays null if its field has a default."),
    ConfigKey(CACHE_SIZE, ConfigType.INT, "1000", Range(low=0), Importance.LOW,
              "The most schemas of each direction that the converter remembers."),
)  # fmt: skip
