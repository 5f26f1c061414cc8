"""The source connector: it divides tables among tasks, and each task reads its tables in turn."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence

from kcli.config.definition import ConfigError
from kcli.connectors.interface import Config, Offset, Partition, SourceConnector, SourceTask
from kcli.connectors.jdbc.columns import check_columns, columns_of_table
from kcli.connectors.jdbc.database import Database, SqlException
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.positions import database_micros
from kcli.connectors.jdbc.reading import (
    QUERY_PARTITION,
    Reader,
    old_table_partition,
    table_partition,
)
from kcli.connectors.jdbc.source_keys import (
    BULK,
    CURRENT_TIME,
    SOURCE_KEYS,
    TABLES,
    TABLES_FETCHED,
    SourceSettings,
)
from kcli.connectors.jdbc.source_validation import source_errors
from kcli.connectors.jdbc.table_monitor import TableMonitor
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import ConnectException

_log = logging.getLogger("kcli.connectors.jdbc")
_POLL_S = 1.0
"""The longest wait of `poll`."""
_STOP_S = 10.0
"""How long `stop` waits for a poll to end, as engine.shutdown.timeout of Confluent's task."""


class JdbcSourceTask(SourceTask):
    """Reads tables, or a query."""

    java_class = "io.confluent.connect.jdbc.source.JdbcSourceTask"

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._busy = threading.Lock()
        self._readers: list[Reader] = []
        self._database: Database | None = None

    def start(self, config: Config) -> None:
        settings = SourceSettings.of(config)
        tables_text = config.get(TABLES, "")
        if not tables_text and settings.query is None:
            if config.get(TABLES_FETCHED) != "true":
                _log.info("Started JDBC source task. Waiting for DB tables to be fetched.")
                return
            raise ConfigError(
                "Task is being killed because it was not assigned a table nor a query to execute. If run in"
                " table mode please make sure that the tables exist on the database. If the table does exist on"
                " the database, we recommend using the fully qualified table name."
            )
        if tables_text and settings.query is not None:
            raise ConfigError(
                "Invalid configuration: a JdbcSourceTask cannot have both a table and a query assigned to it"
            )
        self._settings = settings
        self._database = database = Database(settings.connection, self._stopping)
        database.connection()
        try:
            tables: Sequence[TableName | None] = database.quoting.parse_list(tables_text) or [None]
            self._readers = [self._reader(database, table) for table in tables]
            with database.errors():
                database.connection().commit()  # an open transaction would delay changes of the tables
        except SqlException as error:
            raise ConnectException(
                f"Failed trying to validate that columns used for offsets exist: {error}"
            ) from error

    def poll(self) -> Sequence[SourceRecord] | None:
        with self._busy:
            reader = self._next_reader()
            if reader is None or self._stopping.is_set():
                return None
            try:
                records = reader.read()
            except SqlException as error:
                self._failed(reader, error)
                return None
            reader.retries = 0
            if not reader.is_open:
                reader.schedule()
            return records or None

    def stop(self) -> None:
        self._stopping.set()
        if self._busy.acquire(timeout=_STOP_S):
            try:
                for reader in self._readers:
                    reader.forget()
                if self._database is not None:
                    self._database.close()
            finally:
                self._busy.release()
        else:
            _log.warning("The database did not answer in time, so its connection remains open until it does")

    def _reader(self, database: Database, table: TableName | None) -> Reader:
        settings = self._settings
        columns = columns_of_table(settings, table)
        if table is not None:
            columns = check_columns(database, settings, table, columns)
        reader = Reader(database, settings, table, columns.timestamps, columns.number)
        if settings.mode != BULK:
            offset = self._stored_offset(table)
            if offset is not None:
                reader.restore(offset)
            else:
                reader.micros = self._initial_micros(database)
        return reader

    def _stored_offset(self, table: TableName | None) -> Offset | None:
        if table is None:
            return self.context.offsets.offset(QUERY_PARTITION)
        offsets = self.context.offsets.offsets([table_partition(table), old_table_partition(table)])
        return next((offset for offset in offsets if offset is not None), None)

    def _initial_micros(self, database: Database) -> int | None:
        initial = self._settings.values["timestamp.initial"]
        if initial is None or not self._settings.by_timestamp:
            return None
        assert isinstance(initial, int)
        if initial != CURRENT_TIME:
            return initial * 1000
        with database.errors():
            return database_micros(database, self._settings.zone)

    def _next_reader(self) -> Reader | None:
        """The reader in the midst of a statement, or the one whose time comes first. Waits for its time a while."""
        for reader in self._readers:
            if reader.is_open:
                return reader
        linger = self._settings.values["poll.linger.ms"] if self._readers else None
        wait_s = _POLL_S if not isinstance(linger, int) else min(_POLL_S, linger / 1000)
        first = min(self._readers, key=lambda reader: reader.next_read, default=None)
        if first is None:
            self._stopping.wait(wait_s)
            return None
        pause_s = first.next_read - time.monotonic()
        if pause_s > 0:
            self._stopping.wait(min(pause_s, wait_s))
        return first if pause_s <= wait_s else None

    def _failed(self, reader: Reader, error: SqlException) -> None:
        """Decides whether a statement is tried again: always after a lost connection, never after a wrong one."""
        reader.forget()
        attempts = self._settings.values["query.retry.attempts"]
        assert isinstance(attempts, int)
        reader.retries += 1
        shown = "the database has reported an error" if self._settings.query_masked else str(error)
        if not error.transient:
            raise ConnectException(f"java.sql.SQLException: {shown}") from (
                None if self._settings.query_masked else error
            )
        if 0 < attempts <= reader.retries:
            raise ConnectException("Failed to query table after retries") from error
        limit = f" of {attempts}" if attempts > 0 else ""
        _log.error(
            "SQL exception while running query for table: %s. Attempting retry %d%s attempts: %s",
            reader, reader.retries, limit, shown,
        )  # fmt: skip
        reader.schedule()


