"""Schemas of Connect's data model as Avro schemas."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.formats.avro.defaults import fits_default
from kcli.formats.avro.equality import are_equal
from kcli.formats.avro.json_text import JsonObject
from kcli.formats.avro.logical_types import logical_type
from kcli.formats.avro.schema import (
    Array,
    Default,
    Enum,
    Field,
    Fixed,
    Kind,
    Map,
    Name,
    Named,
    Order,
    Part,
    Primitive,
    Record,
    Union,
)
from kcli.formats.connect.avro import names
from kcli.formats.connect.avro.defaults import default_to_json
from kcli.formats.connect.avro.settings import AvroSettings
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.recursive import RecursiveSchema, required
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.sum_types import ENUM_PARAMETER, symbols_of
from kcli.formats.connect.values import Float32
from kcli.model.java_text import parse_int

_LOGICAL = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_SMALL = {SchemaType.INT8: "int8", SchemaType.INT16: "int16"}


def avro_part(schema: Schema | None, settings: AvroSettings) -> Part:
    """Returns the Avro type of a schema, or the type of values without a schema. Raises DataException."""
    return anything() if schema is None else _Translation(settings).of(schema)


def anything() -> Record:
    """Returns the type of values without a schema: a record in which the field of the value's type is set."""
    record = Record(Name("Anything", names.SPACE), (), False, None, (), {})
    entry = Record(Name(names.MAP_ENTRY, names.SPACE), (), False, None, (), {})
    entry.fields = (_field(names.KEY, record), _field(names.VALUE, record))
    kinds = (Kind.BOOLEAN, Kind.BYTES, Kind.DOUBLE, Kind.FLOAT, Kind.INT, Kind.LONG, Kind.STRING)
    members: dict[str, Part] = {kind.value: Primitive(kind) for kind in kinds}
    members |= {"array": Array(record), "map": Array(entry)}
    record.fields = tuple(
        _field(name, Union([Primitive(Kind.NULL), part]), Default(None)) for name, part in members.items()
    )
    return record


def _field(name: str, part: Part, default: Default | None = None, doc: str | None = None) -> Field:
    return Field(name, part, default, Order.ASCENDING, doc, (), {})


