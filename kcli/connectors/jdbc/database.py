"""A connection to a database, which is opened again after an error, and the tables and columns that it shows."""

from __future__ import annotations

import importlib.util
import logging
import re
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.connectors.jdbc.common_keys import ConnectionSettings
from kcli.connectors.jdbc.dialects import MARK, Dialect, dialect_named, dialect_of
from kcli.connectors.jdbc.identifiers import Quoting, TableName
from kcli.connectors.jdbc.urls import Address, masked, parse_url
from kcli.formats.connect.errors import ConnectException, JavaException

if TYPE_CHECKING:
    from sqlalchemy import Connection, CursorResult, Engine
    from sqlalchemy.types import TypeEngine

_log = logging.getLogger("kcli.connectors.jdbc")
_IDLE_S = 5.0
"""A connection that was idle for this time is checked before its next use, as firewalls drop idle connections."""
_SYSTEM_SCHEMAS = {
    "postgresql": frozenset({"pg_catalog", "information_schema"}),
    "mysql": frozenset({"information_schema", "mysql", "performance_schema", "sys"}),
    "sqlserver": frozenset({"sys", "INFORMATION_SCHEMA", "guest"}),
    "oracle": frozenset({"SYS", "SYSTEM", "sys", "system"}),
}
_POSTGRESQL_TABLES = """
SELECT n.nspname, c.relname, c.relkind::text FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_t%'
"""
_MYSQL_TABLES = "SELECT table_schema, table_name, table_type FROM information_schema.tables"
_POSTGRESQL_KINDS = {
    "r": "TABLE", "p": "PARTITIONED TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE",
}  # fmt: skip


