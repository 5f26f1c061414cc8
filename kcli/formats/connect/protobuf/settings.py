"""The settings of the mapping between Connect's data model and Protobuf, under Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kcli.config.definition import ConfigKey, ConfigType, ConfigValue, Importance
from kcli.formats.connect.data_keys import DATA_KEYS, GENERALIZED, IGNORE_DEFAULT

ENHANCED: Final = "enhanced.protobuf.schema.support"
SCRUB: Final = "scrub.invalid.names"
INT_ENUMS: Final = "int.for.enums"
OPTIONAL: Final = "optional.for.nullables"
OPTIONAL_PROTO2: Final = "optional.for.proto2"
WRAPPER: Final = "wrapper.for.nullables"
WRAPPER_ROOT: Final = "wrapper.for.raw.primitives"
STRUCTS: Final = "generate.struct.for.nulls"
INDEX: Final = "generate.index.for.unions"
FLATTEN: Final = "flatten.unions"


def _key(name: str, default: str, documentation: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, None, Importance.MEDIUM, documentation)


KEYS = (
    *DATA_KEYS,
    _key(ENHANCED, "false", "Whether names of schemas contain the package."),
    _key(SCRUB, "false", "Whether characters that Protobuf does not permit in names are replaced."),
    _key(INT_ENUMS, "false", "Whether the values of an enum are numbers, and not names."),
    _key(OPTIONAL, "false", "Whether only fields with the label optional are optional."),
    _key(OPTIONAL_PROTO2, "true", "Whether an optional field of proto2 that is not set is null."),
    _key(WRAPPER, "false", "Whether optional values are messages such as google.protobuf.StringValue."),
    _key(WRAPPER_ROOT, "true", "Whether a message such as google.protobuf.StringValue is a plain value."),
    _key(STRUCTS, "false", "Whether a message that is not set becomes a struct, and not null."),
    _key(INDEX, "true", "Whether the name of a union ends with its number."),
    _key(FLATTEN, "false", "Whether the fields of a union are fields of the message."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufSettings:
    """How values and schemas are mapped. Each field is a key of `KEYS`."""

    generalized: bool = False
    ignores_defaults: bool = False
    enhanced: bool = False
    scrubs: bool = False
    int_enums: bool = False
    optional_labels: bool = False
    optional_proto2: bool = True
    wraps_optional: bool = False
    wraps_root: bool = True
    makes_structs: bool = False
    union_index: bool = True
    flattens: bool = False

    @classmethod
    def of(cls, values: Mapping[str, ConfigValue]) -> ProtobufSettings:
        return cls(
            generalized=values[GENERALIZED] is True,
            ignores_defaults=values[IGNORE_DEFAULT] is True,
            enhanced=values[ENHANCED] is True,
            scrubs=values[SCRUB] is True,
            int_enums=values[INT_ENUMS] is True,
            optional_labels=values[OPTIONAL] is True,
            optional_proto2=values[OPTIONAL_PROTO2] is True,
            wraps_optional=values[WRAPPER] is True,
            wraps_root=values[WRAPPER_ROOT] is True,
            makes_structs=values[STRUCTS] is True,
            union_index=values[INDEX] is True,
            flattens=values[FLATTEN] is True,
        )
