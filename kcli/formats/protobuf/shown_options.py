"""Reads the options of descriptors as options of a syntax tree, in the order of Confluent's registry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.syntax import Block, Option, OptionValue, Word
from kcli.model.java_floats import java_double, java_float

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message as ProtobufMessage

META = "confluent."
"""The prefix of Confluent's own options, which come before other custom options."""

_ORDER = (
    # options of a file
    "java_package",
    "java_outer_classname",
    "java_multiple_files",
    "java_generate_equals_and_hash",
    "java_string_check_utf8",
    "optimize_for",
    "go_package",
    "cc_generic_services",
    "java_generic_services",
    "py_generic_services",
    # options of fields, messages, enums and methods
    "ctype",
    "packed",
    "jstype",
    "allow_alias",
    "no_standard_descriptor_accessor",
    "deprecated",
    "idempotency_level",
    "debug_redact",
    "retention",
    "targets",
    "edition_defaults",
    # options of a file, again
    "cc_enable_arenas",
    "objc_class_prefix",
    "csharp_namespace",
    "swift_prefix",
    "php_class_prefix",
    "php_namespace",
    "php_metadata_namespace",
    "ruby_package",
    "map_entry",
    "declaration",
)
_LAST = ("features", "feature_support", "verification")


class OptionReader:
    """Reads options with the custom options of a pool. Without a pool, custom options are dropped."""

    def __init__(self, pool: DescriptorPool | None, map_entries: frozenset[str] = frozenset()) -> None:
        self._pool = pool
        self._map_entries = map_entries

    def of(self, message: ProtobufMessage) -> tuple[Option, ...]:
        """Returns the options that are set in a message of options."""
        content = message.SerializeToString()
        if not content:
            return ()
        typed = self._typed(message.DESCRIPTOR.full_name, content) or message
        options: list[Option] = []
        for field, value in sorted(typed.ListFields(), key=_rank):
            name = field.full_name if field.is_extension else field.name
            values = [*value] if field.is_repeated else [value]
            options += [Option(name, self._value(field, one), field.is_extension) for one in values]
        return (*options,)

    def _typed(self, full_name: str, content: bytes) -> ProtobufMessage | None:
        """Returns the message as an object of the pool, which knows the custom options."""
        from google.protobuf.message import DecodeError

        if self._pool is None:
            return None
        options = _options_class(self._pool, full_name)
        try:
            return options.FromString(content) if options is not None else None
        except DecodeError:
            raise FormatError("a custom option does not have its type") from None

    def _value(self, field: FieldDescriptor, value: Any) -> OptionValue:
        """Returns one value of a field."""
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            is_entry = field.message_type.full_name in self._map_entries
            return self._map_entry(value) if is_entry else self._block(value)
        if field.cpp_type == field.CPPTYPE_ENUM:
            constant = field.enum_type.values_by_number.get(value)
            return Word(constant.name if constant is not None else str(value))
        if isinstance(value, bytes):
            return value.decode(errors="surrogateescape")
        if isinstance(value, str):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return Word((java_float if field.cpp_type == field.CPPTYPE_FLOAT else java_double)(value))
        return Word(str(value).lower())

    def _block(self, message: ProtobufMessage) -> Block:
        entries: list[tuple[str, OptionValue]] = []
        for field, value in message.ListFields():
            name = f"[{field.full_name}]" if field.is_extension else field.name
            if field.is_repeated:
                entries.append((name, tuple(self._value(field, one) for one in value)))
            else:
                entries.append((name, self._value(field, value)))
        return Block((*entries,))

    def _map_entry(self, message: Any) -> Block:
        """Returns key and value of an entry. Confluent's registry writes the value of `precision` and `scale` first."""
        fields = message.DESCRIPTOR.fields_by_name
        pairs = [(name, self._value(fields[name], getattr(message, name))) for name in ("key", "value")]
        is_reversed = message.DESCRIPTOR.full_name.startswith(META) and message.key in ("precision", "scale")
        return Block(tuple(pairs[::-1] if is_reversed else pairs))


def _options_class(pool: DescriptorPool, full_name: str) -> type[ProtobufMessage] | None:
    from google.protobuf import message_factory

    try:
        options_class: type[ProtobufMessage] = message_factory.GetMessageClass(
            pool.FindMessageTypeByName(full_name)
        )
    except KeyError:
        return None
    return options_class


def _rank(entry: tuple[FieldDescriptor, Any]) -> tuple[int, int]:
    field = entry[0]
    if field.is_extension:
        return (4 if not field.full_name.startswith(META) else 3, field.number)
    if field.name in _ORDER:
        return 0, _ORDER.index(field.name)
    return (2 if field.name in _LAST else 1, field.number)