class _Translation:
    """Translates one schema. `_known` has the parts of schemas that are not optional, `_begun` the records by name."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._known: dict[Schema, Part] = {}
        self._begun: dict[str, Record] = {}
        self._named: dict[str, Named] = {}
        self._unnamed = 0

    def of(self, schema: Schema, *, is_branch: bool = False) -> Part:
        """Returns the type of a schema. A branch of a union is not optional itself."""
        is_known = not names.is_union(schema) and not schema.optional
        if is_known and (known := self._known.get(schema)) is not None:
            return known
        part = self._new(schema, is_branch=is_branch)
        if not schema.optional:
            self._known[schema] = part
        return part

    def _new(self, schema: Schema, *, is_branch: bool) -> Part:
        if schema.type is SchemaType.STRUCT:
            if names.is_union(schema):
                return self._union(schema)
            if schema.optional:
                return Union([Primitive(Kind.NULL), self._inside(required(schema))])
        part = self._base(schema)
        self._describe(part, schema)
        part = self._unique(part)
        if is_branch or not schema.optional:
            return part
        null = Primitive(Kind.NULL)
        return Union([null, part] if schema.default is None else [part, null])

    def _inside(self, schema: Schema, *, is_branch: bool = False) -> Part:
        """Returns the type of a schema that may be a record around it."""
        begun = self._begun.get(schema.name) if schema.name is not None else None
        if begun is None or schema.type is not SchemaType.STRUCT:
            return self.of(schema, is_branch=is_branch)
        return Union([Primitive(Kind.NULL), begun]) if schema.optional and not is_branch else begun

    def _union(self, schema: Schema) -> Union:
        branches: list[Part] = [Primitive(Kind.NULL)] if schema.optional else []
        branches += [self._inside(required(item.schema), is_branch=True) for item in schema.fields]
        return Union(branches)

    def _base(self, schema: Schema) -> Part:
        match schema.type:
            case SchemaType.STRING if (symbols := self._symbols(schema)) is not None:
                return symbols
            case SchemaType.BYTES if names.is_fixed(schema):
                assert schema.parameters is not None
                size = parameter_number(schema.parameters, names.FIXED_SIZE)
                return Fixed(self._name(schema), size, None, (), {})
            case SchemaType.ARRAY:
                assert schema.value_schema is not None
                return Array(self._inside(schema.value_schema))
            case SchemaType.MAP:
                return self._map(schema)
            case SchemaType.STRUCT:
                return self._record(schema)
            case _:
                return Primitive(names.AVRO_KINDS[schema.type])

    def _symbols(self, schema: Schema) -> Enum | None:
        """Returns the enum of a text whose parameters list its symbols. None for any other text."""
        settings, parameters = self._settings, schema.parameters or {}
        if not (settings.generalized or settings.enhanced):
            return None
        if ENUM_PARAMETER not in parameters and names.ENUM not in parameters:
            return None
        parameter = ENUM_PARAMETER if settings.generalized else names.ENUM
        full_name = parameters.get(parameter)
        if full_name is None:
            raise DataException(f"The parameters of an enum do not have its name: {parameter}")
        own_name = self._name(schema).name
        if settings.only_fields:
            doc, default = parameters.get(names.CONNECT_ENUM_DOC), None
        else:
            doc = parameters.get(f"{names.ENUM_DOC}{own_name}")
            default = parameters.get(f"{names.ENUM_DEFAULT}{own_name}")
        return Enum(Name.of(full_name, ""), tuple(symbols_of(schema, parameter)), default, doc, (), {})

    def _map(self, schema: Schema) -> Part:
        assert schema.key_schema is not None and schema.value_schema is not None
        if names.is_text_map(schema, optional_keys=self._settings.optional_keys):
            return Map(self._inside(schema.value_schema))
        if schema.name is None:
            entry = Record(Name(names.MAP_ENTRY, names.SPACE), (), False, None, (), {})
        else:
            properties: JsonObject = {names.INTERNAL_TYPE: names.MAP_ENTRY}
            entry = Record(self._name(schema), (), False, None, (), properties)
        entry.fields = (
            self._record_field(names.KEY, schema.key_schema, None),
            self._record_field(names.VALUE, schema.value_schema, None),
        )
        return Array(self._unique(entry))

    def _record(self, schema: Schema) -> Record:
        parameters = schema.parameters or {}
        only_fields = self._settings.only_fields
        doc = parameters.get(names.CONNECT_RECORD_DOC if only_fields else names.RECORD_DOC)
        record = Record(self._name(schema), (), False, doc, (), {})
        if schema.name is not None:
            self._begun[schema.name] = record
        fields = []
        for item in schema.fields:
            name = names.scrubbed(item.name) if self._settings.scrubs else item.name
            text = None if only_fields else parameters.get(f"{names.FIELD_DOC}{item.name}")
            fields.append(self._record_field(name, item.schema, text))
        record.fields = tuple(fields)
        return record

    def _record_field(self, name: str, schema: Schema, doc: str | None) -> Field:
        part = self._inside(schema) if isinstance(schema, RecursiveSchema) else self.of(schema)
        default = None
        if schema.default is not None:
            tree = default_to_json(schema, schema.default, self._settings)
            default = Default(float(tree) if isinstance(tree, Float32) else tree)
        elif schema.optional:
            default = Default(None)
        if default is not None and not fits_default(part, default.json):
            default = None  # Java logs a warning, and leaves the default out
        return _field(name, part, default, schema.doc if self._settings.only_fields else doc)

    def _name(self, schema: Schema) -> Name:
        if schema.name is not None:
            return names.avro_name(schema.name, scrubs=self._settings.scrubs)
        self._unnamed += 1
        return Name(f"{names.DEFAULT_NAME}{self._unnamed if self._unnamed > 1 else ''}", names.SPACE)

    def _unique(self, part: Part) -> Part:
        """Returns the part, or an equal one with the same name. Raises DataException for another with this name."""
        if not isinstance(part, (Record, Enum, Fixed)):
            return part
        first = self._named.setdefault(part.name.full, part)
        if not are_equal(first, part):
            raise DataException(f"Can't redefine: {part.name.full}")
        return first

    # Properties

    def _describe(self, part: Part, schema: Schema) -> None:
        """Adds the properties that keep what Avro does not express, in the order of Java."""
        assert not isinstance(part, Union), "a union has no properties"
        properties: JsonObject = dict(part.properties)
        if schema.name == DECIMAL:
            properties |= _decimal_digits(schema)
        if self._settings.meta_data:
            properties |= self._meta_data(schema)
        if (logical := _LOGICAL.get(schema.name or "")) is not None:
            properties["logicalType"] = logical
        elif schema.name == DECIMAL:
            properties["logicalType"] = "decimal"
        for name, text in (schema.parameters or {}).items():
            if name.startswith(names.AVRO_PREFIX):
                properties.setdefault(name, text)
        part.properties = properties
        match part:
            case Primitive():
                part.logical = logical_type(part.kind, properties)
            case Fixed():
                part.logical = logical_type(Kind.FIXED, properties, part.size)

    def _meta_data(self, schema: Schema) -> JsonObject:
        properties: JsonObject = {}
        only_fields, parameters = self._settings.only_fields, schema.parameters or {}
        if schema.doc is not None:
            properties[names.CONNECT_DOC] = schema.doc
        if schema.version is not None:
            properties[names.CONNECT_VERSION] = schema.version
        shown: JsonObject = {
            name: text for name, text in parameters.items() if only_fields or name != names.FIELD_DEFAULT
        }
        if shown:
            properties[names.CONNECT_PARAMETERS] = shown
        if schema.default is not None and (only_fields or names.FIELD_DEFAULT not in parameters):
            properties[names.CONNECT_DEFAULT] = default_to_json(schema, schema.default, self._settings)
        if schema.name is not None:
            properties[names.CONNECT_NAME] = schema.name
        if schema.type in _SMALL:
            properties[names.CONNECT_TYPE] = _SMALL[schema.type]
        return properties


def parameter_number(parameters: Mapping[str, str], name: str) -> int:
    try:
        return parse_int(parameters[name])
    except ValueError:
        raise DataException(f"The schema parameter {name} is not a number: {parameters[name]}") from None


def _decimal_digits(schema: Schema) -> JsonObject:
    parameters = schema.parameters or {}
    if "scale" not in parameters:
        raise DataException("Invalid Decimal schema: scale parameter not found.")
    precision = names.PRECISION_DEFAULT
    if names.PRECISION in parameters:
        precision = parameter_number(parameters, names.PRECISION)
    return {"scale": parameter_number(parameters, "scale"), "precision": precision}
