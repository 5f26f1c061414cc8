"""Makes the descriptor of a syntax tree, which the Protobuf library needs for values of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.cursor import integer_of
from kcli.formats.protobuf.names import Names, inner_scope
from kcli.formats.protobuf.option_values import Options, file_descriptor_type, set_option, set_options
from kcli.formats.protobuf.syntax import (
    SCALARS,
    Constant,
    Enum,
    Extend,
    Field,
    File,
    Group,
    Message,
    OneOf,
    Option,
    Range,
    Reserved,
    Service,
    Word,
)
from kcli.formats.protobuf.tokens import is_unicode

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )
    from google.protobuf.internal.containers import (
        RepeatedCompositeFieldContainer as RepeatedCompositeContainer,
    )
    from google.protobuf.message import Message as ProtobufMessage


def file_descriptor(
    file: File, path: str, names: Names, dependencies: Mapping[str, FileDescriptorProto], *, is_strict: bool
) -> FileDescriptorProto:
    """Returns the descriptor of a file. Raises FormatError.

    `names` has the names of the file and of its imports. `dependencies` has the descriptors of the imports. `is_strict`
    refuses an import without a descriptor, and a custom option whose value does not fit its type.
    """
    return _Builder(file, path, names, is_strict=is_strict).build(dependencies)


class _Builder:
    """Builds one descriptor. Custom options are set at the end, because the file itself may declare them."""

    def __init__(self, file: File, path: str, names: Names, *, is_strict: bool) -> None:
        self._file = file
        self._names = names
        self._is_strict = is_strict
        self._result = file_descriptor_type()(name=path)
        self._custom: list[Options] = []

    def build(self, dependencies: Mapping[str, FileDescriptorProto]) -> FileDescriptorProto:
        file, result = self._file, self._result
        scope = file.package or ""
        if scope:
            result.package = scope
        self._set_syntax()
        self._set_imports(dependencies)
        for declared in file.types:
            if isinstance(declared, Message):
                self._message(result.message_type.add(), declared, scope)
            else:
                self._enum(result.enum_type.add(), declared, scope)
        self._extends(result.extension, result.message_type, file.extends, scope)
        for service in file.services:
            self._service(service, scope)
        self._options(result.options, file.options, scope)
        set_options(result, self._custom, dependencies, self._names, is_strict=self._is_strict)
        return result

    def _set_syntax(self) -> None:
        from google.protobuf import descriptor_pb2

        file, result = self._file, self._result
        if file.is_edition:
            result.syntax = "editions"
            number = descriptor_pb2.Edition.DESCRIPTOR.values_by_name.get(f"EDITION_{file.syntax}")
            if number is None:
                raise FormatError(f"the edition {file.syntax} is unknown")
            result.edition = number.number
        elif file.syntax == "proto3":
            result.syntax = "proto3"

    def _set_imports(self, dependencies: Mapping[str, FileDescriptorProto]) -> None:
        file, result = self._file, self._result
        for path in dict.fromkeys(file.all_imports):
            if path in dependencies:
                if path in file.public_imports:
                    result.public_dependency.append(len(result.dependency))
                if path in file.weak_imports:
                    result.weak_dependency.append(len(result.dependency))
                result.dependency.append(path)
            elif self._is_strict:
                raise FormatError(f'the import "{path}" is neither a reference of the schema nor built in')

    def _options(self, target: ProtobufMessage, options: Iterable[Option], scope: str) -> None:
        custom = []
        for option in options:
            if option.is_custom:
                custom.append(option)
            else:
                set_option(target, option, is_strict=self._is_strict)
        if custom:
            self._custom.append(Options(target, tuple(custom), scope))

    def _message(self, result: DescriptorProto, message: Message, scope: str) -> None:
        scope = inner_scope(scope, message.name)
        result.name = message.name
        for member in message.fields:
            self._field(result.field.add(), member, scope, result)
        self._groups(result.field, result, message.groups, scope)
        for index, oneof in enumerate(message.oneofs):
            self._oneof(result, oneof, index, scope)
        _add_synthetic_oneofs(result)
        for declared in message.types:
            if isinstance(declared, Message):
                self._message(result.nested_type.add(), declared, scope)
            else:
                self._enum(result.enum_type.add(), declared, scope)
        for extensions in message.extensions:
            for value in extensions.values:
                first, last = _bounds(value)
                one = result.extension_range.add(start=first, end=last + 1)
                self._options(one.options, extensions.options, scope)
                if not extensions.options:
                    one.ClearField("options")
        self._extends(result.extension, result.nested_type, message.extends, scope)
        _reserve(result, message.reserved, past_end=1)
        self._options(result.options, message.options, scope)
        if not message.options:
            result.ClearField("options")

    def _oneof(self, result: DescriptorProto, oneof: OneOf, index: int, scope: str) -> None:
        declaration = result.oneof_decl.add(name=oneof.name)
        self._options(declaration.options, oneof.options, scope)
        if not oneof.options:
            declaration.ClearField("options")
        first = len(result.field)
        for member in oneof.fields:
            self._field(result.field.add(), member, scope, result)
        self._groups(result.field, result, oneof.groups, scope)
        for field in result.field[first:]:
            field.oneof_index = index
            field.ClearField("proto3_optional")

    def _groups(
        self,
        fields: RepeatedCompositeContainer,
        result: DescriptorProto,
        groups: Iterable[Group],
        scope: str,
    ) -> None:
        for group in groups:
            field = fields.add(name=group.name, number=group.number)
            field.type = field.TYPE_GROUP
            field.type_name = f".{inner_scope(scope, group.message.name)}"
            field.label = _label(group.label)
            if group.options:
                self._options(field.options, group.options, scope)
            self._message(result.nested_type.add(), group.message, scope)

    def _field(
        self, result: FieldDescriptorProto, field: Field, scope: str, parent: DescriptorProto | None
    ) -> None:
        result.name, result.number = field.name, field.number
        result.label = _label(field.label)
        if field.type.startswith("map<"):
            if parent is None:
                raise FormatError(f"the extension {field.name} cannot be a map")
            self._map(result, field, scope, parent)
        else:
            self._set_type(result, field.type, scope)
        if field.label == "optional" and self._file.is_proto3:
            result.proto3_optional = True
        plain = []
        for option in field.options:
            if option.name == "json_name" and not option.is_custom:
                if not isinstance(option.value, str):
                    raise FormatError(f"json_name of field {field.name} is not a string")
                if not is_unicode(option.value):
                    raise FormatError(f"json_name of field {field.name} is not UTF-8")
                result.json_name = option.value
            elif option.name == "default" and not option.is_custom:
                result.default_value = _default(result, option)
            else:
                plain.append(option)
        if plain:
            self._options(result.options, plain, scope)

    def _set_type(self, result: FieldDescriptorProto, name: str, scope: str) -> None:
        if name in SCALARS:
            result.type = getattr(result, f"TYPE_{name.upper()}")
            return
        full_name = self._names.type(name, scope)
        is_enum = isinstance(self._names.types[full_name].type, Enum)
        result.type = result.TYPE_ENUM if is_enum else result.TYPE_MESSAGE
        result.type_name = f".{full_name}"

    def _map(self, result: FieldDescriptorProto, field: Field, scope: str, parent: DescriptorProto) -> None:
        key_type, value_type = map_types(field.type)
        entry = parent.nested_type.add(name=map_entry_name(field.name))
        entry.options.map_entry = True
        key = entry.field.add(name="key", number=1, label=result.LABEL_OPTIONAL)
        self._set_type(key, key_type, scope)
        value = entry.field.add(name="value", number=2, label=result.LABEL_OPTIONAL)
        self._set_type(value, value_type, scope)
        result.label, result.type = result.LABEL_REPEATED, result.TYPE_MESSAGE
        result.type_name = f".{inner_scope(scope, entry.name)}"

    def _extends(
        self,
        fields: RepeatedCompositeContainer,
        nested: RepeatedCompositeContainer,
        extends: Iterable[Extend],
        scope: str,
    ) -> None:
        for extend in extends:
            extendee = f".{self._names.type(extend.name, scope)}"
            for member in extend.fields:
                field = fields.add(extendee=extendee)
                self._field(field, member, scope, None)
            for group in extend.groups:
                field = fields.add(extendee=extendee, name=group.name, number=group.number)
                field.type, field.label = field.TYPE_GROUP, _label(group.label)
                field.type_name = f".{inner_scope(scope, group.message.name)}"
                self._message(nested.add(), group.message, scope)

    def _enum(self, result: EnumDescriptorProto, enum: Enum, scope: str) -> None:
        result.name = enum.name
        for constant in enum.constants:
            self._constant(result, constant, scope)
        _reserve(result, enum.reserved, past_end=0)
        if enum.options:
            self._options(result.options, enum.options, scope)

    def _constant(self, result: EnumDescriptorProto, constant: Constant, scope: str) -> None:
        value = result.value.add(name=constant.name, number=constant.number)
        if constant.options:
            self._options(value.options, constant.options, scope)

    def _service(self, service: Service, scope: str) -> None:
        result = self._result.service.add(name=service.name)
        for method in service.methods:
            one = result.method.add(name=method.name)
            one.input_type = f".{self._names.type(method.input, scope)}"
            one.output_type = f".{self._names.type(method.output, scope)}"
            if method.is_client_streaming:
                one.client_streaming = True
            if method.is_server_streaming:
                one.server_streaming = True
            if method.options:
                self._options(one.options, method.options, scope)
        if service.options:
            self._options(result.options, service.options, scope)


def map_types(name: str) -> tuple[str, str]:
    """Returns the types of key and value of a type such as `map<string, a.B>`."""
    key, _, value = name[4:-1].partition(", ")
    return key, value


def map_entry_name(field_name: str) -> str:
    """Returns the name that protoc gives to the entry of a map field: `a_map` has the entry `AMapEntry`."""
    words = field_name.split("_")
    return "".join(word[:1].upper() + word[1:] for word in words) + "Entry"


def _label(label: str | None) -> FieldDescriptorProto.Label.ValueType:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return FieldDescriptorProto.Label.Value(f"LABEL_{(label or 'optional').upper()}")


def _bounds(value: int | Range) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value.start, value.end)


def _reserve(
    result: DescriptorProto | EnumDescriptorProto, reserved: Iterable[Reserved], *, past_end: int
) -> None:
    """Adds reserved names and ranges. The end of a range is `past_end` behind its last number."""
    for one in reserved:
        for value in one.values:
            if isinstance(value, str | Word):
                result.reserved_name.append(value if isinstance(value, str) else value.text)
            else:
                first, last = _bounds(value)
                result.reserved_range.add(start=first, end=last + past_end)


def _add_synthetic_oneofs(result: DescriptorProto) -> None:
    """Adds the oneof that each optional field of proto3 has for itself, behind the declared ones."""
    names = {field.name for field in result.field} | {oneof.name for oneof in result.oneof_decl}
    for field in result.field:
        if field.proto3_optional:
            name = f"_{field.name}"
            while name in names:
                name = f"X{name}"
            names.add(name)
            field.oneof_index = len(result.oneof_decl)
            result.oneof_decl.add(name=name)


def _default(field: FieldDescriptorProto, option: Option) -> str:
    """Returns a default value in the form of descriptors, in which a value of bytes is escaped."""
    value = option.value
    if field.type == field.TYPE_BYTES and isinstance(value, str):
        return "".join(
            f"\\{byte:03o}" if byte < 0x20 or byte > 0x7E or byte in b"\\'\"" else chr(byte)
            for byte in value.encode(errors="surrogateescape")
        )
    if field.type == field.TYPE_STRING and isinstance(value, str):
        if not is_unicode(value):
            raise FormatError(f"the default of field {field.name} is not valid Unicode")
        return value
    if not isinstance(value, Word):
        raise FormatError(f"the default of field {field.name} does not fit its type")
    return _default_number(field, value.text)


def _default_number(field: FieldDescriptorProto, text: str) -> str:
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE, field.TYPE_BOOL, field.TYPE_ENUM):
        return text.removeprefix("+")
    number = integer_of(text)
    if number is None:
        raise FormatError(f"the default of field {field.name} does not fit its type")
    return str(number)
