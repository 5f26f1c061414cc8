"""The schemas of a table's events, and the rows and keys of its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kcli.connectors.cdc.catalog import TableFacts
from kcli.connectors.cdc.column_rules import ColumnRule, ColumnType, changed_type
from kcli.connectors.cdc.defaults import field_default
from kcli.connectors.cdc.field_types import value_type
from kcli.connectors.cdc.naming import Naming
from kcli.connectors.cdc.pgoutput import Column, Missing, Relation, Tuple
from kcli.connectors.cdc.value_types import Modes, TypeInfo, ValueType
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import (
    INT64_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SchemaType,
    struct_schema,
)
from kcli.formats.connect.structs import Struct

_SNAPSHOT_VALUES = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
SOURCE_SCHEMA = struct_schema(
    {
        "version": STRING_SCHEMA,
        "connector": STRING_SCHEMA,
        "name": STRING_SCHEMA,
        "ts_ms": INT64_SCHEMA,
        "snapshot": Schema(
            SchemaType.STRING,
            optional=True,
            default="false",
            name="io.debezium.data.Enum",
            version=1,
            parameters={"allowed": _SNAPSHOT_VALUES},
        ),
        "db": STRING_SCHEMA,
        "sequence": OPTIONAL_STRING_SCHEMA,
        "ts_us": OPTIONAL_INT64_SCHEMA,
        "ts_ns": OPTIONAL_INT64_SCHEMA,
        "schema": STRING_SCHEMA,
        "table": STRING_SCHEMA,
        "txId": OPTIONAL_INT64_SCHEMA,
        "lsn": OPTIONAL_INT64_SCHEMA,
        "xmin": OPTIONAL_INT64_SCHEMA,
    },
    name="io.debezium.connector.postgresql.Source",
    version=1,
)
TRANSACTION_SCHEMA = struct_schema(
    {"id": STRING_SCHEMA, "total_order": INT64_SCHEMA, "data_collection_order": INT64_SCHEMA},
    name="event.block",
    version=1,
    optional=True,
)
_ENVELOPE_VERSION = 2


@dataclass(frozen=True, slots=True)
class Field:
    """A column that is a field of the row, or of the key."""

    place: int
    """The place in the tuples of the table."""
    name: str
    type: ValueType
    schema: Schema
    """The schema of the type with the default of the column, optional or not."""

    @property
    def required(self) -> bool:
        return not self.schema.optional

    def lacks_value(self, raw: bytes | Missing | None) -> bool:
        if raw is None:
            return self.type.null is None
        return raw is Missing.UNCHANGED and self.type.unavailable is None

    def value(self, raw: bytes | Missing | None) -> object:
        """The value of a text. Raises DataException with the name of the column."""
        if raw is None:
            return self.type.null
        if isinstance(raw, Missing):
            return self.type.unavailable
        try:
            return self.type.value(self.schema, raw.decode())
        except (DataException, UnicodeDecodeError) as error:
            raise DataException(f"The column {self.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Table:
    """A captured table, as it is at a position of the stream."""

    relation: Relation
    naming: Naming
    topic: str
    fields: tuple[Field, ...]
    key_fields: tuple[Field, ...]
    row_schema: Schema
    key_schema: Schema | None
    envelope_schema: Schema

    @property
    def name(self) -> tuple[str, str]:
        return self.relation.schema, self.relation.table

    def check(self, values: Tuple) -> None:
        """Raises DataException for a tuple with another number of columns than the table."""
        if len(values) != len(self.relation.columns):
            raise DataException(
                f"A row of {'.'.join(self.name)} has {len(values)} values, and the table has"
                f" {len(self.relation.columns)} columns"
            )

    def row(self, values: Tuple) -> Struct:
        """The row of a tuple. A required field without a value gets the fallback of its type."""
        return Struct.of_checked(self.row_schema, [_filled(field, values) for field in self.fields])

    def key(self, values: Tuple) -> Struct | None:
        if self.key_schema is None:
            return None
        return Struct.of_checked(self.key_schema, [_filled(field, values) for field in self.key_fields])

    def widened(self, values: Tuple) -> Table:
        """The table in which each field without a value in `values` is optional.

        The catalog tells which columns are not null at present. A row that is older than SET NOT NULL may have nulls,
        and an unchanged value of some types has no placeholder.
        """
        if not any(field.required and field.lacks_value(values[field.place]) for field in self.fields):
            return self
        fields = tuple(
            replace(field, schema=replace(field.schema, optional=True))
            if field.lacks_value(values[field.place])
            else field
            for field in self.fields
        )
        return _table(self.relation, self.naming, fields, self.key_fields)


def _filled(field: Field, values: Tuple) -> object:
    value = field.value(values[field.place])
    if value is not None or not field.required:
        return value
    return field.type.fallback if field.schema.default is None else field.schema.default


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Which tables and columns are captured, how their topics are called, and which columns are keys."""

    naming: Naming
    captures: Callable[[str, str], bool]
    """Whether a table is captured, by its schema and name."""
    includes: Callable[[str], bool]
    """Whether a column is captured, by `schema.table.column`."""
    key_columns: Callable[[str], Sequence[str] | None]
    """The columns of the key of `schema.table` in message.key.columns, or None for the primary key."""
    modes: Modes
    rules: Sequence[ColumnRule] = ()
    """The changes of chosen columns."""


