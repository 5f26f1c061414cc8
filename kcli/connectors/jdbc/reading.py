"""Reads a table or a query: its statement, its position, and its records.

A reader starts a statement when its time has come, and returns the rows batch by batch. The position is part of each
record, so it moves only as far as the worker has stored the records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from kcli.connectors.jdbc.database import Column, Database, SqlException
from kcli.connectors.jdbc.dialects import MARK
from kcli.connectors.jdbc.field_types import TIMESTAMP_TYPES, fields_of, micros_reader, refined
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.moments import micros_of, offset_of
from kcli.connectors.jdbc.positions import Bounds, timestamp_bounds
from kcli.connectors.jdbc.results import query_columns
from kcli.connectors.jdbc.rows import MakeStructs, Row, compile_rows, row_schema
from kcli.connectors.jdbc.source_keys import BULK, TIMESTAMP, SourceSettings
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import DECIMAL, Schema
from kcli.model.java_text import LONG_MAX

if TYPE_CHECKING:
    from sqlalchemy import CursorResult

_log = logging.getLogger("kcli.connectors.jdbc")
QUERY_PARTITION: Mapping[str, object] = {"query": "query"}


def table_partition(table: TableName) -> Mapping[str, object]:
    """The source partition of a table, in the form of protocol 1."""
    return {"protocol": "1", "table": table.unquoted}


def old_table_partition(table: TableName) -> Mapping[str, object]:
    """The form of protocol 0, under which older versions of Confluent's connector stored offsets."""
    return {"table": table.name}


@dataclass(slots=True)
class _Result:
    """An open result."""

    rows: CursorResult[tuple[object, ...]]
    columns: list[Column]
    schema: Schema
    make: MakeStructs
    timestamp_at: tuple[int, ...]
    """The positions of the timestamp columns in a row."""
    number_at: int | None
    pending: list[Row] = field(default_factory=list)
    """The last row, whose successor decides about its offset (mode timestamp)."""


