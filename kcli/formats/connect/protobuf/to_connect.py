"""Messages of Protobuf as schemas of Connect's data model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.formats.connect.protobuf import names
from kcli.formats.connect.protobuf.settings import ProtobufSettings
from kcli.formats.connect.recursive import RecursiveSchema
from kcli.formats.connect.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    decimal_schema,
)
from kcli.formats.connect.sum_types import UNION_PARAMETER, enum_parameters
from kcli.formats.protobuf.language import ProtobufSchema
from kcli.formats.protobuf.syntax import Block, Enum, File, Message, Option, OptionValue
from kcli.model.java_text import parse_int

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor

Meta = Mapping[tuple[str, str], Mapping[str, str]]
"""The parameters of fields, by the full name of the message and the name of the field."""

_KINDS = {
    "double": SchemaType.FLOAT64,
    "float": SchemaType.FLOAT32,
    "bool": SchemaType.BOOLEAN,
    "string": SchemaType.STRING,
    "bytes": SchemaType.BYTES,
    "int32": SchemaType.INT32,
    "sint32": SchemaType.INT32,
    "sfixed32": SchemaType.INT32,
    **dict.fromkeys(
        ("int64", "uint32", "fixed32", "uint64", "sint64", "fixed64", "sfixed64"), SchemaType.INT64
    ),
}
_SMALL = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}
_LOGICAL = {kind: name for name, (kind, _) in names.LOGICAL_TYPES.items()}
_LOGICAL_BASES = {DATE: SchemaType.INT32, TIME: SchemaType.INT32, TIMESTAMP: SchemaType.INT64}


class SchemaReader:
    """Translates the messages of one schema."""

    def __init__(self, settings: ProtobufSettings, schema: ProtobufSchema) -> None:
        self._settings = settings
        self._meta = field_meta([schema.file, *schema.imports.values()])
        self._open: dict[str, list[RecursiveSchema]] = {}

    def schema(self, message: Descriptor, version: int | None) -> Schema:
        """Returns the schema of a message. `version` is the version in the registry."""
        kind = names.WRAPPED.get(message.full_name) if self._settings.wraps_root else None
        if kind is not None:
            return Schema(kind, version=version)
        return self._struct(message, version=version, optional=False)

    def _struct(self, message: Descriptor, *, version: int | None, optional: bool) -> Schema:
        name = message.full_name if self._settings.enhanced else message.name
        if message.full_name in self._open:
            schema = RecursiveSchema(name, optional=optional)
            self._open[message.full_name].append(schema)
            return schema
        self._open[message.full_name] = []
        fields: list[Field] = []
        for oneof in real_oneofs(message):
            if self._settings.flattens:
                fields += [Field(item.name, self._field(item, in_union=True)) for item in oneof.fields]
            else:
                fields.append(Field(union_field_name(oneof, self._settings), self._union(oneof)))
        fields += [Field(item.name, self._field(item)) for item in plain_fields(message)]
        made = Schema(SchemaType.STRUCT, optional, None, name, version, fields=tuple(fields))
        for inner in self._open.pop(message.full_name):
            inner.close(made)
        return made

    def _union(self, oneof: OneofDescriptor) -> Schema:
        fields = tuple(Field(item.name, self._field(item, in_union=True)) for item in oneof.fields)
        parameters, name = None, oneof.name
        if self._settings.generalized:
            parameters = {UNION_PARAMETER: name}
        else:
            name = f"{names.UNION}.{oneof.full_name if self._settings.enhanced else oneof.name}"
        return Schema(SchemaType.STRUCT, True, None, name, None, None, parameters, fields)

    def _field(self, item: FieldDescriptor, *, in_union: bool = False) -> Schema:
        settings = self._settings
        base = self._base(item)
        if item.is_repeated and base.type is not SchemaType.MAP:
            base = Schema(SchemaType.ARRAY, True, value_schema=with_parameters(base, {}, optional=True))
        is_optional = base.optional
        more: dict[str, str] = {}
        if in_union:
            is_optional = True
            if settings.wraps_optional and item.message_type and item.message_type.full_name in names.WRAPPED:
                more[names.WRAPPER_MARK] = "true"
        elif settings.optional_labels:
            is_optional = is_optional or has_optional_label(item)
        else:
            is_optional = is_optional or not settings.wraps_optional
        more[names.TAG] = str(item.number)
        return with_parameters(base, more, optional=is_optional)

    def _base(self, item: FieldDescriptor) -> Schema:
        """Returns the schema of one value of a field."""
        if item.enum_type is not None:
            return self._enum(item)
        if item.message_type is not None:
            return self._message(item)
        kind = type_name(item)
        base = _KINDS[kind]
        if base is SchemaType.INT32:
            small = self._meta_of(item).get(names.CONNECT_TYPE, "")
            if small in _SMALL:
                return Schema(_SMALL[small])
        is_usual = kind in ("int32", "int64") or base not in (SchemaType.INT32, SchemaType.INT64)
        return Schema(base, parameters=None if is_usual else {names.TYPE: kind})

    def _enum(self, item: FieldDescriptor) -> Schema:
        enum, settings = item.enum_type, self._settings
        numbers = [(constant.name, constant.number) for constant in enum.values]
        if settings.generalized:
            parameters = enum_parameters(enum.name, numbers)
        else:
            parameters = {names.ENUM: enum.name} | {
                f"{names.ENUM}.{symbol}": str(number) for symbol, number in numbers
            }
        kind = SchemaType.INT32 if settings.int_enums else SchemaType.STRING
        name = enum.full_name if settings.enhanced else enum.name
        return Schema(kind, True, name=name, parameters=parameters)

    def _message(self, item: FieldDescriptor) -> Schema:
        message = item.message_type
        logical = _LOGICAL.get(message.full_name)
        if logical == DECIMAL:
            return self._decimal(item)
        if logical is not None:
            return Schema(_LOGICAL_BASES[logical], True, name=logical, version=1)
        if self._settings.wraps_optional and message.full_name in names.WRAPPED:
            return Schema(names.WRAPPED[message.full_name], True)
        if is_map(item):
            key, value = message.fields
            name = names.map_name(message.full_name if self._settings.enhanced else message.name)
            return Schema(
                SchemaType.MAP, True, name=name, key_schema=self._field(key), value_schema=self._field(value)
            )
        return self._struct(message, version=None, optional=True)

    def _decimal(self, item: FieldDescriptor) -> Schema:
        meta = self._meta_of(item)
        schema = decimal_schema(_number(meta.get(names.SCALE)) or 0, optional=True)
        precision = _number(meta.get(names.PRECISION))
        return schema if precision is None else with_parameters(
            schema, {names.CONNECT_PRECISION: str(precision)}, optional=True
        )  # fmt: skip

    def _meta_of(self, item: FieldDescriptor) -> Mapping[str, str]:
        return self._meta.get((item.containing_type.full_name, item.name), {})


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else parse_int(text)
    except ValueError:
        return None


def with_parameters(schema: Schema, parameters: Mapping[str, str], *, optional: bool) -> Schema:
    """Returns a schema with more parameters. A schema that is not complete yet gets them itself."""
    merged = {**(schema.parameters or {}), **parameters}
    if isinstance(schema, RecursiveSchema):
        schema.add_parameters(parameters)
        return schema
    return replace(schema, parameters=merged or None, optional=optional)


# Facts of descriptors


def type_name(item: FieldDescriptor) -> str:
    """Returns the name of a field's type in a .proto file."""
    return _TYPE_NAMES[item.type]


