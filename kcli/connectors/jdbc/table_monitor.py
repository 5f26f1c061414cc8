"""A thread that looks for new and removed tables, and the choice of the tables to copy."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence

from kcli.connectors.interface import ConnectorContext
from kcli.connectors.jdbc.database import Database, SqlException
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.source_keys import SourceSettings
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_regex import compile_java
from kcli.model.java_text import trim

_log = logging.getLogger("kcli.connectors.jdbc")
_STOP_S = 10.0
_FIRST_PAUSE_S = 1.0


class TableMonitor:
    """Reads the list of tables every table.poll.interval.ms, on a connection of its own."""

    def __init__(self, settings: SourceSettings, context: ConnectorContext) -> None:
        self._settings = settings
        self._context = context
        self._stopping = threading.Event()
        self._first = threading.Event()
        self._database = Database(settings.connection, self._stopping)
        self._tables: list[TableName] | None = None
        self._answered = False
        self._thread = threading.Thread(target=self._run, name="jdbc-table-monitor", daemon=True)

    def start(self) -> None:
        """Connects, and begins to look. Raises ConnectException if the database is not reachable."""
        self._database.connection()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            self._database.close()

    def quoted(self, tables: Sequence[TableName]) -> str:
        """Tables as one text, as in the configuration of a task."""
        return ",".join(map(self._database.quoting.table, tables))

    def tables(self) -> list[TableName] | None:
        """The tables to copy. None if no list could be read yet. Raises ConnectException for equal names."""
        self._first.wait(self._settings.first_tables_s)
        tables = self._tables
        self._answered = True
        if tables is not None:
            self._check_names(tables)
        return tables

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                changed = self._update()
                # Before the first answer, the worker waits for the list anyway.
                if changed and self._answered:
                    self._context.request_task_reconfiguration()
                self._stopping.wait(self._pause_s)
        except Exception as error:
            message = "Encountered an unrecoverable error while reading tables from the database"
            _log.error("%s: %s", message, self._database.shown(error))
            failure = ConnectException(message)
            failure.__cause__ = error
            self._context.raise_error(failure)

    @property
    def _pause_s(self) -> float:
        """The pause before the next look. Without a first list, no table is copied, so the pause is short."""
        usual = self._settings.table_poll_interval_s
        return usual if self._tables is not None else min(usual, _FIRST_PAUSE_S)

    def _update(self) -> bool:
        """Reads the list. Returns whether it has changed."""
        text = self._settings.values
        catalog, schema = text["catalog.pattern"], text["schema.pattern"]
        assert isinstance(catalog, str | None) and isinstance(schema, str | None)
        try:
            found = self._database.table_names(self._settings.names("table.types"), catalog, schema)
        except SqlException as error:
            _log.error(
                "Error while trying to get updated table list, ignoring and waiting for next table poll"
                " interval: %s", error,
            )  # fmt: skip
            self._database.close()
            return False
        chosen = list(filter(table_choice(self._settings, self._database), found))
        tables = in_own_catalog(chosen, self._database.default_names()[0])
        changed = tables != self._tables
        self._tables = tables
        self._first.set()
        if changed:
            _log.info("Found %d tables to copy", len(tables))
        return changed

    def _check_names(self, tables: Sequence[TableName]) -> None:
        doubles = [same for same in _by_name(tables).values() if len(same) > 1]
        if not doubles:
            return
        keys = [key for key in ("table.whitelist", "table.blacklist") if self._settings.names(key)]
        key = f"'{keys[0]}'" if keys else "'table.whitelist' or 'table.blacklist'"
        raise ConnectException(
            "The connector uses the unqualified table name as the topic name and has detected duplicate"
            f" unqualified table names. Change the connector's {key} config so that it has only one of the"
            f" tables of each of these lists: {'; '.join(', '.join(map(str, same)) for same in doubles)}"
        )


def table_choice(settings: SourceSettings, database: Database) -> Callable[[TableName], bool]:
    """A function that tells whether to copy a table."""
    included, excluded = (
        [compile_java(trim(item)) for item in settings.names(key)]
        for key in ("table.include.list", "table.exclude.list")
    )
    if included or excluded:
        return lambda table: _matches(included, table) and not _matches(excluded, table)
    whitelist, blacklist = settings.names("table.whitelist"), settings.names("table.blacklist")
    always = database.dialect.quoting(always=True)

    def names(table: TableName) -> set[str]:
        return {table.unquoted, always.table(table), table.name}

    if whitelist:
        return lambda table: not names(table).isdisjoint(whitelist)
    return lambda table: names(table).isdisjoint(blacklist)


def in_own_catalog(tables: Sequence[TableName], own: str | None) -> list[TableName]:
    """The tables without those of other catalogs that have the name of a table of the connection's own catalog.

    A server of MySQL shows the tables of all its databases, of which the URL names one.
    """
    own_names = {table.name for table in tables if table.catalog == own}
    return [table for table in tables if table.catalog == own or table.name not in own_names]


def _by_name(tables: Sequence[TableName]) -> dict[str, list[TableName]]:
    by_name: dict[str, list[TableName]] = {}
    for table in tables:
        by_name.setdefault(table.name, []).append(table)
    return by_name


def _matches(expressions: Sequence[re.Pattern[str]], table: TableName) -> bool:
    return any(expression.fullmatch(table.unquoted) for expression in expressions)