class SqlException(JavaException):
    """An error of a database. `transient` tells whether the same statement may succeed later."""

    def __init__(self, message: str, *, transient: bool) -> None:
        super().__init__("java.sql.SQLException", message)
        self.transient = transient


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or of a result. `type` is the SQL type in upper case, without arguments."""

    name: str
    type: str
    precision: int | None = None
    scale: int | None = None
    nullable: bool = True
    unsigned: bool = False
    auto_increment: bool = False
    primary_key: bool = False


@dataclass(slots=True)
class Database:
    """One connection at a time. A thread that uses it must be the only one, except for `stopping`."""

    settings: ConnectionSettings
    stopping: threading.Event = field(default_factory=threading.Event)
    trim_errors: bool = False
    address: Address = field(init=False)
    dialect: Dialect = field(init=False)
    quoting: Quoting = field(init=False)
    _engine: Engine | None = field(init=False, default=None, repr=False)
    _connection: Connection | None = field(init=False, default=None, repr=False)
    _last_use: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        settings = self.settings
        _require("sqlalchemy", "kcli-streaming[connect]")
        self.address = parse_url(settings.url, settings.properties)
        dialect, named = dialect_of(self.address.kind), dialect_named(settings.dialect_name)
        if dialect is None:
            raise ConnectException(f"{masked(settings.url)}: no dialect for {self.address.kind}")
        if named not in (None, dialect):
            raise ConnectException(f"{settings.dialect_name} does not fit {masked(settings.url)}")
        self.dialect = dialect
        if self.address.driver is None:
            _require(dialect.module, dialect.package)
        self.quoting = dialect.quoting(always=settings.quotes_always)
        for name in self.address.without_effect:
            _log.warning(
                "The parameter %s of %s is one of the JDBC driver, and has no effect", name, self.address
            )

    @property
    def is_sqlite(self) -> bool:
        return self.dialect.module == "sqlite3"

    @property
    def is_postgresql(self) -> bool:
        return self.dialect.module == "psycopg"

    @property
    def is_mysql(self) -> bool:
        return self.dialect.module == "pymysql"

    def connection(self) -> Connection:
        """The open connection, or a new one. Raises ConnectException after connection.attempts."""
        if self._connection is not None and not self._alive(self._connection):
            _log.info("The database connection is invalid. Reconnecting...")
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        self._last_use = time.monotonic()
        return self._connection

    def close(self) -> None:
        """Closes the connection. `connection` opens the next one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception as error:  # the server may be gone
                _log.debug("Ignoring error closing connection: %s", self.shown(error))
        if self._engine is not None:
            self._engine.dispose()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Makes an SqlException of every error of the driver."""
        from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

        try:
            yield
        except SQLAlchemyError as error:
            lost = isinstance(error, DBAPIError) and error.connection_invalidated
            transient = lost or isinstance(error, OperationalError | InterfaceError)
            raise SqlException(self.shown(error), transient=transient) from None
        except UnicodeEncodeError as error:  # half a surrogate pair in a name
            raise SqlException(f"The driver cannot encode a name: {error.reason}", transient=False) from None

    def shown(self, error: Exception) -> str:
        """The text of an error without the statement, its parameters and the password."""
        origin = getattr(error, "orig", None) or error
        text = str(origin).rstrip()
        if self.trim_errors:
            state = getattr(origin, "sqlstate", None) or (origin.args[0] if origin.args else None)
            code = (
                f" ({state})"
                if isinstance(state, int) or (isinstance(state, str) and len(state) == 5)
                else ""
            )
            text = f"{type(origin).__name__}{code}: the message is hidden because of trim.sensitive.log"
        password = self.settings.password or self.address.password
        return text.replace(password, "****") if password else text

    def execute(
        self, sql: str, parameters: Sequence[object] = (), *, stream_rows: int | None = None
    ) -> CursorResult[tuple[object, ...]]:
        """Runs a statement with `MARK` for each parameter. `stream_rows` is the size of the read buffer."""
        connection = self.connection()
        options: dict[str, object] = {"no_parameters": not parameters}
        if stream_rows is not None:
            options |= {"stream_results": True, "max_row_buffer": stream_rows}
        prepared = self.prepare(sql) if parameters else sql
        return connection.exec_driver_sql(prepared, tuple(parameters) or None, execution_options=options)

    def execute_many(self, prepared: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Runs a statement that `prepare` has made, once for each row."""
        self.connection().exec_driver_sql(prepared, list(rows))

    def prepare(self, sql: str) -> str:
        """Writes the placeholders of the driver."""
        style = self._started().dialect.paramstyle
        if style in ("format", "pyformat"):
            return sql.replace("%", "%%").replace(MARK, "%s")
        if style == "qmark":
            return sql.replace(MARK, "?")
        numbers = iter(range(1, sql.count(MARK) + 1))
        return re.sub(MARK, lambda mark: f":{next(numbers)}", sql)

    def table_names(
        self, types: Sequence[str], catalog_pattern: str | None = None, schema_pattern: str | None = None
    ) -> list[TableName]:
        """The tables and views of these types, in the order of their names."""
        with self.errors(), _no_warnings():
            if self.is_postgresql:
                rows = self._postgresql_tables()
            elif self.is_mysql:
                rows = self._mysql_tables()
            else:
                rows = self._inspected_tables()
            self.connection().commit()
        wanted = {name.upper() for name in types}
        found = [
            table
            for catalog, table, kind in rows
            if kind in wanted
            and _like(catalog_pattern, catalog)
            and _like(schema_pattern, table.schema or "")
        ]
        return sorted(found, key=lambda table: table.parts)

    def columns(self, table: TableName) -> list[Column]:
        """The columns of a table or view. Empty if there is no such table."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import NoSuchTableError

        schema = self._schema_of(table)
        with self.errors(), _no_warnings():
            try:
                inspector = inspect(self.connection())
                described = inspector.get_columns(table.name, schema)
                keys = inspector.get_pk_constraint(table.name, schema).get("constrained_columns") or []
            except NoSuchTableError:
                return []
        return [self._column(column, keys) for column in described]

    def table_type(self, table: TableName) -> str:
        """TABLE, VIEW or PARTITIONED TABLE."""
        from sqlalchemy import inspect

        with self.errors(), _no_warnings():
            if self.is_postgresql:
                kinds = [
                    kind
                    for _, other, kind in self._postgresql_tables()
                    if other.name == table.name and table.schema in (None, other.schema)
                ]
                return kinds[0] if kinds else "TABLE"
            views = inspect(self.connection()).get_view_names(self._schema_of(table))
        return "VIEW" if table.name in views else "TABLE"

    def default_names(self) -> tuple[str | None, str | None]:
        """The catalog and the schema of a table name without these parts."""
        if self.is_sqlite:
            return None, None
        with self.errors():
            schema = self.connection().dialect.default_schema_name
        if self.is_mysql:
            return self.address.database or schema, None
        return (self.address.database or None) if self.is_postgresql else None, schema

    def _postgresql_tables(self) -> list[tuple[str, TableName, str]]:
        catalog = self.address.database
        rows = self.execute(_POSTGRESQL_TABLES).fetchall()
        system = _SYSTEM_SCHEMAS["postgresql"]
        return [
            (catalog, TableName(None, str(schema), str(name)),
             f"{'SYSTEM ' if schema in system else ''}{_POSTGRESQL_KINDS[str(kind)]}")
            for schema, name, kind in rows
        ]  # fmt: skip

    def _mysql_tables(self) -> list[tuple[str, TableName, str]]:
        """One statement for all databases, so that a database that disappears meanwhile is no error."""
        rows = self.execute(_MYSQL_TABLES).fetchall()
        system = _SYSTEM_SCHEMAS["mysql"]
        return [
            (str(catalog), TableName(str(catalog), None, str(name)), str(kind).removeprefix("BASE "))
            for catalog, name, kind in rows
            if catalog not in system
        ]

    def _inspected_tables(self) -> list[tuple[str, TableName, str]]:
        from sqlalchemy import inspect

        inspector = inspect(self.connection())
        schemas: list[str | None] = [None]
        if not self.is_sqlite:
            system = _SYSTEM_SCHEMAS.get(self.address.kind, frozenset())
            schemas = [name for name in inspector.get_schema_names() if name not in system]
        rows = []
        for schema in schemas:
            for kind, names in (
                ("TABLE", inspector.get_table_names(schema)),
                ("VIEW", inspector.get_view_names(schema)),
            ):
                rows += [(self.address.database, TableName(None, schema, name), kind) for name in names]
        return rows

    def _schema_of(self, table: TableName) -> str | None:
        """The schema as SQLAlchemy counts it: the database in MySQL, both parts in SQL Server."""
        if self.is_mysql:
            return table.schema or table.catalog
        if self.dialect.engine.startswith("mssql") and table.catalog:
            return f"{table.catalog}.{table.schema or 'dbo'}"
        return table.schema

    def _column(self, column: Mapping[str, object], keys: Sequence[str]) -> Column:
        kind = column["type"]
        name = str(column["name"])
        auto = column.get("autoincrement") is True or bool(column.get("identity"))
        if self.is_mysql:
            name = name.replace("``", "`")  # SQLAlchemy returns the name as SHOW CREATE TABLE quotes it
        if self.is_sqlite:
            auto = keys == [name] and sql_type(kind) == "INTEGER"
        if self.is_postgresql:
            auto = auto or str(column.get("default") or "").startswith("nextval(")
        return typed_column(
            name, kind, nullable=bool(column["nullable"]) and name not in keys,
            auto_increment=auto, primary_key=name in keys,
        )  # fmt: skip

    def _alive(self, connection: Connection) -> bool:
        from sqlalchemy.exc import SQLAlchemyError

        if connection.closed or connection.invalidated:
            return False
        if time.monotonic() - self._last_use < _IDLE_S or connection.in_transaction():
            return True
        try:
            connection.exec_driver_sql(self.dialect.now).close()
            connection.commit()
        except SQLAlchemyError:
            return False
        return True

    def _connect(self) -> Connection:
        from sqlalchemy.exc import SQLAlchemyError

        for attempt in range(1, self.settings.attempts + 1):
            try:
                connection = self._started().connect()
                self._set_isolation(connection)
                return connection
            except ImportError as error:
                raise ConnectException(
                    f"The Python module {error.name} of the driver is missing. Install it, or leave the driver out of"
                    " the URL"
                ) from None
            except (TypeError, ValueError) as error:
                raise ConnectException(
                    f"{self.address}: the driver refuses an option: {self.shown(error)}"
                ) from None
            except SQLAlchemyError as error:
                shown = self.shown(error)
                if attempt == self.settings.attempts or self.stopping.is_set():
                    cause = SqlException(shown, transient=True)
                    raise ConnectException(f"java.sql.SQLException: {shown}") from cause
                _log.info(
                    "Unable to connect to %s on attempt %d/%d. Will retry in %d ms: %s",
                    self.address, attempt, self.settings.attempts, self.settings.backoff_ms, shown,
                )  # fmt: skip
                self.stopping.wait(self.settings.backoff_ms / 1000)
        raise AssertionError("connection.attempts is at least 1")

    def _started(self) -> Engine:
        if self._engine is None:
            from kcli.connectors.jdbc.engines import new_engine

            self._engine = new_engine(self.address, self.settings, self.dialect)
        return self._engine

    def _set_isolation(self, connection: Connection) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        mode = self.settings.isolation.upper()
        if mode == "DEFAULT":
            return
        level = "SNAPSHOT" if mode == "SQL_SERVER_SNAPSHOT" else mode.replace("_", " ")
        try:
            connection.execution_options(isolation_level=level)
        except SQLAlchemyError as error:
            _log.warning("Unable to set transaction.isolation.mode: %s. %s", mode, self.shown(error))


def typed_column(
    name: str, kind: object, *, nullable: bool, auto_increment: bool = False, primary_key: bool = False
) -> Column:
    """A column of a type of SQLAlchemy."""
    inner: TypeEngine[object] | None = getattr(kind, "data_type", None)  # the type of a domain
    kind = inner if inner is not None else kind
    precision, scale = getattr(kind, "precision", None), getattr(kind, "scale", None)
    length = getattr(kind, "length", None)
    return Column(
        name, sql_type(kind), length if precision is None else precision, scale, nullable,
        bool(getattr(kind, "unsigned", False)), auto_increment, primary_key,
    )  # fmt: skip


def sql_type(kind: object) -> str:
    return type(kind).__name__.upper()


def _like(pattern: str | None, name: str) -> bool:
    """Whether a name matches a pattern of JDBC, with % and _. An empty pattern matches only an empty name."""
    if pattern is None:
        return True
    expression = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _require(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ConnectException(f"The Python module {module} is missing. Install it: pip install '{package}'")


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Hides the warnings of SQLAlchemy about types that it does not know, because the connectors report them."""
    from sqlalchemy.exc import SAWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)
        yield
