"""The imports that every registry has built in, so that a schema needs no references for them."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.descriptors import file_descriptor
from kcli.formats.protobuf.names import names_of
from kcli.formats.protobuf.option_values import file_descriptor_type
from kcli.formats.protobuf.parser import parse_file
from kcli.formats.protobuf.reverse import file_of
from kcli.formats.protobuf.syntax import File

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_GOOGLE = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any",
        "api",
        "descriptor",
        "duration",
        "empty",
        "field_mask",
        "source_context",
        "struct",
        "timestamp",
        "type",
        "wrappers",
    )
} | {
    f"google/type/{name}.proto": f"google.type.{name}_pb2"
    for name in (
        "calendar_period",
        "color",
        "date",
        "datetime",
        "dayofweek",
        "decimal",
        "expr",
        "fraction",
        "interval",
        "latlng",
        "money",
        "month",
        "phone_number",
        "postal_address",
        "quaternion",
        "timeofday",
    )
}

_DECIMAL = """
syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"""
_CONFLUENT = {
    "confluent/meta.proto": """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": _DECIMAL,
    # The path that Confluent's client in Python uses.
    "confluent/types/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": """
syntax = "proto3";
package confluent.type;
message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
""",
}
KNOWN = frozenset({*_GOOGLE, *_CONFLUENT})
"""The paths of all built-in imports."""


@functools.cache
def known_file(path: str) -> File:
    """Returns the syntax tree of a built-in import. Raises FormatError if its Python package is missing."""
    if path in _CONFLUENT:
        return parse_file(_CONFLUENT[path])
    descriptor = known_descriptor(path)
    return file_of(descriptor, {one: known_descriptor(one) for one in descriptor.dependency})


@functools.cache
def known_descriptor(path: str) -> FileDescriptorProto:
    """Returns the descriptor of a built-in import. Raises FormatError if its Python package is missing."""
    if path in _CONFLUENT:
        file = known_file(path)
        imports = {one: known_file(one) for one in file.imports}
        names = names_of([*imports.items(), (path, file)])
        return file_descriptor(
            file, path, names, {one: known_descriptor(one) for one in imports}, is_strict=True
        )
    try:
        module = importlib.import_module(_GOOGLE[path])
    except ModuleNotFoundError:
        raise FormatError(f'the import "{path}" needs pip install googleapis-common-protos') from None
    return file_descriptor_type().FromString(module.DESCRIPTOR.serialized_pb)
