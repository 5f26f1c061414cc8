"""How databases differ: driver, quotes, types of new columns, and the statement of an upsert.

A statement has the character `MARK` in the place of a parameter. `Database.prepare` replaces it by the placeholder of
the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcli.connectors.jdbc.identifiers import Quoting
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, SchemaType

MARK = "\0"
TIMESTAMP_FIELD = "timestamp.fields.list"
"""The type of a field in timestamp.fields.list."""
Upsert = Callable[[str, Sequence[str], Sequence[str]], str]
"""Makes a statement from a table, its key columns and its other columns, which are already quoted."""


@dataclass(frozen=True, slots=True)
class Dialect:
    java_name: str
    """The value of dialect.name."""
    engine: str
    """The dialect and the driver of SQLAlchemy."""
    module: str
    package: str
    """What to install if the driver is missing."""
    quotes: tuple[str, str]
    types: Mapping[str, str]
    """The SQL type of a new column, by the name of a schema type or of a logical type."""
    upsert: Upsert
    now: str = "SELECT CURRENT_TIMESTAMP"
    adds_columns: str = "ALTER TABLE {table} {added}"
    adds_each: bool = False
    """Whether each new column needs a statement of its own."""
    added: str = "ADD {column}"
    booleans: tuple[str, str] = ("1", "0")
    """The literals of true and false."""

    @property
    def name(self) -> str:
        """The short name, as Java shows it."""
        return self.java_name.removesuffix("DatabaseDialect")

    def quoting(self, *, always: bool) -> Quoting:
        return Quoting(*self.quotes, always)


def insert(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    columns = [*keys, *others]
    return f"INSERT INTO {table}({','.join(columns)}) VALUES({_marks(columns)})"


def update(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    """The parameters are the other columns, then the keys."""
    changes = ", ".join(f"{column} = {MARK}" for column in others)
    return f"UPDATE {table} SET {changes}{_where(keys)}"


def delete(table: str, keys: Sequence[str]) -> str:
    return f"DELETE FROM {table}{_where(keys)}"


def _where(keys: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(f'{key} = {MARK}' for key in keys)}" if keys else ""


def _marks(columns: Sequence[str]) -> str:
    return ",".join(MARK * len(columns))


def _upsert_postgresql(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    changes = ",".join(f"{column}=EXCLUDED.{column}" for column in others)
    action = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
    return f"{insert(table, keys, others)} ON CONFLICT ({','.join(keys)}) {action}"


def _upsert_mysql(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    changes = ",".join(f"{column}=values({column})" for column in others or keys)
    return f"{insert(table, keys, others)} on duplicate key update {changes}"


def _upsert_sqlite(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    return insert(table, keys, others).replace("INSERT INTO", "INSERT OR REPLACE INTO", 1)


def _upsert_oracle(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    columns = ", ".join(f"{MARK} {column}" for column in (*keys, *others))
    return _merge(table, f"(select {columns} FROM dual) incoming", "incoming", keys, others)


def _upsert_sqlserver(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    columns = ", ".join(f"{MARK} AS {column}" for column in (*keys, *others))
    source = f"(select {columns}) AS incoming"
    return _merge(f"{table} with (HOLDLOCK)", source, "incoming", keys, others, target="target") + ";"


def _upsert_db2(table: str, keys: Sequence[str], others: Sequence[str]) -> str:
    columns = (*keys, *others)
    return _merge(table, f"(values({_marks(columns)})) as DAT({', '.join(columns)})", "DAT", keys, others)


def _merge(
    table: str, source: str, alias: str, keys: Sequence[str], others: Sequence[str], target: str | None = None
) -> str:
    into = table if target is None else f"{table} AS {target}"
    target = target or table
    same = " and ".join(f"{target}.{key}={alias}.{key}" for key in keys)
    changes = ",".join(f"{target}.{column}={alias}.{column}" for column in others)
    columns = (*others, *keys)
    return (
        f"merge into {into} using {source} on ({same})"
        f"{f' when matched then update set {changes}' if others else ''}"
        f" when not matched then insert({','.join(columns)})"
        f" values({','.join(f'{alias}.{column}' for column in columns)})"
    )


def _types(
    integers: tuple[str, str, str, str],
    floats: tuple[str, str],
    boolean: str,
    string: str,
    binary: str,
    logical: tuple[str, str, str, str],
    timestamp_field: str | None = None,
    key_string: str | None = None,
) -> Mapping[str, str]:
    """`logical` are the types of Decimal, Date, Time and Timestamp."""
    kinds = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
    return {
        **dict(zip(kinds, integers, strict=True)),
        **dict(zip((SchemaType.FLOAT32, SchemaType.FLOAT64), floats, strict=True)),
        SchemaType.BOOLEAN: boolean,
        SchemaType.STRING: string,
        SchemaType.BYTES: binary,
        **dict(zip((DECIMAL, DATE, TIME, TIMESTAMP), logical, strict=True)),
        TIMESTAMP_FIELD: timestamp_field or logical[3],
        KEY_STRING: key_string or string,
    }


KEY_STRING = "key string"
"""The type of a string that is part of the primary key, which some databases limit in length."""

_MYSQL = Dialect(
    "MySqlDatabaseDialect", "mysql+pymysql", "pymysql", "pymysql", ("`", "`"),
    _types(
        ("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"), "TINYINT", "TEXT", "VARBINARY(1024)",
        ("DECIMAL(65,{scale})", "DATE", "TIME(3)", "DATETIME(3)"), "DATETIME(6)", "VARCHAR(256)",
    ),
    _upsert_mysql, now="SELECT CURRENT_TIMESTAMP(6)",
)  # fmt: skip

DIALECTS: Mapping[str, Dialect] = {
    "postgresql": Dialect(
        "PostgreSqlDatabaseDialect", "postgresql+psycopg", "psycopg", "psycopg[binary]", ('"', '"'),
        _types(
            ("SMALLINT", "SMALLINT", "INT", "BIGINT"), ("REAL", "DOUBLE PRECISION"), "BOOLEAN", "TEXT", "BYTEA",
            ("DECIMAL", "DATE", "TIME", "TIMESTAMP"),
        ),
        _upsert_postgresql, booleans=("TRUE", "FALSE"),
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": Dialect(
        "SqliteDatabaseDialect", "sqlite", "sqlite3", "python3 with sqlite3", ("`", "`"),
        _types(
            ("INTEGER",) * 4, ("REAL", "REAL"), "INTEGER", "TEXT", "BLOB", ("NUMERIC",) * 4,
        ),
        _upsert_sqlite, now="SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')", adds_each=True,
    ),
    "oracle": Dialect(
        "OracleDatabaseDialect", "oracle+oracledb", "oracledb", "oracledb", ('"', '"'),
        _types(
            ("NUMBER(3,0)", "NUMBER(5,0)", "NUMBER(10,0)", "NUMBER(19,0)"), ("BINARY_FLOAT", "BINARY_DOUBLE"),
            "NUMBER(1,0)", "CLOB", "BLOB", ("NUMBER(*,{scale})", "DATE", "DATE", "TIMESTAMP"), "TIMESTAMP(6)",
            "VARCHAR2(4000)",
        ),
        _upsert_oracle, now="select CURRENT_TIMESTAMP from dual",
        adds_columns="ALTER TABLE {table} ADD({added})", added="{column}",
    ),
    "sqlserver": Dialect(
        "SqlServerDatabaseDialect", "mssql+pymssql", "pymssql", "pymssql", ("[", "]"),
        _types(
            ("tinyint", "smallint", "int", "bigint"), ("real", "float"), "bit", "varchar(max)", "varbinary(max)",
            ("decimal(38,{scale})", "date", "time", "datetime2"), key_string="varchar(900)",
        ),
        _upsert_sqlserver, adds_columns="ALTER TABLE {table} ADD {added}", added="{column}",
    ),
    "db2": Dialect(
        "Db2DatabaseDialect", "db2+ibm_db", "ibm_db_sa", "ibm_db_sa", ('"', '"'),
        _types(
            ("SMALLINT", "SMALLINT", "INTEGER", "BIGINT"), ("FLOAT", "DOUBLE"), "SMALLINT", "VARCHAR(32672)",
            "BLOB(64000)", ("DECIMAL(31,{scale})", "DATE", "TIME", "TIMESTAMP"),
        ),
        _upsert_db2, now="SELECT CURRENT_TIMESTAMP(12) FROM SYSIBM.SYSDUMMY1", adds_each=True,
    ),
}  # fmt: skip
"""The dialects by the name in a JDBC URL."""
SQLALCHEMY_NAMES = {"mssql": "sqlserver", "db2": "db2"}
"""The names of SQLAlchemy that differ from the name in a JDBC URL."""


def dialect_of(kind: str) -> Dialect | None:
    return DIALECTS.get(SQLALCHEMY_NAMES.get(kind, kind))


def dialect_named(java_name: str) -> Dialect | None:
    return next((dialect for dialect in DIALECTS.values() if dialect.java_name == java_name), None)