class JdbcSourceConnector(SourceConnector):
    """Copies tables or a query."""

    java_class = "io.confluent.connect.jdbc.JdbcSourceConnector"
    config_def = SOURCE_KEYS
    task_class = JdbcSourceTask
    monitors = True

    def start(self, config: Config) -> None:
        super().start(config)
        try:
            self._settings = SourceSettings.of(config)
        except ConfigError as error:
            raise ConnectException("Couldn't start JdbcSourceConnector due to configuration error") from error
        self._monitor: TableMonitor | None = None
        if self._settings.query is None:
            self._monitor = TableMonitor(self._settings, self.context)
            self._monitor.start()
        elif any(self._settings.names(key) for key in _TABLE_LISTS):
            raise ConnectException("query may not be combined with whole-table copying settings.")

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        if self._monitor is None:
            return [{**self.config, TABLES: "", TABLES_FETCHED: "true"}]
        tables = self._monitor.tables()
        if not tables:
            if tables is None:
                _log.warning(
                    "The connector has not been able to read the list of tables from the database yet."
                )
            else:
                _log.warning("No tables were found so there's no work to be done.")
            return [{**self.config, TABLES: "", TABLES_FETCHED: "false" if tables is None else "true"}]
        return [
            {**self.config, TABLES: self._monitor.quoted(group), TABLES_FETCHED: "true"}
            for group in contiguous_groups(tables, min(len(tables), max_tasks))
        ]

    def stop(self) -> None:
        monitor = getattr(self, "_monitor", None)
        if monitor is not None:
            monitor.stop()

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        return source_errors(config)

    def exactly_once_support(self, config: Config) -> bool | None:
        """The rows of timestamp mode are repeated after a restart, and a bulk read begins again."""
        return config.get("mode") in ("incrementing", "timestamp+incrementing")

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if offset is not None:
                if partition is None:
                    raise ConnectException("Partition objects cannot be null")
                _check_offset(partition, offset)
        return True


_TABLE_LISTS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")


def _check_offset(partition: Partition, offset: Offset) -> None:
    """Checks an offset that a user wants to set."""
    if "table" not in partition and partition != QUERY_PARTITION:
        raise ConnectException(
            f'Source partition {dict(partition)}: expected {{"protocol":"1","table":NAME}} or {{"query":"query"}}'
        )
    known = {"incrementing", "timestamp", "timestamp_nanos"}
    if not offset or not offset.keys() <= known or not all(_is_whole(value) for value in offset.values()):
        raise ConnectException(
            f"Source offset {dict(offset)}: expected whole numbers for some of {', '.join(sorted(known))}"
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def contiguous_groups(tables: Sequence[TableName], count: int) -> list[Sequence[TableName]]:
    """Divides tables into groups of neighbours, of which the first ones have one table more."""
    size, larger = divmod(len(tables), count)
    groups, begin = [], 0
    for number in range(count):
        end = begin + size + (number < larger)
        groups.append(tables[begin:end])
        begin = end
    return groups
