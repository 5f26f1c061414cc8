"""Writes records to tables: in runs of records with equal schemas, each with one statement for many rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from kcli.connectors.jdbc.binding import Bind, compile_binding
from kcli.connectors.jdbc.database import Database
from kcli.connectors.jdbc.dialects import delete, insert, update
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.sink_keys import UPDATE, UPSERT, SinkSettings
from kcli.connectors.jdbc.target_fields import TargetFields, check_record, target_fields
from kcli.connectors.jdbc.target_tables import TargetTables
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.schema import Schema

_log = logging.getLogger("kcli.connectors.jdbc")
_STATEMENTS_MAX = 1000
"""The most statements to keep. A topic with more schemas than this compiles some of them again."""
_POSTGRESQL_NAME_BYTES = 63


@dataclass(frozen=True, slots=True)
class _Statement:
    prepared: str
    bind: Bind


_Key = tuple[TableName, Schema | None, Schema | None]


@dataclass(slots=True)
class Writer:
    database: Database
    settings: SinkSettings
    _tables: TargetTables = field(init=False)
    _names: dict[str, TableName] = field(init=False, default_factory=dict)
    _statements: dict[_Key, _Statement] = field(init=False, default_factory=dict)
    _deletes: dict[_Key, _Statement] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._tables = TargetTables(self.database, self.settings)

    def write(self, records: Sequence[SinkRecord]) -> None:
        """Writes all records in one transaction.

        Raises SqlException or TableAlterOrCreateException, after which no record is written. Raises ConnectException
        for a record that does not fit the configuration.
        """
        connection = self.database.connection()
        try:
            for topic, of_topic in _by_topic(records).items():
                table = self._table(topic)
                for record in of_topic:
                    check_record(self.settings, record)
                for run in _runs(of_topic):
                    self._write_run(table, run)
            with self.database.errors():
                connection.commit()
        except BaseException:
            self._roll_back()
            raise

    def close(self) -> None:
        self._statements.clear()
        self._deletes.clear()
        self._tables = TargetTables(self.database, self.settings)
        self.database.close()

    def _roll_back(self) -> None:
        try:
            with self.database.errors():
                self.database.connection().rollback()
        except Exception as error:
            _log.error("Failed to rollback transaction: %s", error)

    def _write_run(self, table: TableName, run: Sequence[SinkRecord]) -> None:
        first = run[0]
        key = (table, first.key_schema, first.value_schema)
        if first.value is None:
            if self.settings.auto_create and not self._tables.exists(table):
                return  # a table that does not exist has no row to delete
            statement = self._deletes.get(key) or self._new_delete(key)
        else:
            statement = self._statements.get(key) or self._new_statement(key)
        with self.database.errors():
            for begin in range(0, len(run), self.settings.batch_size):
                rows = statement.bind(run[begin : begin + self.settings.batch_size])
                self.database.execute_many(statement.prepared, rows)

    def _new_statement(self, key: _Key) -> _Statement:
        table, key_schema, value_schema = key
        fields = target_fields(self.settings, table.name, key_schema, value_schema)
        bind = compile_binding(
            self.settings, self.database.dialect.module, fields, key_schema, value_schema,
            keys_last=self.settings.insert_mode == UPDATE,
        )  # fmt: skip
        self._tables.prepare(table, fields)
        statement = _Statement(self.database.prepare(self._sql(table, fields)), bind)
        return _kept(self._statements, key, statement)

    def _new_delete(self, key: _Key) -> _Statement:
        table, key_schema, _ = key
        fields = target_fields(self.settings, table.name, key_schema, None)
        if not fields.keys:
            raise ConnectException("Require primary keys to support delete")
        self._tables.prepare(table, fields)
        bind = compile_binding(
            self.settings, self.database.dialect.module, fields, key_schema, None, only_keys=True
        )
        quoting = self.database.quoting
        sql = delete(quoting.table(table), [quoting.quote(item.name) for item in fields.keys])
        return _kept(self._deletes, key, _Statement(self.database.prepare(sql), bind))

    def _sql(self, table: TableName, fields: TargetFields) -> str:
        quoting, dialect = self.database.quoting, self.database.dialect
        quoted = quoting.table(table)
        keys = [quoting.quote(item.name) for item in fields.keys]
        others = [quoting.quote(item.name) for item in fields.others]
        if self.settings.insert_mode == UPDATE:
            return update(quoted, keys, others)
        if self.settings.insert_mode != UPSERT:
            return insert(quoted, keys, others)
        if not keys:
            raise ConnectException(
                f"Write to table '{table}' in UPSERT mode requires key field names to be known, check the primary"
                " key configuration"
            )
        sql = dialect.upsert(quoted, keys, others)
        return sql if self.settings.holds_lock else sql.replace(" with (HOLDLOCK)", "", 1)

    def _table(self, topic: str) -> TableName:
        table = self._names.get(topic)
        if table is None:
            table = self._names[topic] = self._new_table(topic)
        return table

    def _new_table(self, topic: str) -> TableName:
        text = self.settings.table_format.replace("${topic}", topic)
        if not text:
            raise ConnectException(
                f"Destination table name for topic '{topic}' is empty using the format string"
                f" '{self.settings.table_format}'"
            )
        parsed = self.database.quoting.parse(text)
        catalog, schema = self.database.default_names()
        name = parsed.name
        if self.database.is_postgresql:
            name = name.encode()[:_POSTGRESQL_NAME_BYTES].decode(errors="ignore")
            name = name if self.database.quoting.always else name.lower()
        if self.database.is_mysql:
            return TableName(parsed.schema or catalog, None, name)
        return TableName(parsed.catalog or catalog, parsed.schema or schema, name)


def _kept(statements: dict[_Key, _Statement], key: _Key, statement: _Statement) -> _Statement:
    if len(statements) >= _STATEMENTS_MAX:
        statements.clear()
    statements[key] = statement
    return statement


def _by_topic(records: Sequence[SinkRecord]) -> dict[str, list[SinkRecord]]:
    by_topic: dict[str, list[SinkRecord]] = {}
    for record in records:
        by_topic.setdefault(record.topic, []).append(record)
    return by_topic


def _runs(records: Sequence[SinkRecord]) -> Iterator[list[SinkRecord]]:
    """Neighbours with equal schemas, of which either all or none have a value, so that their order remains."""
    for _, run in groupby(
        records, key=lambda record: (record.value is None, record.key_schema, record.value_schema)
    ):
        yield list(run)
