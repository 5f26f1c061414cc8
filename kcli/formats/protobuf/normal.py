"""The normal form of a schema, in which equal schemas have equal texts.

Members are sorted by number and options by name, types have full names, and map entries become maps.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kcli.formats.protobuf.cursor import integer_of, joined
from kcli.formats.protobuf.descriptors import map_types
from kcli.formats.protobuf.names import Extension, Names, inner_scope
from kcli.formats.protobuf.syntax import (
    MAX_INT32,
    SCALARS,
    Block,
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
    OptionValue,
    Range,
    Reserved,
    Service,
    Word,
)

_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?[fF]?")


def normal_file(file: File, names: Names) -> File:
    """Returns the normal form of a file. Raises FormatError for a type that no file declares."""
    return _Normalizer(names, file.is_proto3).file(file)


@dataclass(frozen=True, slots=True)
class _Normalizer:
    _names: Names
    _is_proto3: bool

    def file(self, file: File) -> File:
        scope = file.package or ""
        return File(
            None if file.syntax == "proto2" else file.syntax,
            file.package,
            (*sorted({*file.imports}),),
            (*sorted({*file.public_imports}),),
            (*sorted({*file.weak_imports}),),
            self._types(file.types, scope),
            tuple(self._service(service, scope) for service in file.services),
            self._extends(file.extends, scope),
            self._options(file.options, scope),
        )

    def _types(self, types: Iterable[Message | Enum], scope: str) -> tuple[Message | Enum, ...]:
        """Keeps the order of types, because values name messages by index."""
        return tuple(
            self._message(one, scope)
            if isinstance(one, Message)
            else self._enum(one, inner_scope(scope, one.name))
            for one in types
            if not (isinstance(one, Message) and one.is_map_entry)
        )

    def _message(self, message: Message, scope: str) -> Message:
        scope = inner_scope(scope, message.name)
        oneofs = [self._oneof(oneof, scope) for oneof in message.oneofs if oneof.fields or oneof.groups]
        return Message(
            message.name,
            self._fields(message.fields, scope),
            (*sorted(oneofs, key=_first_number),),
            self._groups(message.groups, scope),
            self._types(message.types, scope),
            _sorted_reserved(message.reserved),
            self._extensions(message.extensions, scope),
            self._extends(message.extends, scope),
            self._options(message.options, scope),
        )

    def _fields(self, fields: Iterable[Field], scope: str) -> tuple[Field, ...]:
        return tuple(self._field(field, scope) for field in sorted(fields, key=_number))

    def _field(self, field: Field, scope: str) -> Field:
        kind = self._type(field.type, scope)
        label = None if kind.startswith("map<") else field.label
        return replace(field, type=kind, label=label, options=self._options(field.options, scope))

    def _type(self, name: str, scope: str) -> str:
        if name in SCALARS:
            return name
        if name.startswith("map<"):
            key, value = map_types(name)
            return f"map<{key}, {self._type(value, scope)}>"
        full_name = self._names.type(name, scope)
        declared = self._names.types[full_name].type
        if isinstance(declared, Message) and declared.is_map_entry:
            types = {field.name: field.type for field in declared.fields}
            if types.keys() >= {"key", "value"}:
                return f"map<{types['key']}, {self._type(types['value'], full_name)}>"
        return f".{full_name}"

    def _groups(self, groups: Iterable[Group], scope: str) -> tuple[Group, ...]:
        return tuple(
            replace(
                group,
                message=self._message(group.message, scope),
                options=self._options(group.options, scope),
            )
            for group in sorted(groups, key=_number)
        )

    def _oneof(self, oneof: OneOf, scope: str) -> OneOf:
        return OneOf(
            oneof.name,
            self._fields(oneof.fields, scope),
            self._groups(oneof.groups, scope),
            self._options(oneof.options, scope),
        )

    def _extensions(self, extensions: Iterable[Extensions], scope: str) -> tuple[Extensions, ...]:
        single = [
            Extensions((_single(value),), self._options(one.options, scope))
            for one in extensions
            for value in one.values
        ]
        return (*sorted(single, key=lambda one: _start(one.values[0])),)

    def _extends(self, extends: Iterable[Extend], scope: str) -> tuple[Extend, ...]:
        merged: dict[str, Extend] = {}
        for extend in extends:
            name = self._type(extend.name, scope)
            before = merged.get(name, Extend(name))
            merged[name] = Extend(name, before.fields + extend.fields, before.groups + extend.groups)
        return tuple(
            Extend(name, self._fields(one.fields, scope), self._groups(one.groups, scope))
            for name, one in merged.items()
            if one.fields or one.groups
        )

    def _enum(self, enum: Enum, scope: str) -> Enum:
        constants = [
            replace(constant, options=self._options(constant.options, scope)) for constant in enum.constants
        ]
        return Enum(
            enum.name,
            (*sorted(constants, key=lambda constant: (constant.number, constant.name)),),
            _sorted_reserved(enum.reserved),
            self._options(enum.options, scope),
        )

    def _service(self, service: Service, scope: str) -> Service:
        def normal_method(method: Method) -> Method:
            return replace(
                method,
                input=self._type(method.input, scope),
                output=self._type(method.output, scope),
                options=self._options(method.options, scope),
            )

        methods = tuple(map(normal_method, service.methods))
        return Service(service.name, methods, self._options(service.options, scope))

    def _options(self, options: Iterable[Option], scope: str) -> tuple[Option, ...]:
        """Sorts options by their full names, and merges the values of a custom option that is not repeated."""
        named = sorted((self._named(option, scope) for option in options), key=lambda option: option.name)
        merged: list[Option] = []
        for option in named:
            extension = self._names.extensions.get(option.name) if option.is_custom else None
            is_again = bool(merged) and merged[-1].name == option.name and merged[-1].is_custom
            if is_again and extension is not None and extension.field.label != "repeated":
                merged[-1] = replace(option, value=self._merged(extension, merged[-1].value, option.value))
            else:
                merged.append(option)
        return tuple(replace(option, value=self._value(option.value, scope)) for option in merged)

    def _named(self, option: Option, scope: str) -> Option:
        """Returns a custom option with its full name, and with blocks in place of the parts of its name."""
        name = self._names.extension(option.name, scope) if option.is_custom else None
        return option if name is None else Option(name, _as_block(option.value), True)

    def _merged(self, typed: Extension | None, first: OptionValue, second: OptionValue) -> OptionValue:
        """Returns the value of an option that is set twice: both blocks together, or else the second value."""
        if not (isinstance(first, Block) and isinstance(second, Block)):
            return second
        entries = dict(first.entries)
        for name, value in second.entries:
            if name not in entries:
                entries[name] = value
            elif (member := self._member(typed, name)) is not None and member.field.label != "repeated":
                entries[name] = self._merged(member, entries[name], value)
            else:
                entries[name] = tuple(dict.fromkeys(joined(entries[name], value)))
        return Block((*entries.items(),))

    def _member(self, typed: Extension | None, name: str) -> Extension | None:
        """Returns the field `name` of the message that is the type of `typed`."""
        if typed is None:
            return None
        full_name = self._names.find_type(typed.field.type, typed.scope)
        message = self._names.types[full_name].type if full_name is not None else None
        if full_name is None or not isinstance(message, Message):
            return None
        members = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
        return next((Extension(field, full_name) for field in members if field.name == name), None)

    def _value(self, value: OptionValue, scope: str) -> OptionValue:
        match value:
            case Word() if value.is_number:
                return Word(_plain_number(value.text))
            case Option():
                return replace(value, value=self._value(value.value, scope))
            case tuple():
                return tuple(self._inner_value(one, scope) for one in value)
            case Block(entries):
                named = {
                    self._entry_name(name, scope): entry for name, entry in reversed(entries) if entry != ()
                }
                return Block(tuple((name, self._inner_value(named[name], scope)) for name in sorted(named)))
            case _:
                return value

    def _inner_value(self, value: OptionValue, scope: str) -> OptionValue:
        if isinstance(value, tuple) and len(value) == 1:
            return self._inner_value(value[0], scope)
        return self._value(value, scope)

    def _entry_name(self, name: str, scope: str) -> str:
        full_name = self._names.extension(name[1:-1], scope) if name.startswith("[") else None
        return name if full_name is None else f"[{full_name}]"


def _as_block(value: OptionValue) -> OptionValue:
    return Block(((value.name, _as_block(value.value)),)) if isinstance(value, Option) else value


def _number(member: Field | Group) -> int:
    return member.number


def _first_number(oneof: OneOf) -> int:
    return min(map(_number, oneof.fields or oneof.groups))


def _single(value: int | Range) -> int | Range:
    return value.start if isinstance(value, Range) and value.start == value.end else value


def _start(value: str | Word | int | Range) -> int:
    match value:
        case Range(start, _):
            return start
        case int():
            return value
        case _:
            return MAX_INT32


def _sorted_reserved(reserved: Iterable[Reserved]) -> tuple[Reserved, ...]:
    """Returns a declaration for each value: numbers first, then names."""
    values = [value for one in reserved for value in one.values]
    single = [value if isinstance(value, str | Word) else _single(value) for value in values]
    return tuple(Reserved((value,)) for value in sorted(single, key=_reserved_key))


def _reserved_key(value: str | Word | int | Range) -> tuple[int, str]:
    match value:
        case Range(start, end):
            return start, f"{start}..{end}"
        case Word(text):
            return _start(value), text
        case _:
            return _start(value), str(value)


def _plain_number(text: str) -> str:
    """Returns a number in decimal digits, without exponent. A text that is no number stays as it is.

    All digits remain, because the number may be the default of a field. Confluent's registry rounds to three.
    """
    number = integer_of(text)
    if number is not None:
        return str(number)
    if _DECIMAL.fullmatch(text) is None:
        return text
    plain = format(decimal.Decimal(text.rstrip("fF")), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return plain or "0"