def build_table(
    relation: Relation, facts: TableFacts, types: Callable[[int], TypeInfo], choice: TableChoice
) -> Table:
    """Makes the schemas of a table. `types` are the types of the database by number."""
    full_name = f"{relation.schema}.{relation.table}"
    key_names = _key_names(relation, facts, choice.key_columns(full_name))
    fields, included = {}, []
    for place, column in enumerate(relation.columns):
        field = fields[column.name] = _field(place, column, facts, types(column.type_oid), choice)
        if choice.includes(f"{full_name}.{column.name}"):
            kind = ColumnType(types(column.type_oid), column.type_modifier)
            included.append(_changed(field, choice.rules, full_name, column.name, kind))
    missing = [name for name in key_names if name not in fields]
    if missing:
        raise DataException(f"message.key.columns: the table {full_name} has no column {missing[0]}")
    return _table(relation, choice.naming, tuple(included), tuple(fields[name] for name in key_names))


def _changed(field: Field, rules: Sequence[ColumnRule], table: str, column: str, kind: ColumnType) -> Field:
    type = changed_type(rules, table, column, kind, field.type)
    if type is field.type:
        return field
    return replace(field, type=type, schema=replace(field.schema, parameters=type.schema.parameters))


def _field(place: int, column: Column, facts: TableFacts, info: TypeInfo, choice: TableChoice) -> Field:
    kind = value_type(info, column.type_modifier, choice.modes)
    default = field_default(info, facts.defaults.get(column.name), kind)
    is_optional = column.name not in facts.required
    name = choice.naming.field(column.name)
    return Field(place, name, kind, replace(kind.schema, optional=is_optional, default=default))


def _key_names(relation: Relation, facts: TableFacts, chosen: Sequence[str] | None) -> Sequence[str]:
    if chosen is not None:
        return chosen
    identity = [column.name for column in relation.columns if column.is_key]
    # With the default replica identity, the stream itself marks the primary key, as it was at its position.
    if relation.replica_identity == "d":
        return (
            sorted(identity, key=facts.primary_key.index)
            if set(identity) == set(facts.primary_key)
            else identity
        )
    names = {column.name for column in relation.columns}
    return facts.primary_key if names.issuperset(facts.primary_key) else ()


def _table(
    relation: Relation, naming: Naming, fields: tuple[Field, ...], key_fields: tuple[Field, ...]
) -> Table:
    topic = naming.topic(relation.schema, relation.table)
    row_schema = struct_schema(_schemas(fields), name=naming.schema(topic, "Value"), optional=True)
    key_schema = struct_schema(_schemas(key_fields), name=naming.schema(topic, "Key"))
    envelope = struct_schema(
        {
            "before": row_schema,
            "after": row_schema,
            "source": SOURCE_SCHEMA,
            "transaction": TRANSACTION_SCHEMA,
            "op": STRING_SCHEMA,
            "ts_ms": OPTIONAL_INT64_SCHEMA,
            "ts_us": OPTIONAL_INT64_SCHEMA,
            "ts_ns": OPTIONAL_INT64_SCHEMA,
        },
        name=naming.schema(topic, "Envelope"),
        version=_ENVELOPE_VERSION,
    )
    return Table(
        relation, naming, topic, fields, key_fields, row_schema, key_schema if key_fields else None, envelope
    )


def _schemas(fields: Sequence[Field]) -> dict[str, Schema]:
    """The schemas of fields by name. Raises DataException for two columns with the same name after an adjustment."""
    schemas = {field.name: field.schema for field in fields}
    if len(schemas) < len(fields):
        raise DataException(
            "field.name.adjustment.mode gives two columns the same name: expected another mode"
        )
    return schemas


def merged(new: Tuple, old: Tuple | None) -> Tuple:
    """The new row with its unchanged values taken from the old row, which a FULL replica identity has."""
    if old is None or Missing.UNCHANGED not in new:
        return new
    return tuple(
        before if after is Missing.UNCHANGED and before is not None else after
        for after, before in zip(new, old, strict=True)
    )
