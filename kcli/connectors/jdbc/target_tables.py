"""The tables of the target: creates missing ones (auto.create), and adds missing columns (auto.evolve)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from kcli.connectors.jdbc.binding import literal
from kcli.connectors.jdbc.database import Database, SqlException
from kcli.connectors.jdbc.dialects import KEY_STRING, TIMESTAMP_FIELD
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.sink_keys import SinkSettings
from kcli.connectors.jdbc.target_fields import TargetField, TargetFields
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.schema import Schema, SchemaType

_log = logging.getLogger("kcli.connectors.jdbc")


class TableAlterOrCreateException(ConnectException):
    """A table or a column is missing, and the connector may not or cannot make it."""

    java_class = "io.confluent.connect.jdbc.sink.TableAlterOrCreateException"


@dataclass(slots=True)
class TargetTables:
    """The columns of the tables, which are read once."""

    database: Database
    settings: SinkSettings
    _columns: dict[TableName, frozenset[str]] = field(default_factory=dict)

    def exists(self, table: TableName) -> bool:
        return bool(self._names(table))

    def prepare(self, table: TableName, fields: TargetFields) -> None:
        """Makes the table fit. Raises TableAlterOrCreateException or SqlException."""
        if not self.exists(table):
            self._create(table, fields.ordered)
        self._add_missing(table, fields.ordered, self.settings.max_retries)

    def _names(self, table: TableName) -> frozenset[str]:
        names = self._columns.get(table)
        if not names:
            names = self._columns[table] = frozenset(column.name for column in self.database.columns(table))
        return names

    def _create(self, table: TableName, fields: Sequence[TargetField]) -> None:
        if not self.settings.auto_create:
            raise TableAlterOrCreateException(f"Table {table} is missing and auto-creation is disabled")
        sql = self.create_statement(table, fields)
        _log.info("Creating table with sql: %s", sql)
        try:
            self._apply([sql])
        except SqlException as error:
            _log.warning("Create failed, will attempt amend if table already exists: %s", error)
            self._columns.pop(table, None)
            if not self.exists(table):
                raise

    def _add_missing(self, table: TableName, fields: Sequence[TargetField], retries: int) -> None:
        names = self._names(table)
        lower = {name.lower() for name in names}
        missing = [item for item in fields if item.name not in names and item.name.lower() not in lower]
        if not missing:
            return
        actual = self.database.table_type(table)
        kind = actual if actual in self.settings.table_types else "TABLE"
        shown = f"[{', '.join(map(str, missing))}]"
        title = kind.title()
        if kind != "TABLE":
            raise TableAlterOrCreateException(
                f"{title} {table} is missing fields ({shown}) and ALTER {kind} is unsupported"
            )
        for item in missing:
            if not item.optional and item.schema.default is None:
                raise TableAlterOrCreateException(
                    f"Cannot ALTER {kind} {table} to add missing field {item}, as the field is not optional and"
                    " does not have a default value"
                )
        if not self.settings.auto_evolve:
            raise TableAlterOrCreateException(
                f"{title} {table} is missing fields ({shown}) and auto-evolution is disabled"
            )
        statements = self.alter_statements(table, missing)
        _log.info("Amending %s to add missing fields: %s with SQL: %s", kind, shown, statements)
        try:
            self._apply(statements)
        except SqlException as error:
            if retries <= 0:
                raise TableAlterOrCreateException(
                    f"Failed to amend {kind} '{table}' to add missing fields: {shown}"
                ) from error
            _log.warning("Amend failed, re-attempting: %s", error)
            self._columns.pop(table, None)  # another task may have added them
            self._add_missing(table, fields, retries - 1)
        self._columns.pop(table, None)

    def _apply(self, statements: Sequence[str]) -> None:
        """Runs statements, and commits."""
        with self.database.errors():
            connection = self.database.connection()
            try:
                for statement in statements:
                    self.database.execute(statement)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def create_statement(self, table: TableName, fields: Sequence[TargetField]) -> str:
        columns = ",\n".join(map(self._column, fields))
        keys = [item.name for item in fields if item.primary_key]
        key = f",\nPRIMARY KEY({self.database.quoting.names(keys)})" if keys else ""
        return f"CREATE TABLE {self.database.quoting.table(table)} (\n{columns}{key})"

    def alter_statements(self, table: TableName, fields: Sequence[TargetField]) -> list[str]:
        dialect, quoted = self.database.dialect, self.database.quoting.table(table)
        added = [dialect.added.format(column=self._column(item)) for item in fields]
        groups = [[item] for item in added] if dialect.adds_each else [added]
        return [dialect.adds_columns.format(table=quoted, added=",".join(group)) for group in groups]

    def _column(self, item: TargetField) -> str:
        dialect = self.database.dialect
        if item.schema.default is not None:
            default = literal(item, self.settings, dialect.module, dialect.booleans)
            end = f"DEFAULT {default}"
        else:
            end = "NULL" if item.optional else "NOT NULL"
        return f"{self.database.quoting.quote(item.name)} {self._type(item.schema, item)} {end}"

    def _type(self, schema: Schema, item: TargetField) -> str:
        types = self.database.dialect.types
        if schema.name in types:
            scale = (schema.parameters or {}).get("scale", "0")
            return types[schema.name or ""].replace("{scale}", scale)
        if (
            schema.type in (SchemaType.INT64, SchemaType.STRING)
            and item.name in self.settings.timestamp_fields
        ):
            return types[TIMESTAMP_FIELD]
        if schema.type is SchemaType.STRING and item.primary_key:
            return types[KEY_STRING]
        if (
            schema.type is SchemaType.ARRAY
            and self.database.is_postgresql
            and schema.value_schema is not None
        ):
            return f"{self._type(schema.value_schema, item)}[]"
        if schema.type not in types:
            raise ConnectException(
                f"{schema.name or 'null'} ({schema.type.name}) type doesn't have a mapping to the SQL database"
                " column type"
            )
        return types[schema.type]
