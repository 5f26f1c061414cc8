"""Avro schemas as schemas of Connect's data model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kcli.formats.avro.equality import are_equal
from kcli.formats.avro.json_text import Json
from kcli.formats.avro.schema import (
    Array,
    Default,
    Enum,
    Fixed,
    Kind,
    Map,
    Part,
    Primitive,
    Properties,
    Record,
    Union,
)
from kcli.formats.connect.avro import names
from kcli.formats.connect.avro.settings import AvroSettings
from kcli.formats.connect.avro.to_avro import anything
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.recursive import RecursiveSchema
from kcli.formats.connect.schema import (
    DATE,
    DECIMAL,
    STRING_SCHEMA,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
)
from kcli.formats.connect.sum_types import UNION_PARAMETER, enum_parameters

LOG = logging.getLogger("kcli.connect.avro")

_ANYTHING = anything()

DefaultOf = Callable[[Schema, Part, Json], object]
"""Returns the value of a default in JSON. Raises DataException for a default that does not fit."""

_TYPES = {
    Kind.BOOLEAN: SchemaType.BOOLEAN,
    Kind.BYTES: SchemaType.BYTES,
    Kind.DOUBLE: SchemaType.FLOAT64,
    Kind.FLOAT: SchemaType.FLOAT32,
    Kind.INT: SchemaType.INT32,
    Kind.LONG: SchemaType.INT64,
    Kind.STRING: SchemaType.STRING,
}
_SMALL = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}
_LOGICAL = {
    (Kind.INT, "date"): DATE,
    (Kind.INT, "time-millis"): TIME,
    (Kind.LONG, "timestamp-millis"): TIMESTAMP,
}


@dataclass(slots=True)
class Draft:
    """A schema that is not complete yet."""

    type: SchemaType
    name: str | None = None
    version: int | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    optional: bool = False
    fields: list[Field] = field(default_factory=list)
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    doc: str | None = None

    def schema(self) -> Schema:
        return Schema(
            self.type, self.optional, None, self.name, self.version, self.doc, self.parameters or None,
            tuple(self.fields), self.key_schema, self.value_schema,
        )  # fmt: skip


class SchemaReader:
    """Translates Avro schemas. `default_of` converts defaults, because a default is a value."""

    def __init__(self, settings: AvroSettings, default_of: DefaultOf) -> None:
        self._settings = settings
        self._default_of = default_of
        self._open: dict[int, list[RecursiveSchema]] = {}
        self._unions = 0

    def schema(self, root: Part, version: int | None) -> Schema | None:
        """Returns the schema of an Avro type. None for the type of values without a schema. Raises DataException.

        `version` is the version in the registry. It counts if the Avro schema has no version of its own.
        """
        if are_equal(root, _ANYTHING):
            return None
        try:
            return self._of(root, version=version)
        except RecursionError:
            raise DataException("The Avro schema is nested too deeply") from None

    def _inside(self, part: Part, *, optional: bool = False, doc: str | None = None) -> Schema:
        """Returns the schema of a type that may be a record around it."""
        if id(part) not in self._open:
            return self._of(part, optional=optional, doc=doc)
        assert isinstance(part, Record), "only records contain themselves"
        schema = RecursiveSchema(_own_name(part, None), optional=optional)
        self._open[id(part)].append(schema)
        return schema

    def _of(
        self,
        part: Part,
        *,
        optional: bool = False,
        default: Default | None = None,
        doc: str | None = None,
        version: int | None = None,
    ) -> Schema:
        """Returns the schema of a type. `default` and `doc` are those of its field in a record."""
        if isinstance(part, Union):
            single = self._single(part, doc)
            if single is not None:
                return single
        draft = self._draft(part)
        properties: Properties = {} if isinstance(part, Union) else part.properties
        self._document(draft, part, properties, doc)
        _set_version(draft, properties, version)
        self._add_parameters(draft, properties)
        _set_name(draft, _own_name(part, draft.name))
        draft.optional = draft.optional or optional
        default = self._default_in(draft, properties, default)
        schema = draft.schema()
        for inner in self._open.pop(id(part), ()):
            inner.close(schema)
        return schema if default is None else self._with_default(schema, part, default)

    def _single(self, union: Union, doc: str | None) -> Schema | None:
        """Returns the schema of a union of one type, or of one type and null. None for any other union."""
        branches = union.branches
        if len(branches) == 1 and self._settings.flattens:
            return self._inside(branches[0], doc=doc)
        others = [branch for branch in branches if not names.is_null(branch)]
        if len(branches) == 2 and len(others) == 1:
            return self._inside(others[0], optional=True, doc=doc)
        return None

    def _draft(self, part: Part) -> Draft:
        match part:
            case Primitive(kind=Kind.NULL):
                raise DataException("Standalone null schemas are not supported by this converter")
            case Primitive(kind=Kind.BYTES) | Fixed():
                return _bytes(part)
            case Primitive():
                return _primitive(part)
            case Array() if names.is_map_entry(part.items):
                return self._map_of_entries(part.items)
            case Array():
                return Draft(SchemaType.ARRAY, value_schema=self._inside(part.items))
            case Map():
                return Draft(SchemaType.MAP, key_schema=STRING_SCHEMA, value_schema=self._inside(part.values))
            case Record():
                return self._record(part)
            case Enum():
                return self._enum(part)
            case Union():
                return self._union(part)

    def _map_of_entries(self, entry: Part) -> Draft:
        assert isinstance(entry, Record), "the entry of a map is a record"
        types = {item.name: item.type for item in entry.fields}
        if types.keys() != {names.KEY, names.VALUE}:
            raise DataException(
                "Found map encoded as array of key-value pairs, but array elements do not match the expected"
                " format."
            )
        return Draft(
            SchemaType.MAP,
            key_schema=self._inside(types[names.KEY]),
            value_schema=self._inside(types[names.VALUE]),
        )

    def _record(self, record: Record) -> Draft:
        draft = Draft(SchemaType.STRUCT)
        self._open[id(record)] = []
        has_docs = self._settings.meta_data and not self._settings.only_fields
        if has_docs and record.doc is not None:
            draft.parameters[names.RECORD_DOC] = record.doc
        for item in record.fields:
            if has_docs and item.doc is not None:
                draft.parameters[f"{names.FIELD_DOC}{item.name}"] = item.doc
            draft.fields.append(Field(item.name, self._of(item.type, default=item.default, doc=item.doc)))
        return draft

    def _enum(self, enum: Enum) -> Draft:
        draft = Draft(SchemaType.STRING)
        settings = self._settings
        if settings.meta_data and enum.doc is not None:
            name = names.CONNECT_ENUM_DOC if settings.only_fields else f"{names.ENUM_DOC}{enum.name.name}"
            draft.parameters[name] = enum.doc
        if settings.meta_data and enum.default is not None and not settings.only_fields:
            draft.parameters[f"{names.ENUM_DEFAULT}{enum.name.name}"] = enum.default
        if settings.generalized:
            numbers = ((symbol, number) for number, symbol in enumerate(enum.symbols))
            draft.parameters |= enum_parameters(enum.name.full, numbers)
        else:
            draft.parameters[names.ENUM] = enum.name.full
            draft.parameters |= {f"{names.ENUM}.{symbol}": symbol for symbol in enum.symbols}
        return draft

    def _union(self, union: Union) -> Draft:
        draft = Draft(SchemaType.STRUCT, names.UNION)
        if self._settings.generalized:
            draft.name = f"connect_union_{self._unions}"
            draft.parameters[UNION_PARAMETER] = draft.name
            self._unions += 1
        draft.optional = any(map(names.is_null, union.branches))
        for name, branch in member_fields(union, self._settings):
            if any(name == item.name for item in draft.fields):
                raise DataException("Multiple union schemas map to the Connect union field name")
            draft.fields.append(Field(name, self._inside(branch, optional=True)))
        return draft

    def _document(self, draft: Draft, part: Part, properties: Properties, doc: str | None) -> None:
        own = part.doc if isinstance(part, (Record, Enum, Fixed)) else None
        connect_doc = _text(properties.get(names.CONNECT_DOC))
        if not self._settings.only_fields:
            draft.doc = connect_doc if self._settings.meta_data else None
            return
        draft.doc = next((text for text in (doc, own, connect_doc) if text is not None), None)
        if self._settings.meta_data and own is not None:
            draft.parameters[names.CONNECT_RECORD_DOC] = own

    def _add_parameters(self, draft: Draft, properties: Properties) -> None:
        parameters = properties.get(names.CONNECT_PARAMETERS)
        if self._settings.meta_data and parameters is not None:
            if not isinstance(parameters, dict):
                raise DataException(f"Expected JSON object for schema parameters but found: {parameters}")
            for name, text in parameters.items():
                if not isinstance(text, str):
                    raise DataException(f"Expected schema parameter values to be strings but found: {text}")
                draft.parameters[name] = text
        for name, value in properties.items():
            if name.startswith(names.AVRO_PREFIX):
                draft.parameters[name] = value if isinstance(value, str) else str(value)

    def _default_in(self, draft: Draft, properties: Properties, default: Default | None) -> Default | None:
        """Returns the default that counts: that of the field, or that of the type. Null is no default."""
        connect_default = properties.get(names.CONNECT_DEFAULT)
        if default is None:
            return None if connect_default is None else Default(connect_default)
        if not self._settings.only_fields and self._settings.meta_data and connect_default is None:
            draft.parameters[names.FIELD_DEFAULT] = "true"
        return None if default.json is None else default

    def _with_default(self, schema: Schema, part: Part, default: Default) -> Schema:
        """Returns a schema with its default. A default that does not fit is left out, as in Java."""
        try:
            return replace(schema, default=self._default_of(schema, part, default.json))
        except DataException as error:
            LOG.warning("Ignoring an invalid default for %s: %s", schema, error)
            return schema


def member_fields(union: Union, settings: AvroSettings) -> Iterator[tuple[str, Part]]:
    """Yields the branches of a union except null, each with the name of its field in the struct."""
    for position, branch in enumerate(union.branches):
        if not names.is_null(branch):
            yield (
                names.member_name(
                    branch, position, generalized=settings.generalized, enhanced=settings.enhanced
                ),
                branch,
            )


def leaf_schema(part: Primitive | Fixed) -> Schema:
    """Returns the type and the name of the schema of a type without inner types."""
    draft = _bytes(part) if isinstance(part, Fixed) or part.kind is Kind.BYTES else _primitive(part)
    name = part.properties.get(names.CONNECT_NAME)
    parameters = part.properties.get(names.CONNECT_PARAMETERS)
    if draft.name is None and isinstance(name, str):
        draft.name = name
        if isinstance(parameters, dict):
            draft.parameters |= {key: text for key, text in parameters.items() if isinstance(text, str)}
    return draft.schema()


def _bytes(part: Primitive | Fixed) -> Draft:
    draft = Draft(SchemaType.BYTES)
    if _logical_name(part.properties) == "decimal":
        scale, precision = part.properties.get("scale"), part.properties.get("precision")
        draft.name, draft.version = DECIMAL, 1
        draft.parameters["scale"] = str(int(scale) if isinstance(scale, (int, float)) else 0)
        if precision is not None:
            if not isinstance(precision, (int, float)):
                raise DataException("precision property must be a JSON Integer.")
            if int(precision) != names.PRECISION_DEFAULT:
                draft.parameters[names.PRECISION] = str(int(precision))
    if isinstance(part, Fixed):
        draft.parameters[names.FIXED_SIZE] = str(part.size)
    return draft


def _primitive(part: Primitive) -> Draft:
    logical = _logical_name(part.properties)
    if (name := _LOGICAL.get((part.kind, logical or ""))) is not None:
        return Draft(_TYPES[part.kind], name, 1)
    small = part.properties.get(names.CONNECT_TYPE)
    if part.kind is not Kind.INT or logical is not None or not isinstance(small, str):
        return Draft(_TYPES[part.kind])
    if small not in _SMALL:
        raise DataException("Connect type annotation for Avro int field is null")
    return Draft(_SMALL[small])


def _logical_name(properties: Properties) -> str | None:
    name = _text(properties.get("logicalType"))
    return None if name is None else name.lower()


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _set_version(draft: Draft, properties: Properties, version: int | None) -> None:
    own = properties.get(names.CONNECT_VERSION)
    if own is not None:
        if not isinstance(own, (int, float)):
            raise DataException(f"Invalid Connect version found: {own}")
        version = int(own)
    if version is None or version < 0:
        return
    if draft.version not in (None, version):
        raise DataException(
            f"Mismatched versions: version already added to SchemaBuilder ({draft.version}) differs from version in"
            f" source schema ({version})"
        )
    draft.version = version


def _own_name(part: Part, given: str | None) -> str | None:
    """Returns the name that a type gives to its schema. `given` is the name that the schema has already."""
    properties: Properties = {} if isinstance(part, Union) else part.properties
    name = properties.get(names.CONNECT_NAME)
    if name is not None and not isinstance(name, str):
        raise DataException(f"Invalid schema name: {name}")
    if name is None and isinstance(part, (Record, Enum, Fixed)) and given != DECIMAL:
        name = part.name.full
    is_default = name is not None and name.startswith(f"{names.SPACE}.{names.DEFAULT_NAME}")
    return None if is_default else name


def _set_name(draft: Draft, name: str | None) -> None:
    if name is None:
        return
    if draft.name not in (None, name):
        raise DataException(
            f"Mismatched names: name already added to SchemaBuilder ({draft.name}) differs from name in source"
            f" schema ({name})"
        )
    draft.name = name