_TYPE_NAMES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
    9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
"""The names by the numbers of FieldDescriptorProto.Type."""


def real_oneofs(message: Descriptor) -> Iterator[OneofDescriptor]:
    """Yields the oneofs of the .proto file, and not those that stand for the label optional."""
    return (oneof for oneof in message.oneofs if not _is_synthetic(oneof))


def plain_fields(message: Descriptor) -> Iterator[FieldDescriptor]:
    """Yields the fields outside of oneofs."""
    for item in message.fields:
        if item.containing_oneof is None or _is_synthetic(item.containing_oneof):
            yield item


def _is_synthetic(oneof: OneofDescriptor) -> bool:
    return (
        len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}" and oneof.fields[0].has_presence
    )


def has_optional_label(item: FieldDescriptor) -> bool:
    """Whether a field is declared as optional."""
    if item.containing_oneof is not None:
        return _is_synthetic(item.containing_oneof)
    is_scalar_with_presence = item.has_presence and item.message_type is None
    return is_scalar_with_presence and not item.is_required


def union_field_name(oneof: OneofDescriptor, settings: ProtobufSettings) -> str:
    return f"{oneof.name}_{oneof.index}" if settings.union_index else str(oneof.name)


def is_map(item: FieldDescriptor) -> bool:
    """Whether a field is a map: repeated messages with a key and a value whose name ends with Entry."""
    message = item.message_type
    if message is None or not item.is_repeated or not message.name.endswith(names.ENTRY):
        return False
    inner = message.fields
    return [one.name for one in inner] == [names.KEY, names.VALUE] and not any(
        one.is_repeated for one in inner
    )


def field_meta(files: Iterable[File]) -> Meta:
    """Returns the parameters that the option `confluent.field_meta` gives to fields."""
    meta: dict[tuple[str, str], Mapping[str, str]] = {}
    for file in files:
        for message in file.messages:
            _add_meta(message, file.package or "", meta)
    return meta


def _add_meta(message: Message, space: str, meta: dict[tuple[str, str], Mapping[str, str]]) -> None:
    full_name = f"{space}.{message.name}" if space else message.name
    for item in [*message.fields, *(inner for oneof in message.oneofs for inner in oneof.fields)]:
        for option in item.options:
            if option.is_custom and option.name == "confluent.field_meta":
                meta[full_name, item.name] = _params(option.value)
    for inner in message.types:
        if not isinstance(inner, Enum):
            _add_meta(inner, full_name, meta)


def _params(value: OptionValue) -> Mapping[str, str]:
    match value:
        case Option(name="params", value=inner):
            members: list[OptionValue] = [inner]
        case Block(entries=entries):
            members = [inner for name, inner in entries if name == "params"]
        case _:
            members = []
    params = {}
    for member in members:
        for block in member if isinstance(member, tuple) else (member,):
            texts = dict(block.entries) if isinstance(block, Block) else {}
            key, text = texts.get(names.KEY), texts.get(names.VALUE)
            if isinstance(key, str) and isinstance(text, str):
                params[key] = text
    return params
