"""Sets the options of descriptors from the options of a syntax tree.

An option becomes one entry of Protobuf's text format, which the Protobuf library parses into the message of options.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.names import Names, inner_scope
from kcli.formats.protobuf.syntax import Block, Option, OptionValue, Word

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message as ProtobufMessage

DESCRIPTOR_PATH = "google/protobuf/descriptor.proto"


@dataclass(frozen=True, slots=True)
class Options:
    """The custom options of one declaration, and the message of a descriptor in which they belong."""

    target: ProtobufMessage
    custom: tuple[Option, ...]
    scope: str


@functools.cache
def file_descriptor_type() -> type[FileDescriptorProto]:
    """Returns the class of file descriptors, in a pool of its own.

    In the pool of all generated classes, another module may declare custom options. Their maps would lose their order.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    descriptor = pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    file_type: type[FileDescriptorProto] = message_factory.GetMessageClass(descriptor)
    return file_type


def set_option(target: ProtobufMessage, option: Option, *, is_strict: bool) -> None:
    """Sets an option of Protobuf. An unknown option is ignored, because Confluent's registry accepts it.

    Raises FormatError for a value that does not fit the option, if `is_strict`.
    """
    from google.protobuf import text_format

    first, *inner = option.name.split(".(", 1)[0].split(".")
    if first not in target.DESCRIPTOR.fields_by_name or ".(" in option.name:
        return
    value = option.value
    for name in reversed(inner):
        value = Option(name, value)
    try:
        text_format.Merge(
            _entry(first, value), target, allow_unknown_extension=True, allow_unknown_field=True
        )
    except (text_format.ParseError, ValueError) as error:
        if is_strict:
            raise FormatError(f"option {option.name}: {_reason(error)}") from None


def set_options(
    file: FileDescriptorProto,
    declarations: Iterable[Options],
    dependencies: Mapping[str, FileDescriptorProto],
    names: Names,
    *,
    is_strict: bool,
) -> None:
    """Sets the custom options of a file. A custom option that no import declares is ignored.

    Raises FormatError for a value that does not fit its option, if `is_strict`.
    """
    from google.protobuf import message_factory, text_format

    declarations = [*declarations]
    if not declarations or DESCRIPTOR_PATH not in dependencies:
        return
    pool, _ = options_pool([*dependencies.values(), file])
    for options in declarations:
        full_name = options.target.DESCRIPTOR.full_name
        typed = message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))()
        for option in options.custom:
            name = names.extension(option.name, options.scope)
            if name is None:
                continue
            try:
                text_format.Merge(_entry(f"[{name}]", option.value), typed, descriptor_pool=pool)
            except (text_format.ParseError, ValueError) as error:
                if is_strict:
                    raise FormatError(f"option ({option.name}): {_reason(error)}") from None
        options.target.MergeFromString(typed.SerializeToString())


def pool_of(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    """Returns a pool of files, each after those that it imports. Raises FormatError for an invalid file."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    for file in files:
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:
            raise FormatError(_reason(error)) from None
    return pool


def options_pool(files: Iterable[FileDescriptorProto]) -> tuple[DescriptorPool, frozenset[str]]:
    """Returns a pool for options in which maps are lists of entries, and the full names of the entries.

    A map of the Protobuf library has no order, and the text of a schema must have one.
    """
    entries: set[str] = set()
    plain = []
    for file in files:
        copy = file_descriptor_type()()
        copy.CopyFrom(file)
        for message in copy.message_type:
            _clear_map_entries(message, inner_scope(copy.package, message.name), entries)
        plain.append(copy)
    return pool_of(plain), frozenset(entries)


def _clear_map_entries(message: DescriptorProto, full_name: str, entries: set[str]) -> None:
    if message.options.map_entry:
        message.options.ClearField("map_entry")
        entries.add(full_name)
    for nested in message.nested_type:
        _clear_map_entries(nested, f"{full_name}.{nested.name}", entries)


def _entry(name: str, value: OptionValue) -> str:
    """Returns an entry of the text format."""
    match value:
        case Option(part, inner):
            return f"{name} {{ {_entry(_extension_name(part), inner)} }}"
        case Block(entries):
            return f"{name} {{ {' '.join(_entry(*entry) for entry in entries)} }}"
        case tuple():
            return " ".join(_entry(name, one) for one in value)
        case str():
            return f"{name}: {_literal(value)}"
        case Word(text):
            return f"{name}: {text.removeprefix('+')}"


def _extension_name(name: str) -> str:
    return f"[{name[1:-1].removeprefix('.')}]" if name.startswith("(") else name


def _literal(text: str) -> str:
    escaped = "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte not in b"\\\"'" else f"\\{byte:03o}"
        for byte in text.encode(errors="surrogateescape")
    )
    return f'"{escaped}"'


def _reason(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return " ".join(line.strip(" ") for line in lines if line.strip(" "))[:500]
