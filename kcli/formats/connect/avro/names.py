"""The names and properties with which an Avro schema keeps what only Connect's data model knows."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_plus

from kcli.formats.avro.schema import Enum, Fixed, Kind, Name, Part, Primitive, Record, branch_name
from kcli.formats.connect.schema import Schema, SchemaType
from kcli.formats.connect.sum_types import UNION_PARAMETER, is_sum_type

SPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
"""The name of a struct without a name, because each record of Avro has one."""

MAP_ENTRY: Final = "MapEntry"
"""The record in the array that stands for a map whose keys are not texts."""

KEY, VALUE = "key", "value"
UNION: Final = f"{SPACE}.Union"
ENUM: Final = f"{SPACE}.Enum"

CONNECT_NAME, CONNECT_DOC, CONNECT_VERSION = "connect.name", "connect.doc", "connect.version"
CONNECT_DEFAULT, CONNECT_PARAMETERS, CONNECT_TYPE = "connect.default", "connect.parameters", "connect.type"
CONNECT_RECORD_DOC, CONNECT_ENUM_DOC = "connect.record.doc", "connect.enum.doc"
INTERNAL_TYPE: Final = "connect.internal.type"
RECORD_DOC: Final = f"{SPACE}.record.doc"
ENUM_DOC, ENUM_DEFAULT = f"{SPACE}.enum.doc.", f"{SPACE}.enum.default."
FIELD_DOC: Final = f"{SPACE}.field.doc."
FIELD_DEFAULT: Final = f"{SPACE}.field.default"
"""The parameter of a schema whose default comes from the field of a record."""

AVRO_PREFIX: Final = "avro"
"""The prefix of properties that become parameters, and the reverse."""

FIXED_SIZE, PRECISION = "connect.fixed.size", "connect.decimal.precision"
PRECISION_DEFAULT: Final = 64

UNION_FIELD: Final = "connect_union_field_"
"""The prefix of the fields of a union with `generalized.sum.type.support`."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|")
_OTHER = re.compile(r"[^A-Za-z0-9_]")

AVRO_KINDS = {
    SchemaType.INT8: Kind.INT,
    SchemaType.INT16: Kind.INT,
    SchemaType.INT32: Kind.INT,
    SchemaType.INT64: Kind.LONG,
    SchemaType.FLOAT32: Kind.FLOAT,
    SchemaType.FLOAT64: Kind.DOUBLE,
    SchemaType.BOOLEAN: Kind.BOOLEAN,
    SchemaType.STRING: Kind.STRING,
    SchemaType.BYTES: Kind.BYTES,
}
"""The Avro type of each primitive type of Connect."""


def scrubbed(name: str) -> str:
    """Returns a name in which only letters, digits and underscores are left, with `scrub.invalid.names`."""
    if _PLAIN.fullmatch(name):
        return name
    encoded = quote_plus(name, safe="*", errors="replace").replace("~", "%7E")
    return _OTHER.sub("_", f"x{encoded}" if encoded[0].isdecimal() else encoded)


def avro_name(full_name: str, *, scrubs: bool) -> Name:
    """Returns the name of a named type. `scrubs` scrubs each part between dots."""
    parts = [scrubbed(part) if scrubs else part for part in full_name.split(".")]
    return Name(parts[-1], ".".join(parts[:-1]))


def is_union(schema: Schema) -> bool:
    """Whether a struct stands for a union, of whose fields one has a value."""
    return schema.name == UNION or is_sum_type(schema, UNION_PARAMETER)


def is_fixed(schema: Schema) -> bool:
    return (
        schema.type is SchemaType.BYTES
        and schema.name is not None
        and FIXED_SIZE in (schema.parameters or ())
    )


def is_text_map(schema: Schema, *, optional_keys: bool) -> bool:
    """Whether a map becomes a map of Avro, because its keys are texts."""
    key = schema.key_schema
    assert key is not None, "a map has a schema of its keys"
    return key.type is SchemaType.STRING and (not key.optional or optional_keys)


def is_map_entry(part: Part) -> bool:
    """Whether an array of this type stands for a map."""
    if not isinstance(part, Record):
        return False
    return part.name == Name(MAP_ENTRY, SPACE) or part.properties.get(INTERNAL_TYPE) == MAP_ENTRY


def is_null(part: Part) -> bool:
    return isinstance(part, Primitive) and part.kind is Kind.NULL


def member_name(part: Part, position: int, *, generalized: bool, enhanced: bool) -> str:
    """Returns the name of the field for a branch of a union. `position` is the number of the branch."""
    if generalized:
        return f"{UNION_FIELD}{position}"
    if isinstance(part, (Record, Enum, Fixed)):
        return part.name.full if enhanced else part.name.name
    return branch_name(part)