@dataclass(slots=True)
class Reader:
    """A table, or a query if `table` is None, with its position."""

    database: Database
    settings: SourceSettings
    table: TableName | None
    timestamp_columns: tuple[str, ...] = ()
    number_column: str | None = None
    """The incrementing column."""
    micros: int | None = None
    number: int | None = None
    next_read: float = 0.0
    retries: int = 0
    _columns: list[Column] = field(default_factory=list)
    _described: list[tuple[str, object]] | None = None
    _columns_until: float = 0.0
    _result: _Result | None = None
    _logged: bool = False
    _left_out: set[Column] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        return self._result is not None

    def __str__(self) -> str:
        return str(self.table) if self.table is not None else "the query"

    def restore(self, offset: Mapping[str, object]) -> None:
        """Begins at a stored offset."""
        number = offset.get("incrementing")
        if not isinstance(number, int | None):
            raise ConnectException(f"Invalid incrementing value in the stored offset {dict(offset)}")
        self.number, self.micros = number, micros_of(dict(offset))

    def read(self) -> list[SourceRecord]:
        """The next batch. `is_open` tells whether more rows may follow. Raises SqlException."""
        size = self.settings.batch_rows
        with self.database.errors():
            rows: list[Row] = []
            ended = False
            while not (rows or ended):
                fetched = list(self._result.rows.fetchmany(size)) if self._result else self._open(size)
                ended = len(fetched) < size
                assert self._result is not None, "`_open` sets it"
                rows = [*self._result.pending, *fetched]
                held_back = self.settings.mode == TIMESTAMP and not ended
                self._result.pending = [rows.pop()] if held_back else []
            records = self._records(rows) if rows else []
        if ended:
            self._end()
        return records

    def close(self) -> None:
        """Ends the statement, and frees the locks of its transaction."""
        result, self._result = self._result, None
        if result is not None:
            result.rows.close()
            self.database.connection().commit()

    def _end(self) -> None:
        """Closes a result that was read to its end. An error must not lose its last records, so it is only logged."""
        try:
            with self.database.errors():
                self.close()
        except SqlException as error:
            _log.warning("Error while committing read transaction: %s", error)
            self.forget()

    def forget(self) -> None:
        """Drops the statement after an error: the connection may be unusable."""
        if self._result is not None:
            _close_quietly(self._result.rows)
        self._result = self._described = None
        self._columns_until = 0.0
        self.database.close()

    def schedule(self) -> None:
        self.next_read = time.monotonic() + self.settings.poll_interval_s

    def _open(self, size: int) -> list[Row]:
        """Starts the statement, and returns its first batch."""
        if self._inspects and time.monotonic() > self._columns_until:
            self._inspect()  # first, because some drivers run no second statement beside an open result
        rows = self._execute(size)
        if self._inspects and self._described not in (None, _description(rows)):
            rows.close()
            self._inspect()
            rows = self._execute(size)
        try:
            return self._begin(rows, size)
        except BaseException:
            _close_quietly(rows)
            raise

    def _begin(self, rows: CursorResult[tuple[object, ...]], size: int) -> list[Row]:
        """Finds the types of a result, and returns its first batch."""
        self._described = described = _description(rows)
        columns = self._columns_of(rows, [name for name, _ in described])
        batch: list[Row] = list(rows.fetchmany(size))
        if self.database.is_sqlite:
            columns = refined(columns, batch)
        self._result = self._new_result(rows, columns)
        return batch

    @property
    def _inspects(self) -> bool:
        """Whether the columns come from the catalog of the database, and not from the result."""
        return self.table is not None and not self.database.is_mysql

    def _inspect(self) -> None:
        assert self.table is not None, "only tables are inspected"
        self._columns = self.database.columns(self.table)
        self._columns_until = time.monotonic() + self.settings.table_poll_interval_s

    def _execute(self, size: int) -> CursorResult[tuple[object, ...]]:
        sql, parameters = self._statement()
        buffered = self.settings.values["max.buffer.size"] or size
        assert isinstance(buffered, int)
        if not self._logged:
            shown = "a masked query" if self.settings.query_masked else sql.replace(MARK, "?")
            _log.info("Begin using SQL query: %s", shown)
            self._logged = True
        return self.database.execute(sql, parameters, stream_rows=buffered)

    def _columns_of(self, rows: CursorResult[tuple[object, ...]], names: Sequence[str]) -> list[Column]:
        if not self._inspects:
            query = "" if self.table is not None else self.settings.query or ""
            return query_columns(self.database, query, rows)
        by_name = {column.name: column for column in self._columns}
        if not by_name.keys() >= set(names):
            raise SqlException(f"The columns of {self} have just changed", transient=True)
        return [by_name[name] for name in names]

    def _new_result(self, rows: CursorResult[tuple[object, ...]], columns: list[Column]) -> _Result:
        fields = fields_of(columns, self.settings, self.database.dialect.module)
        known = {field.column for field in fields} | self._left_out
        for column in (column for column in columns if column not in known):
            self._left_out.add(column)  # so that not each poll logs it
            _log.warning(
                "The type %s of column %s is not supported: records are without it", column.type, column.name
            )
        schema = row_schema(self.table.name if self.table is not None else None, fields)
        number_at = None
        if self.number_column is not None:
            number_at = _position(self.number_column, columns, "Incrementing")
            self._check_number(schema, columns[number_at].name)
        timestamp_at = tuple(_position(name, columns, "Timestamp") for name in self.timestamp_columns)
        if not self.database.is_sqlite:
            _check_timestamps([columns[position] for position in timestamp_at])
        return _Result(rows, columns, schema, compile_rows(schema, fields), timestamp_at, number_at)

    def _check_number(self, schema: Schema, name: str) -> None:
        column = schema.field(name)
        if column is None:
            raise DataException(f"Incrementing column {name} not found in {','.join(schema.positions)}")
        kind = column.schema
        if kind.name == DECIMAL:
            if kind.parameters is not None and kind.parameters["scale"] != "0":
                raise ConnectException("Scale of Decimal value for incrementing column must be 0")
        elif kind.name is not None or kind.type not in ("int8", "int16", "int32", "int64"):
            raise ConnectException(f"Invalid type for incrementing column: {kind.type.name}")

    def _statement(self) -> tuple[str, list[object]]:
        """The SELECT statement with its parameters."""
        if self.table is None:
            assert self.settings.query is not None, "a reader has a table or a query"
            sql = self.settings.query
        else:
            sql = f"SELECT * FROM {self.database.quoting.table(self.table)}"
        condition, parameters = self._condition()
        suffix = f" {self.settings.suffix}" if self.settings.suffix else ""
        return f"{sql}{condition}{suffix}", parameters

    def _condition(self) -> tuple[str, list[object]]:
        if self.settings.mode == BULK:
            return "", []
        quoting = self.database.quoting
        moment = quoting.names(self.timestamp_columns)
        if len(self.timestamp_columns) > 1:
            moment = f"COALESCE({moment})"
        number = None if self.number_column is None else quoting.quote(self.number_column)
        last = -1 if self.number is None else self.number
        if not moment:
            if number is None:
                return "", []
            return f" WHERE {number} > {MARK} ORDER BY {number} ASC", [last]
        bounds = self._bounds()
        if number is None:
            condition = f" WHERE {moment} > {MARK} AND {moment} < {MARK} ORDER BY {moment} ASC"
            return condition, [bounds.begin, bounds.end]
        condition = (
            f" WHERE {moment} < {MARK} AND (({moment} = {MARK} AND {number} > {MARK}) OR {moment} > {MARK})"
            f" ORDER BY {moment},{number} ASC"
        )
        return condition, [bounds.end, bounds.begin, last, bounds.begin]

    def _bounds(self) -> Bounds:
        delay = self.settings.values["timestamp.delay.interval.ms"]
        assert isinstance(delay, int)
        return timestamp_bounds(
            self.database, self.settings, self.table, self.timestamp_columns, self.micros or 0, delay
        )

    def _records(self, rows: list[Row]) -> list[SourceRecord]:
        if self.database.is_sqlite:
            self._widen(rows)
        result = self._result
        assert result is not None, "`read` has opened it"
        topic = self.settings.topic_prefix + (self.table.name if self.table is not None else "")
        structs, schema = result.make(rows), result.schema
        if self.settings.mode == BULK:
            partition = QUERY_PARTITION if self.table is None else old_table_partition(self.table)
            return [SourceRecord(partition, None, topic, struct, schema) for struct in structs]
        partition = QUERY_PARTITION if self.table is None else table_partition(self.table)
        offsets = self._offsets(rows, result)
        return [
            SourceRecord(partition, offset, topic, struct, schema)
            for struct, offset in zip(structs, offsets, strict=True)
        ]

    def _widen(self, rows: list[Row]) -> None:
        """A later row of SQLite may have a larger number than the first rows, which needs another schema."""
        result = self._result
        assert result is not None
        columns = refined(result.columns, rows)
        if columns != result.columns:
            pending = result.pending
            self._result = self._new_result(result.rows, columns)
            self._result.pending = pending

    def _offsets(self, rows: list[Row], result: _Result) -> list[Mapping[str, object]]:
        """The offset of each row. Moves the position of the reader behind the last row."""
        numbers: Sequence[int] = ()
        if result.number_at is not None:
            numbers = [self._number_of(row[result.number_at], result) for row in rows]
            self.number = numbers[-1]
        if not result.timestamp_at:
            return [{"incrementing": number} for number in numbers] if numbers else [{}] * len(rows)
        moment = self._moment_reader(result)
        moments = [moment(row) for row in rows]
        if numbers:
            self.micros = moments[-1]
            return [
                {"incrementing": number, **(offset_of(micros) if micros is not None else {})}
                for number, micros in zip(numbers, moments, strict=True)
            ]
        return self._offsets_by_timestamp(moments, moment(result.pending[0]) if result.pending else None)

    def _offsets_by_timestamp(
        self, moments: Sequence[int | None], following: int | None
    ) -> list[Mapping[str, object]]:
        """A timestamp is stored only with its last row, so that a restart repeats rows but loses none."""
        offsets: list[Mapping[str, object]] = []
        for micros, successor in zip(moments, [*moments[1:], following], strict=True):
            if micros is not None and (successor is None or micros < successor):
                self.micros = micros
            offsets.append({} if self.micros is None else offset_of(self.micros))
        return offsets

    def _moment_reader(self, result: _Result) -> Callable[[Row], int | None]:
        micros = micros_reader(self.settings.zone, self.database.dialect.module)

        def moment(row: Row) -> int | None:
            for position in result.timestamp_at:
                value = row[position]
                if value is not None:
                    return micros(value)
            return None

        return moment

    def _number_of(self, value: object, result: _Result) -> int:
        if isinstance(value, int):
            return value
        assert result.number_at is not None
        if value is None:
            kind = result.schema.field(result.columns[result.number_at].name)
            assert kind is not None
            raise ConnectException(f"Null value for incrementing column of type: {kind.schema.type.name}")
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if number > LONG_MAX:
            raise ConnectException("Decimal value for incrementing column exceeded Long.MAX_VALUE")
        return int(number + 0)


