"""Makes decoders of the Protobuf schemas of a registry.

Before the message, a value has the path of the message type in its file. The path is the number of elements and the
elements, as zigzag varints. One zero byte means the first message type of the file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError, Value, ValueCodec
from kcli.formats.protobuf.codec import message_class, protobuf_codec
from kcli.protocol.wire.varint import VarintError, read_varint

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

MAX_PATH = 20
"""The deepest nesting of a message type in others."""

WELL_KNOWN = (
    "any",
    "api",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
"""The files of google/protobuf/ that a registry does not send, because every implementation has them."""


def protobuf_decoder(descriptor: bytes, imports: Mapping[str, bytes]) -> Callable[[bytes], Value]:
    """Returns the decoder of values with a message path. Raises FormatError for invalid descriptors."""
    from google.protobuf import descriptor_pb2

    file = _file(descriptor)
    file.name = file.name or "schema.proto"
    files: dict[str, FileDescriptorProto] = {}
    _add_imports(file, imports, files)
    whole = descriptor_pb2.FileDescriptorSet(file=[*files.values(), file]).SerializeToString()
    codecs: dict[tuple[int, ...], ValueCodec] = {}

    def decode(raw: bytes) -> Value:
        path, at = _path(raw)
        if path not in codecs:
            codecs[path] = protobuf_codec(message_class(whole, _name_at(file, path)))
        return codecs[path].decode(raw[at:])

    return decode


def _file(descriptor: bytes) -> FileDescriptorProto:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(descriptor)
    except DecodeError:
        raise FormatError("the schema registry sent an invalid Protobuf descriptor") from None


def _add_imports(
    file: FileDescriptorProto, imports: Mapping[str, bytes], files: dict[str, FileDescriptorProto]
) -> None:
    """Adds the files that a file imports, before the files that need them."""
    for name in file.dependency:
        if name in files:
            continue
        schema_file = _file(imports[name]) if name in imports else _well_known(name)
        schema_file.name = name
        _add_imports(schema_file, imports, files)
        files[name] = schema_file


def _well_known(name: str) -> FileDescriptorProto:
    from google.protobuf import descriptor_pb2

    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem not in WELL_KNOWN:
        raise FormatError(f"the schema imports {name}, which the schema registry does not refer to")
    proto = descriptor_pb2.FileDescriptorProto()
    importlib.import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(proto)
    return proto


def _path(raw: bytes) -> tuple[tuple[int, ...], int]:
    """The path of the message type, and the position of the message."""
    try:
        count, at = read_varint(raw, 0)
        if count == 0:
            return (0,), at
        if not 0 < count <= MAX_PATH:
            raise FormatError(f"the path of the message type has {count} elements")
        path = []
        for _ in range(count):
            number, at = read_varint(raw, at)
            path.append(number)
        return tuple(path), at
    except (IndexError, VarintError):
        raise FormatError("the value ends inside the path of its message type") from None


def _name_at(file: FileDescriptorProto, path: tuple[int, ...]) -> str:
    names = [file.package] if file.package else []
    types = file.message_type
    for step in path:
        if not 0 <= step < len(types):
            raise FormatError(f"the schema has no message type {'.'.join(map(str, path))}")
        names.append(types[step].name)
        types = types[step].nested_type
    return ".".join(names)
