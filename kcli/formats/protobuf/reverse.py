"""Makes the syntax tree of a descriptor, as clients in Python register their schemas.

The types have full names, and a map is a repeated field of its entry message, as descriptors declare it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.cursor import MAX_DEPTH
from kcli.formats.protobuf.option_values import options_pool
from kcli.formats.protobuf.shown_options import OptionReader
from kcli.formats.protobuf.syntax import (
    Constant,
    Enum,
    Extend,
    Extensions,
    Field,
    File,
    Group,
    Message,
    Method,
    OneOf,
    Option,
    Range,
    Reserved,
    Service,
    Word,
)
from kcli.formats.protobuf.tokens import unescaped

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        ServiceDescriptorProto,
    )
    from google.protobuf.message import Message as ProtobufMessage


def file_of(descriptor: FileDescriptorProto, dependencies: Mapping[str, FileDescriptorProto]) -> File:
    """Returns the syntax tree of a descriptor. Raises FormatError for a descriptor that is not valid.

    `dependencies` has the descriptors of its imports. If one is missing, custom options are dropped.
    """
    _check_texts(descriptor)
    return _Reader(descriptor, _options(descriptor, dependencies)).file()


def _check_texts(descriptor: FileDescriptorProto) -> None:
    """Raises FormatError for a name that is not UTF-8. The Protobuf library returns such a name as bytes."""
    waiting: list[ProtobufMessage] = [descriptor]
    while waiting:
        for field, value in waiting.pop().ListFields():
            values = value if field.is_repeated else [value]
            if field.cpp_type == field.CPPTYPE_MESSAGE:
                waiting += values
            elif field.type == field.TYPE_STRING and not all(isinstance(one, str) for one in values):
                raise FormatError("a name in the descriptor is not UTF-8")


def _options(
    descriptor: FileDescriptorProto, dependencies: Mapping[str, FileDescriptorProto]
) -> OptionReader:
    if not all(path in dependencies for path in descriptor.dependency):
        return OptionReader(None)
    try:
        return OptionReader(*options_pool([*dependencies.values(), descriptor]))
    except FormatError:
        return OptionReader(None)


class _Reader:
    def __init__(self, descriptor: FileDescriptorProto, options: OptionReader) -> None:
        self._descriptor = descriptor
        self._options = options
        self._is_proto3 = descriptor.syntax == "proto3"
        self._is_edition = descriptor.syntax == "editions"

    def file(self) -> File:
        file = self._descriptor
        paths = [*enumerate(file.dependency)]
        public, weak = {*file.public_dependency}, {*file.weak_dependency}
        messages = [self._message(message, 1) for message in file.message_type]
        return File(
            self._syntax(),
            file.package or None,
            tuple(path for nth, path in paths if nth not in public and nth not in weak),
            tuple(path for nth, path in paths if nth in public),
            tuple(path for nth, path in paths if nth in weak and nth not in public),
            (*messages, *map(self._enum, file.enum_type)),
            tuple(map(self._service, file.service)),
            self._extends(file.extension, {}),
            self._options.of(file.options),
        )

    def _syntax(self) -> str | None:
        from google.protobuf.descriptor_pb2 import Edition

        file = self._descriptor
        if self._is_edition:
            if file.edition not in Edition.values():
                raise FormatError(f"the edition {file.edition} is unknown")
            return str(Edition.Name(file.edition)).removeprefix("EDITION_")
        if file.syntax not in ("", "proto2", "proto3"):
            raise FormatError(f"unknown syntax {file.syntax[:40]!r}")
        return file.syntax or None

    def _message(self, message: DescriptorProto, depth: int) -> Message:
        if depth > MAX_DEPTH:
            raise FormatError(f"messages are nested more than {MAX_DEPTH} deep")
        groups = {nested.name: nested for nested in message.nested_type}
        used = {_last(field.type_name) for field in _grouped(message)}
        fields: list[Field] = []
        own_groups: list[Group] = []
        members: list[tuple[list[Field], list[Group]]] = [([], []) for _ in message.oneof_decl]
        for field in message.field:
            is_member = field.HasField("oneof_index") and not field.proto3_optional
            if is_member and not 0 <= field.oneof_index < len(members):
                raise FormatError(f"field {field.name} has no oneof {field.oneof_index}")
            target = members[field.oneof_index] if is_member else (fields, own_groups)
            if field.type == field.TYPE_GROUP:
                target[1].append(self._group(field, groups, depth, is_member=is_member))
            else:
                target[0].append(self._field(field, is_member=is_member))
        oneofs = [
            OneOf(oneof.name, (*inner,), (*inner_groups,), self._options.of(oneof.options))
            for oneof, (inner, inner_groups) in zip(message.oneof_decl, members, strict=True)
            if inner or inner_groups
        ]
        nested = [self._message(one, depth + 1) for one in message.nested_type if one.name not in used]
        return Message(
            message.name,
            (*fields,),
            (*oneofs,),
            (*own_groups,),
            (*nested, *map(self._enum, message.enum_type)),
            self._reserved(message.reserved_range, message.reserved_name, past_end=1),
            tuple(
                Extensions((_range(one.start, one.end - 1),), self._options.of(one.options))
                for one in message.extension_range
            ),
            self._extends(message.extension, groups),
            self._options.of(message.options),
        )

    def _group(
        self,
        field: FieldDescriptorProto,
        groups: Mapping[str, DescriptorProto],
        depth: int,
        *,
        is_member: bool = False,
    ) -> Group:
        message = groups.get(_last(field.type_name))
        if message is None:
            raise FormatError(f"group {field.name} has no message {field.type_name}")
        label = None if is_member else self._label(field)
        return Group(label, field.number, self._message(message, depth + 1), self._options.of(field.options))

    def _field(self, field: FieldDescriptorProto, *, is_member: bool = False) -> Field:
        if field.type not in field.Type.values():
            raise FormatError(f"field {field.name} has an unknown type")
        kind = field.type_name or field.Type.Name(field.type).removeprefix("TYPE_").lower()
        options = [*self._options.of(field.options)]
        if field.HasField("default_value") and not self._is_proto3:
            options.append(Option("default", _default(field)))
        if field.HasField("json_name"):
            options.append(Option("json_name", field.json_name))
        return Field(field.name, kind, field.number, None if is_member else self._label(field), (*options,))

    def _label(self, field: FieldDescriptorProto) -> str | None:
        if field.label == field.LABEL_REPEATED:
            return "repeated"
        if field.proto3_optional:
            return "optional"
        if self._is_proto3 or self._is_edition:
            return None
        return "required" if field.label == field.LABEL_REQUIRED else "optional"

    def _extends(
        self, fields: Iterable[FieldDescriptorProto], groups: Mapping[str, DescriptorProto]
    ) -> tuple[Extend, ...]:
        extends: dict[str, tuple[list[Field], list[Group]]] = {}
        top = {message.name: message for message in self._descriptor.message_type}
        for field in fields:
            target = extends.setdefault(field.extendee, ([], []))
            if field.type == field.TYPE_GROUP:
                target[1].append(self._group(field, groups or top, 1))
            else:
                target[0].append(self._field(field))
        return tuple(
            Extend(name, (*inner,), (*inner_groups,)) for name, (inner, inner_groups) in extends.items()
        )

    def _enum(self, enum: EnumDescriptorProto) -> Enum:
        return Enum(
            enum.name,
            tuple(Constant(one.name, one.number, self._options.of(one.options)) for one in enum.value),
            self._reserved(enum.reserved_range, enum.reserved_name, past_end=0),
            self._options.of(enum.options),
        )

    def _reserved(
        self,
        ranges: Iterable[DescriptorProto.ReservedRange | EnumDescriptorProto.EnumReservedRange],
        names: Sequence[str],
        *,
        past_end: int,
    ) -> tuple[Reserved, ...]:
        """Returns a declaration for each range and each name."""
        numbers = [Reserved((_range(one.start, one.end - past_end),)) for one in ranges]
        spelled = [Word(name) if self._is_edition else name for name in names]
        return (*numbers, *(Reserved((name,)) for name in spelled))

    def _service(self, service: ServiceDescriptorProto) -> Service:
        methods = [
            Method(
                one.name,
                one.input_type,
                one.output_type,
                one.client_streaming,
                one.server_streaming,
                self._options.of(one.options),
            )
            for one in service.method
        ]
        return Service(service.name, (*methods,), self._options.of(service.options))


def _grouped(message: DescriptorProto) -> list[FieldDescriptorProto]:
    return [field for field in (*message.field, *message.extension) if field.type == field.TYPE_GROUP]


def _last(type_name: str) -> str:
    return type_name.rpartition(".")[2]


def _range(first: int, last: int) -> int | Range:
    return first if first == last else Range(first, last)


def _default(field: FieldDescriptorProto) -> str | Word:
    """Returns the default value. In a descriptor, bytes are escaped as in a .proto file."""
    if field.type == field.TYPE_STRING:
        return str(field.default_value)
    if field.type == field.TYPE_BYTES:
        return unescaped(field.default_value)
    return Word(field.default_value)
