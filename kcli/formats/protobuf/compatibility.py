"""Compares two schemas, and reports why one cannot read the values of the other.

Fields are compared by number, messages by name. The kinds of changes, their paths and their texts are those of
Confluent's registry, which reports a change of a referenced message at the message and at the field that has its type.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kcli.formats.protobuf.descriptors import map_types
from kcli.formats.protobuf.names import Declared, Names, inner_scope
from kcli.formats.protobuf.syntax import SCALARS, Enum, Field, File, Group, Message
from kcli.formats.schemas import Incompatibility


class Change(enum.StrEnum):
    """A kind of change that makes values unreadable."""

    PACKAGE_CHANGED = enum.auto()
    MESSAGE_REMOVED = enum.auto()
    FIELD_KIND_CHANGED = enum.auto()
    FIELD_SCALAR_KIND_CHANGED = enum.auto()
    FIELD_NAMED_TYPE_CHANGED = enum.auto()
    FIELD_NUMERIC_LABEL_CHANGED = enum.auto()
    REQUIRED_FIELD_ADDED = enum.auto()
    REQUIRED_FIELD_REMOVED = enum.auto()
    ONEOF_FIELD_REMOVED = enum.auto()
    MULTIPLE_FIELDS_MOVED_TO_ONEOF = enum.auto()
    FIELD_MOVED_TO_EXISTING_ONEOF = enum.auto()


_TEXTS = {
    Change.PACKAGE_CHANGED: "The package at '{}' in the %(reader)s schema does not match the package in the "
    "%(writer)s schema",
    Change.MESSAGE_REMOVED: "The %(reader)s schema is missing a MESSAGE type at path '{}' in the %(writer)s schema",
    Change.FIELD_KIND_CHANGED: "The type of a field at path '{}' in the %(reader)s schema does not match the "
    "%(writer)s schema",
    Change.FIELD_SCALAR_KIND_CHANGED: "The kind of a SCALAR field at path '{}' in the %(reader)s schema does not "
    "match its kind in the %(writer)s schema",
    Change.FIELD_NAMED_TYPE_CHANGED: "The type of a MESSAGE field at path '{}' in the %(reader)s schema does not "
    "match its type in the %(writer)s schema",
    Change.FIELD_NUMERIC_LABEL_CHANGED: "The label for a NUMERIC field at path '{}' in the %(reader)s schema does "
    "not match its label in the %(writer)s schema",
    # The two spaces are in Confluent's text.
    Change.REQUIRED_FIELD_ADDED: "A required field  at path '{}' in the %(reader)s schema is missing in the "
    "%(writer)s schema",
    Change.REQUIRED_FIELD_REMOVED: "The %(reader)s schema is missing a required field at path: '{}' in the "
    "%(writer)s schema",
    Change.ONEOF_FIELD_REMOVED: "The %(reader)s schema is missing a oneof field at path '{}' in the %(writer)s "
    "schema",
    Change.MULTIPLE_FIELDS_MOVED_TO_ONEOF: "Multiple fields in the oneof at path '{}' in the %(reader)s schema are "
    "outside a oneof in the %(writer)s schema",
    Change.FIELD_MOVED_TO_EXISTING_ONEOF: "A field in the oneof at path '{}' in the %(reader)s schema is outside an "
    "existing oneof in the %(writer)s schema",
}

# Types whose values have the same encoding, so that a reader of one reads the other.
_SCALAR_GROUPS = (
    frozenset({"int32", "int64", "uint32", "uint64", "bool", "enum"}),
    frozenset({"sint32", "sint64"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
    frozenset({"float"}),
    frozenset({"double"}),
    frozenset({"string", "bytes"}),
)
_STRINGS = _SCALAR_GROUPS[-1]


def incompatibilities(reader: tuple[File, Names], writer: tuple[File, Names]) -> tuple[Incompatibility, ...]:
    """Returns the changes from `writer` to `reader` that make values of `writer` unreadable."""
    return _Comparison(reader[1], writer[1]).run(reader[0], writer[0])


@dataclass(frozen=True, slots=True)
class _Pair:
    """A name in the reader's schema, and one in the writer's."""

    reader: str
    writer: str

    def inside(self, name: str) -> _Pair:
        return _Pair(inner_scope(self.reader, name), inner_scope(self.writer, name))


@dataclass(frozen=True, slots=True)
class _Members:
    """The fields of a message by number. `oneofs` has the name of the oneof of each member."""

    fields: dict[int, Field]
    oneofs: dict[int, str]

    def numbers_of(self, oneof: str) -> list[int]:
        return [number for number, name in self.oneofs.items() if name == oneof]


@dataclass(frozen=True, slots=True)
class _Reference:
    """A field whose type is a message of an import."""

    path: tuple[str, ...]
    types: _Pair


@dataclass(slots=True)
class _Comparison:
    """Compares the schemas, and each pair of messages of imports once, without recursion from message to message."""

    _reader: Names
    _writer: Names
    _found: list[Incompatibility | _Reference] = field(default_factory=list)
    """What the part that is being compared contains: the schemas themselves, or a pair of messages."""
    _parts: dict[_Pair, list[Incompatibility | _Reference]] = field(default_factory=dict)
    _waiting: list[_Pair] = field(default_factory=list)

    def run(self, reader: File, writer: File) -> tuple[Incompatibility, ...]:
        """Returns the changes of the schemas. The changes of a message of an import come before those of its field."""
        if reader.package != writer.package:
            self.add(Change.PACKAGE_CHANGED, ())
        self.types(reader.types, writer.types, (), _Pair(reader.package or "", writer.package or ""))
        own = self._found
        while self._waiting:
            pair = self._waiting.pop()
            self._found = self._parts[pair]
            new, old = self._reader.types[pair.reader], self._writer.types[pair.writer]
            if isinstance(new.type, Message) and isinstance(old.type, Message):
                path = (*_local_name(pair.reader, new).split("."),)
                self.messages(new.type, old.type, path, pair)
        return self._flattened(own)

    def _flattened(self, own: list[Incompatibility | _Reference]) -> tuple[Incompatibility, ...]:
        changed = self._changed_parts()
        result: list[Incompatibility] = []
        shown: set[_Pair] = set()
        stack = [iter(own)]
        while stack:
            match next(stack[-1], None):
                case None:
                    stack.pop()
                case Incompatibility() as change:
                    result.append(change)
                case _Reference(path, types) if types in changed:
                    inner = [] if types in shown else self._parts[types]
                    shown.add(types)
                    stack.append(iter([*inner, _incompatibility(Change.FIELD_NAMED_TYPE_CHANGED, path)]))
        return (*result,)

    def _changed_parts(self) -> set[_Pair]:
        """Returns the pairs of messages that have a change, or a field with such a type."""
        users: dict[_Pair, list[_Pair]] = {}
        for pair, found in self._parts.items():
            for reference in found:
                if isinstance(reference, _Reference):
                    users.setdefault(reference.types, []).append(pair)
        changed = {
            pair
            for pair, found in self._parts.items()
            if any(isinstance(one, Incompatibility) for one in found)
        }
        waiting = [*changed]
        while waiting:
            new = {user for user in users.get(waiting.pop(), ()) if user not in changed}
            changed |= new
            waiting += new
        return changed

    def add(self, change: Change, path: Sequence[str]) -> None:
        """Adds a change at a path."""
        self._found.append(_incompatibility(change, path))

    def types(
        self,
        reader: Iterable[Message | Enum],
        writer: Iterable[Message | Enum],
        path: tuple[str, ...],
        scopes: _Pair,
    ) -> None:
        """Compares messages by name. Changes of enums are compatible."""
        messages = {one.name: one for one in reader if isinstance(one, Message)}
        for old in writer:
            if not isinstance(old, Message):
                continue
            if (new := messages.get(old.name)) is not None:
                self.messages(new, old, (*path, old.name), scopes.inside(old.name))
            elif not old.is_map_entry:
                self.add(Change.MESSAGE_REMOVED, (*path, old.name))

    def messages(self, reader: Message, writer: Message, path: tuple[str, ...], scopes: _Pair) -> None:
        """Compares two messages and the messages that are declared in them."""
        new, old = _members(reader), _members(writer)
        self._oneofs(reader, new, old, path)
        for number in sorted({*new.fields, *old.fields}):
            if number not in new.fields:
                self._removed(old, new, number, path)
            elif number not in old.fields:
                if new.fields[number].label == "required":
                    self.add(Change.REQUIRED_FIELD_ADDED, (*path, str(number)))
            else:
                oneof = (new.oneofs[number],) if number in new.oneofs else ()
                place = (*path, *oneof, str(number))
                self._field(new.fields[number], old.fields[number], place, scopes)
        self.types(reader.types, writer.types, path, scopes)

    def _oneofs(self, reader: Message, new: _Members, old: _Members, path: tuple[str, ...]) -> None:
        """Finds fields that exclude each other only in the reader: it would lose all but the last."""
        for oneof in reader.oneofs:
            known = [number for number in new.numbers_of(oneof.name) if number in old.fields]
            moved = [number for number in known if number not in old.oneofs]
            origins = {old.oneofs[number] for number in known if number in old.oneofs}
            if len(moved) + len(origins) > 1:
                several = len(moved) > 1
                change = (
                    Change.MULTIPLE_FIELDS_MOVED_TO_ONEOF if several else Change.FIELD_MOVED_TO_EXISTING_ONEOF
                )
                self.add(change, (*path, oneof.name))

    def _removed(self, old: _Members, new: _Members, number: int, path: tuple[str, ...]) -> None:
        oneof = old.oneofs.get(number)
        if oneof is None:
            if old.fields[number].label == "required":
                self.add(Change.REQUIRED_FIELD_REMOVED, (*path, str(number)))
            return
        # A oneof may be removed with all its members.
        is_gone = oneof not in new.oneofs.values() and not any(
            one in new.fields for one in old.numbers_of(oneof)
        )
        if not is_gone:
            self.add(Change.ONEOF_FIELD_REMOVED, (*path, oneof, str(number)))

    def _field(self, new: Field, old: Field, path: tuple[str, ...], scopes: _Pair) -> None:
        self._field_types(
            (_real_type(self._reader, new.type, scopes.reader), new.label),
            (_real_type(self._writer, old.type, scopes.writer), old.label),
            path,
            scopes,
        )

    def _field_types(
        self,
        new: tuple[str, str | None],
        old: tuple[str, str | None],
        path: tuple[str, ...],
        scopes: _Pair,
    ) -> None:
        new_scalar = _scalar(self._reader, new[0], scopes.reader)
        old_scalar = _scalar(self._writer, old[0], scopes.writer)
        kinds = _kind(new[0], new_scalar), _kind(old[0], old_scalar)
        if kinds[0] != kinds[1]:
            self.add(Change.FIELD_KIND_CHANGED, path)
        elif new_scalar is not None and old_scalar is not None:
            self._scalars((new_scalar, new[1]), (old_scalar, old[1]), path)
        elif kinds[0] == "map":
            for new_type, old_type in zip(map_types(new[0]), map_types(old[0]), strict=True):
                self._field_types((new_type, None), (old_type, None), path, scopes)
        else:
            self._named_types(new[0].removeprefix("group "), old[0].removeprefix("group "), path, scopes)

    def _scalars(
        self, new: tuple[str, str | None], old: tuple[str, str | None], path: tuple[str, ...]
    ) -> None:
        group = next(group for group in _SCALAR_GROUPS if new[0] in group)
        if old[0] not in group:
            self.add(Change.FIELD_SCALAR_KIND_CHANGED, path)
        elif group != _STRINGS and None not in (new[1], old[1]) and new[1] != old[1]:
            self.add(Change.FIELD_NUMERIC_LABEL_CHANGED, path)

    def _named_types(self, new: str, old: str, path: tuple[str, ...], scopes: _Pair) -> None:
        """Compares message types by their names without the package. A type of an import is compared whole."""
        new_name = self._reader.find_type(new, scopes.reader)
        old_name = self._writer.find_type(old, scopes.writer)
        if new_name is None or old_name is None:
            if new != old:
                self.add(Change.FIELD_NAMED_TYPE_CHANGED, path)
            return
        new_type, old_type = self._reader.types[new_name], self._writer.types[old_name]
        local = _local_name(new_name, new_type)
        if local != _local_name(old_name, old_type):
            self.add(Change.FIELD_NAMED_TYPE_CHANGED, path)
            return
        is_own = new_type.path == "" and old_type.path == ""
        if is_own or not (isinstance(new_type.type, Message) and isinstance(old_type.type, Message)):
            return
        pair = _Pair(new_name, old_name)
        if pair not in self._parts:
            self._parts[pair] = []
            self._waiting.append(pair)
        self._found.append(_Reference(path, pair))


def _incompatibility(change: Change, path: Sequence[str]) -> Incompatibility:
    shown = f"#/{'/'.join(path)}"
    text = f'{{errorType:"{change.name}", description:"{_TEXTS[change].format(shown)}"}}'
    return Incompatibility(change.name, shown, text)


def _members(message: Message) -> _Members:
    members: list[tuple[Field, str | None]] = [(one, None) for one in message.fields]
    members += [(_as_field(group), None) for group in message.groups]
    for oneof in message.oneofs:
        members += [(one, oneof.name) for one in oneof.fields]
        members += [(_as_field(group), oneof.name) for group in oneof.groups]
    return _Members(
        {one.number: one for one, _ in members},
        {one.number: oneof for one, oneof in members if oneof is not None},
    )


def _as_field(group: Group) -> Field:
    """Returns a group as a field, whose type no field can have, because a group has its own encoding."""
    return Field(group.name, f"group {group.message.name}", group.number, group.label)


def _real_type(names: Names, name: str, scope: str) -> str:
    """Returns the type of a field. A field of map entries is a map, whose types have full names."""
    full_name = names.find_type(name, scope)
    declared = names.types[full_name].type if full_name is not None else None
    if isinstance(declared, Message) and declared.is_map_entry:
        types = {one.name: one.type for one in declared.fields}
        return f"map<{types.get('key', 'string')}, {types.get('value', 'string')}>"
    return name


def _scalar(names: Names, name: str, scope: str) -> str | None:
    """Returns a scalar type, `enum` for an enum, or None."""
    if name in SCALARS:
        return name
    full_name = names.find_type(name, scope)
    return "enum" if full_name is not None and isinstance(names.types[full_name].type, Enum) else None


def _kind(name: str, scalar: str | None) -> str:
    if scalar is not None:
        return "scalar"
    return "map" if name.startswith("map<") else "group" if name.startswith("group ") else "message"


def _local_name(full_name: str, declared: Declared) -> str:
    return full_name.removeprefix(f"{declared.package}.") if declared.package else full_name
