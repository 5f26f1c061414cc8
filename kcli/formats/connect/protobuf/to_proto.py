"""Schemas of Connect's data model as .proto files with one message."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.protobuf import names
from kcli.formats.connect.protobuf.settings import ProtobufSettings
from kcli.formats.connect.recursive import RecursiveSchema
from kcli.formats.connect.schema import DECIMAL, Schema, SchemaType
from kcli.formats.connect.sum_types import ENUM_PARAMETER, UNION_PARAMETER, symbols_of
from kcli.formats.protobuf.known import known_file
from kcli.formats.protobuf.syntax import Block, Constant, Enum, Field, File, Message, OneOf, Option
from kcli.model.java_text import parse_int

_SCALARS = {
    SchemaType.INT8: ("int32", "Int32"),
    SchemaType.INT16: ("int32", "Int32"),
    SchemaType.INT32: ("int32", "Int32"),
    SchemaType.INT64: ("int64", "Int64"),
    SchemaType.FLOAT32: ("float", "Float"),
    SchemaType.FLOAT64: ("double", "Double"),
    SchemaType.BOOLEAN: ("bool", "Bool"),
    SchemaType.STRING: ("string", "String"),
    SchemaType.BYTES: ("bytes", "Bytes"),
}
"""The type of each primitive type, and the beginning of the name of the message that wraps it."""

_UNSIGNED = {"uint32": "UInt32", "fixed32": "UInt32", "uint64": "UInt64", "fixed64": "UInt64"}


def root_name(schema: Schema, settings: ProtobufSettings) -> str:
    """Returns the full name of the message for values of a schema."""
    if schema.type is not SchemaType.STRUCT:
        return f"google.protobuf.{_scalar(schema)[1]}Value"
    full_name = schema.name or f"{names.DEFAULT_NAME}1"
    return ".".join(names.scrubbed_name(part, scrubs=settings.scrubs) for part in full_name.split("."))


def proto_file(schema: Schema, settings: ProtobufSettings) -> File:
    """Returns the file of a schema. Raises DataException for a schema that Protobuf does not express."""
    full_name = root_name(schema, settings)
    if schema.type is not SchemaType.STRUCT:
        return known_file(names.WRAPPERS)
    translation = _Translation(settings, unnamed=0 if schema.name else 1)
    package, _, name = full_name.rpartition(".")
    message = translation.message(name, schema, ())
    return File("proto3", package or None, tuple(translation.imports), types=(message,))


def _scalar(schema: Schema) -> tuple[str, str]:
    if schema.type not in _SCALARS:
        raise DataException(f"Unsupported root schema of type {schema.type.name}")
    return _SCALARS[schema.type]


@dataclass(slots=True)
class _Body:
    """The declarations of a message that is being made. `around` has the names of the message and those around it."""

    name: str
    around: tuple[str, ...]
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)

    def declares(self, name: str) -> bool:
        return name == self.name or any(declared.name == name for declared in self.types)

    def message(self) -> Message:
        return Message(self.name, tuple(self.fields), tuple(self.oneofs), types=tuple(self.types))


class _Translation:
    def __init__(self, settings: ProtobufSettings, *, unnamed: int) -> None:
        self._settings = settings
        self._unnamed = unnamed
        self.imports: dict[str, None] = {}
        """The paths of the imports, in the order of their use."""

    def message(self, name: str, schema: Schema, around: tuple[str, ...]) -> Message:
        body = _Body(name, (*around, name))
        number = 1
        for item in schema.fields:
            tag = _tag(item.schema)
            if tag is None:
                tag, number = number, number + 1
            made = self._field(body, item.schema, self._scrubbed(item.name), tag, in_union=False)
            if made is not None:
                body.fields.append(made)
        return body.message()

    def _field(self, body: _Body, schema: Schema, name: str, tag: int, *, in_union: bool) -> Field | None:
        """Returns a field, and adds the types that it needs. None for a union, whose fields are added."""
        label = self._label(schema)
        if schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None, "an array has a schema of its items"
            schema = schema.value_schema
        meta: dict[str, str] = {}
        kind = self._type(schema, name, meta, in_union=in_union)
        match schema.type:
            case SchemaType.STRUCT if names.is_union(schema):
                self._union(body, schema)
                return None
            case SchemaType.STRUCT:
                if not body.declares(kind) and not (
                    isinstance(schema, RecursiveSchema) and kind in body.around
                ):
                    body.types.append(self.message(kind, schema, body.around))
            case SchemaType.MAP:
                body.types.append(self._entry(kind, schema, body.around))
            case _ if is_enum(schema):
                enum = self._enum(schema)
                if not body.declares(enum.name):
                    body.types.append(enum)
        is_plain = label != "optional" or not in_union
        return Field(name, kind, tag, label if is_plain else None, _meta_options(meta))

    def _label(self, schema: Schema) -> str | None:
        if schema.type in (SchemaType.ARRAY, SchemaType.MAP):
            return "repeated"
        is_plain = schema.type is not SchemaType.STRUCT or not names.is_union(schema)
        return "optional" if self._settings.optional_labels and schema.optional and is_plain else None

    def _union(self, body: _Body, schema: Schema) -> None:
        assert schema.name is not None or UNION_PARAMETER in (schema.parameters or {})
        if self._settings.generalized and UNION_PARAMETER in (schema.parameters or {}):
            name = (schema.parameters or {})[UNION_PARAMETER]
        else:
            name = self._simple((schema.name or "").removeprefix(f"{names.UNION}."))
        fields = []
        for item in schema.fields:
            made = self._field(
                body, item.schema, self._scrubbed(item.name), _tag(item.schema) or 0, in_union=True
            )
            if made is None or made.number == 0:
                raise DataException(f"The field {item.name} of a union has no number: {names.TAG}")
            fields.append(made)
        body.oneofs.append(OneOf(name, tuple(fields)))

    def _entry(self, name: str, schema: Schema, around: tuple[str, ...]) -> Message:
        assert schema.key_schema is not None and schema.value_schema is not None
        body = _Body(name, (*around, name))
        for item, label, number in ((schema.key_schema, names.KEY, 1), (schema.value_schema, names.VALUE, 2)):
            made = self._field(body, item, label, number, in_union=False)
            if made is None:
                raise DataException("The key or the value of a map is a union")
            body.fields.append(made if made.label == "repeated" else replace(made, label=None))
        return body.message()

    def _enum(self, schema: Schema) -> Enum:
        parameter = enum_parameter(schema, self._settings)
        constants = [
            Constant(symbol, _number(text, parameter))
            for symbol, text in symbols_of(schema, parameter).items()
        ]
        return Enum(self._simple(schema.name), tuple(constants))

    def _type(self, schema: Schema, field_name: str, meta: dict[str, str], *, in_union: bool) -> str:
        if schema.name in names.LOGICAL_TYPES:
            return self._logical(schema, meta)
        parameters = schema.parameters or {}
        match schema.type:
            case SchemaType.ARRAY:
                raise DataException("Array cannot be nested")
            case SchemaType.MAP:
                return names.entry_name(self._simple(schema.name))
            case SchemaType.STRUCT:
                name = self._simple(schema.name)
                return f"{name}Message" if name == field_name else name
            case SchemaType.STRING | SchemaType.INT32 if is_enum(schema):
                return parameters.get(ENUM_PARAMETER) or parameters[names.ENUM]
            case SchemaType.INT8 | SchemaType.INT16:
                meta[names.CONNECT_TYPE] = schema.type.value
        kind, wrapper = _SCALARS[schema.type]
        if schema.type in (SchemaType.INT32, SchemaType.INT64):
            kind = parameters.get(names.TYPE, kind)
            wrapper = _UNSIGNED.get(kind, wrapper) if schema.type is SchemaType.INT64 else wrapper
        if not is_wrapped(schema, self._settings, in_union=in_union):
            return kind
        self.imports[names.WRAPPERS] = None
        return f"google.protobuf.{wrapper}Value"

    def _logical(self, schema: Schema, meta: dict[str, str]) -> str:
        assert schema.name is not None
        kind, path = names.LOGICAL_TYPES[schema.name]
        self.imports[path] = None
        if schema.name == DECIMAL:
            parameters = schema.parameters or {}
            for name, parameter in ((names.PRECISION, names.CONNECT_PRECISION), (names.SCALE, names.SCALE)):
                if parameter in parameters:
                    meta[name] = parameters[parameter]
        return kind

    def _simple(self, name: str | None) -> str:
        """Returns a name without its package, or the name of a type without a name."""
        if not name:
            self._unnamed += 1
            name = f"{names.DEFAULT_NAME}{self._unnamed}"
        return self._scrubbed(name.rpartition(".")[2])

    def _scrubbed(self, name: str) -> str:
        return names.scrubbed_name(name, scrubs=self._settings.scrubs)


def is_enum(schema: Schema) -> bool:
    parameters = schema.parameters or {}
    is_named = names.ENUM in parameters
    return is_named or (schema.type is SchemaType.STRING and ENUM_PARAMETER in parameters)


def enum_parameter(schema: Schema, settings: ProtobufSettings) -> str:
    is_general = settings.generalized and ENUM_PARAMETER in (schema.parameters or {})
    return ENUM_PARAMETER if is_general else names.ENUM


def is_wrapped(schema: Schema, settings: ProtobufSettings, *, in_union: bool) -> bool:
    """Whether a value is in a message of its own, so that null differs from the default of its type."""
    if not settings.wraps_optional or not schema.optional:
        return False
    return not in_union or (schema.parameters or {}).get(names.WRAPPER_MARK, "").lower() == "true"


def _tag(schema: Schema) -> int | None:
    text = (schema.parameters or {}).get(names.TAG)
    return None if text is None else _number(text, names.TAG)


def _number(text: str, parameter: str) -> int:
    try:
        return parse_int(text)
    except ValueError:
        raise DataException(f"The schema parameter {parameter} is not a number: {text}") from None


def _meta_options(meta: dict[str, str]) -> tuple[Option, ...]:
    if not meta:
        return ()
    entries = tuple(Block(((names.VALUE, text), (names.KEY, name))) for name, text in meta.items())
    return (Option("confluent.field_meta", Block((("params", entries),)), is_custom=True),)