def _close_quietly(rows: CursorResult[tuple[object, ...]]) -> None:
    """Closes a result after an error, of which its connection may be the cause."""
    with suppress(Exception):
        rows.close()


def _description(rows: CursorResult[tuple[object, ...]]) -> list[tuple[str, object]]:
    """The names and the driver's types of the columns of a result."""
    assert rows.cursor is not None, "a SELECT statement has a cursor"
    return [(str(item[0]), item[1]) for item in rows.cursor.description]


def _check_timestamps(columns: Sequence[Column]) -> None:
    for column in columns:
        if column.type not in TIMESTAMP_TYPES:
            raise ConnectException(
                f"Timestamp column {column.name} has the type {column.type}: expected a date with a time"
            )


def _position(name: str, columns: Sequence[Column], kind: str) -> int:
    """The position of a column by its name, or by its name in another case if only one column has it."""
    names = [column.name for column in columns]
    if name in names:
        return names.index(name)
    similar = [number for number, other in enumerate(names) if other.lower() == name.lower()]
    if len(similar) == 1:
        return similar[0]
    if similar:
        raise DataException(
            f"{kind} column {name} not found in columns read from database: {','.join(names)}."
            f" More than one column matches it if the case is ignored:"
            f" {','.join(names[number] for number in similar)}. Write the name in the case of the column"
        )
    raise DataException(f"{kind} column {name} not found in {','.join(names)}")
