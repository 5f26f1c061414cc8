"""The names, parameters and types with which Protobuf keeps what only Connect's data model knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kcli.formats.connect.avro.names import scrubbed
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.sum_types import UNION_PARAMETER, is_sum_type

SPACE: Final = "io.confluent.connect.protobuf"
ENUM: Final = f"{SPACE}.Enum"
UNION: Final = f"{SPACE}.Union"
TAG: Final = f"{SPACE}.Tag"
"""The parameter with the number of a field."""

TYPE: Final = f"{SPACE}.Type"
"""The parameter with the type of a number, such as `uint32`."""

WRAPPER_MARK: Final = f"{SPACE}.Wrapper"
"""The parameter of a field of a union whose value was in a message such as google.protobuf.StringValue."""

DEFAULT_NAME: Final = "ConnectDefault"
KEY, VALUE = "key", "value"
ENTRY: Final = "Entry"

CONNECT_TYPE, PRECISION, SCALE = "connect.type", "precision", "scale"
CONNECT_PRECISION: Final = "connect.decimal.precision"

LOGICAL_TYPES: Mapping[str, tuple[str, str]] = {
    DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    DATE: ("google.type.Date", "google/type/date.proto"),
    TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
"""The message of each logical type, and the path of its file."""

WRAPPERS: Final = "google/protobuf/wrappers.proto"
WRAPPED: Mapping[str, SchemaType] = {
    f"google.protobuf.{name}Value": kind
    for name, kind in {
        "Double": SchemaType.FLOAT64,
        "Float": SchemaType.FLOAT32,
        "Int64": SchemaType.INT64,
        "UInt64": SchemaType.INT64,
        "Int32": SchemaType.INT32,
        "UInt32": SchemaType.INT64,
        "Bool": SchemaType.BOOLEAN,
        "String": SchemaType.STRING,
        "Bytes": SchemaType.BYTES,
    }.items()
}
"""The type of the value in each message that wraps one value."""

_CAPITAL = re.compile("[A-Z]")


def scrubbed_name(name: str, *, scrubs: bool) -> str:
    """Returns a name without characters that Protobuf does not permit. It begins with a letter."""
    if not scrubs or not name:
        return name
    plain = scrubbed(name)
    return f"x{plain}" if plain.startswith("_") else plain


def is_union(schema: Schema) -> bool:
    """Whether a struct stands for a oneof."""
    return (schema.name or "").startswith(UNION) or is_sum_type(schema, UNION_PARAMETER)


def entry_name(name: str) -> str:
    """Returns the name of the message for the entries of a map."""
    if "_" in name:
        name = "".join(part.capitalize() for part in name.split("_"))
    return f"{name}{ENTRY}"


def map_name(entry: str) -> str:
    """Returns the name of a map by the name of its entries."""
    space, dot, name = entry.rpartition(".")
    if name.endswith(ENTRY):
        name = _CAPITAL.sub(lambda match: f"_{match[0].lower()}", name.removesuffix(ENTRY)).removeprefix("_")
    return f"{space}{dot}{name}"
