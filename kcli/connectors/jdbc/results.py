"""The columns of the result of a query, from what the driver tells about the result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kcli.connectors.jdbc.database import Column, Database
from kcli.connectors.jdbc.identifiers import TableName
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import natural

if TYPE_CHECKING:
    from sqlalchemy import CursorResult

_VIEW = "kcli_connect_query"
_ARGUMENTS = re.compile(r"\(([0-9]+)(?:,([0-9]+))?\)")
_POSTGRESQL_COLUMNS = """
SELECT pg_catalog.format_type(x.kind, x.modifier), t.typtype::text,
  (SELECT NOT a.attnotnull FROM pg_catalog.pg_attribute a WHERE a.attrelid = x.origin AND a.attnum = x.number)
FROM unnest(%s::oid[], %s::int[], %s::oid[], %s::int[])
  WITH ORDINALITY AS x(kind, modifier, origin, number, position)
JOIN pg_catalog.pg_type t ON t.oid = x.kind ORDER BY x.position
"""
_POSTGRESQL_NAMES = {
    "character varying": "VARCHAR", "character": "CHAR", '"char"': "CHAR", "name": "VARCHAR",
    "double precision": "DOUBLE_PRECISION", "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMP", "time without time zone": "TIME", "time with time zone": "TIME",
}  # fmt: skip
_MYSQL_NAMES = {
    0: "DECIMAL", 1: "TINYINT", 2: "SMALLINT", 3: "INTEGER", 4: "FLOAT", 5: "DOUBLE", 7: "TIMESTAMP",
    8: "BIGINT", 9: "MEDIUMINT", 10: "DATE", 11: "TIME", 12: "DATETIME", 13: "YEAR", 15: "VARCHAR", 16: "BIT",
    245: "JSON", 246: "DECIMAL", 247: "ENUM", 248: "SET", 249: "TEXT", 250: "TEXT", 251: "TEXT", 252: "TEXT",
    253: "VARCHAR", 254: "CHAR",
}  # fmt: skip
"""The types of MySQL's protocol. A text type with the character set `binary` is a type of bytes."""
_MYSQL_BINARY_SET, _MYSQL_NOT_NULL, _MYSQL_UNSIGNED = 63, 1, 32


def query_columns(database: Database, query: str, result: CursorResult[tuple[object, ...]]) -> list[Column]:
    """The columns of an open result. Raises ConnectException for a database whose driver does not tell them."""
    if database.is_postgresql:
        return _postgresql_columns(database, result)
    if database.is_mysql:
        return _mysql_columns(result)
    if database.is_sqlite:
        return _sqlite_columns(database, query)
    raise ConnectException(
        f"query is not supported with the {database.dialect.name} dialect. Make a view of the query, and copy"
        " it with table.types=VIEW and table.whitelist"
    )


def _postgresql_columns(database: Database, result: CursorResult[tuple[object, ...]]) -> list[Column]:
    cursor = result.cursor
    assert cursor is not None, "a SELECT statement has a cursor"
    described = cursor.pgresult
    numbers = range(described.nfields)
    parameters = tuple(
        [ask(number) for number in numbers]
        for ask in (described.ftype, described.fmod, described.ftable, described.ftablecol)
    )
    rows = database.connection().exec_driver_sql(_POSTGRESQL_COLUMNS, parameters).fetchall()
    return [
        _postgresql_column(column.name, str(kind), enum == "e", nullable is not False)
        for column, (kind, enum, nullable) in zip(cursor.description, rows, strict=True)
    ]


def _postgresql_column(name: str, kind: str, is_enum: bool, nullable: bool) -> Column:
    if kind.endswith("[]"):
        return Column(name, "ARRAY")
    arguments = _ARGUMENTS.search(kind)
    precision, scale = arguments.groups() if arguments else (None, None)
    plain = _ARGUMENTS.sub("", kind)
    return Column(
        name,
        "ENUM" if is_enum else _POSTGRESQL_NAMES.get(plain, plain.upper()),
        None if precision is None else natural(precision),
        None if scale is None else natural(scale),
        nullable,
    )


def _mysql_columns(result: CursorResult[tuple[object, ...]]) -> list[Column]:
    cursor = result.cursor
    assert cursor is not None, "a SELECT statement has a cursor"
    columns = []
    for field in cursor._result.fields:  # the description of PEP 249 has no unsigned flag
        kind = _MYSQL_NAMES.get(field.type_code, "GEOMETRY")
        unsigned = bool(field.flags & _MYSQL_UNSIGNED)
        precision = field.length
        if kind in ("TEXT", "VARCHAR", "CHAR") and field.charsetnr == _MYSQL_BINARY_SET:
            kind = "BLOB"
        if kind == "DECIMAL":
            precision -= (field.scale > 0) + (not unsigned)
        nullable = not field.flags & _MYSQL_NOT_NULL
        columns.append(Column(field.name, kind, precision, field.scale, nullable, unsigned))
    return columns


def _sqlite_columns(database: Database, query: str) -> list[Column]:
    """SQLite tells the declared types of the columns of a view."""
    connection = database.connection()
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS temp.{_VIEW}")
    connection.exec_driver_sql(f"CREATE TEMP VIEW {_VIEW} AS {query}")
    columns = database.columns(TableName(None, None, _VIEW))
    connection.exec_driver_sql(f"DROP VIEW temp.{_VIEW}")
    return columns
