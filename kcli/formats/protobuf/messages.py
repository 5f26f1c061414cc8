"""Finds the message of a value in its schema, by the indexes of the wire format or by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.codec import class_of
from kcli.formats.protobuf.language import ProtobufSchema
from kcli.formats.protobuf.names import inner_scope
from kcli.formats.protobuf.option_values import pool_of
from kcli.formats.protobuf.syntax import File

if TYPE_CHECKING:
    from google.protobuf.message import Message

FIRST = (0,)
"""The indexes of the first message of a file."""


def message_name(schema: ProtobufSchema, indexes: Sequence[int] = FIRST) -> str:
    """Returns the full name of the message with these indexes: of the message in the file, of the one in it, and so on.

    Raises FormatError if no message has them.
    """
    file = file_of_messages(schema)
    name = file.package or ""
    messages = file.messages
    for index in indexes or FIRST:
        if not 0 <= index < len(messages):
            raise FormatError(f"the schema has no message with the indexes {[*indexes]}")
        name = inner_scope(name, messages[index].name)
        messages = messages[index].messages
    return name


def message_indexes(schema: ProtobufSchema, name: str) -> tuple[int, ...]:
    """Returns the indexes of the message with a full name. Raises FormatError if the schema does not declare it."""
    file = file_of_messages(schema)
    inner = name.removeprefix(f"{file.package}.") if file.package else name
    indexes = []
    messages = file.messages
    for part in inner.split("."):
        index = next((nth for nth, message in enumerate(messages) if message.name == part), None)
        if index is None:
            raise FormatError(f"the schema has no message {name}")
        indexes.append(index)
        messages = messages[index].messages
    return (*indexes,)


def message_type(schema: ProtobufSchema, name: str | None = None) -> type[Message]:
    """Returns the class of the message with a full name, or of the first message. Raises FormatError."""
    full_name = name if name is not None else message_name(schema)
    pool = pool_of(schema.descriptors())
    try:
        descriptor = pool.FindMessageTypeByName(full_name)
    except KeyError:
        raise FormatError(f"the schema has no message {full_name}") from None
    return class_of(descriptor)


def file_of_messages(schema: ProtobufSchema) -> File:
    """Returns the file whose messages the indexes count.

    This is the file of the schema, or its only import if the file consists of one public import.
    """
    file = schema.file
    is_empty = not (file.types or file.imports or file.services or file.extends)
    if is_empty and len(file.public_imports) == 1:
        imported = schema.imports.get(file.public_imports[0])
        if imported is not None and imported.types:
            return imported
    return file
