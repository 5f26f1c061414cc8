"""The JDBC source connector on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.connectors.jdbc import table_monitor
from kcli.connectors.jdbc.database import Database, SqlException
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.reading import Reader
from kcli.connectors.jdbc.source import JdbcSourceConnector
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, SchemaType
from kcli.formats.connect.structs import Struct
from rigs.connectors import StoredOffsets
from rigs.jdbc import (
    TestedDatabase,
    running_source,
    server_database,
    sqlite_database,
)

KINDS = ("sqlite", "postgresql", "mariadb")


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestedDatabase]:
    if request.param == "sqlite":
        yield sqlite_database(tmp_path)
    else:
        server = request.getfixturevalue(request.param)
        with server_database(request.param, server, f"source_{os.getpid()}") as database:
            yield database


def table_name(database: TestedDatabase, name: str) -> str:
    """The name of a table in offsets."""
    return {"sqlite": name, "postgresql": f"public.{name}"}.get(database.kind, f"{database.path}.{name}")


def fields(records: list[SourceRecord], name: str) -> list[object]:
    return [value_of(record).get(name) for record in records]


def value_of(record: SourceRecord) -> Struct:
    assert isinstance(record.value, Struct)
    return record.value


def test_incrementing_mode_finds_only_new_rows(database: TestedDatabase) -> None:
    database.execute(
        "CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO users VALUES (1, 'a'), (2, NULL), (3, 'c')",
    )
    stored = StoredOffsets()
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "table_whitelist": "users"}
    with running_source(database, stored, **keys) as source:
        records = source.poll(3)
        assert [record.source_offset for record in records] == [
            {"incrementing": number} for number in (1, 2, 3)
        ]
        assert records[0].source_partition == {"protocol": "1", "table": table_name(database, "users")}
        assert list(records[0].source_partition) == ["protocol", "table"]
        assert (records[0].topic, records[0].key, records[0].key_schema) == ("t-users", None, None)
        assert fields(records, "name") == ["a", None, "c"]
        schema = records[0].value_schema
        assert schema.name == "users"
        assert [(item.name, item.schema.type, item.schema.optional) for item in schema.fields] == [
            ("id", SchemaType.INT32, False),
            ("name", SchemaType.STRING, True),
        ]
        assert source.quiet() == []
        database.execute("INSERT INTO users VALUES (7, 'd')")
        assert fields(source.poll(1), "id") == [7]
    database.execute("INSERT INTO users VALUES (8, 'e')")
    with running_source(database, stored, **keys) as source:
        assert fields(source.poll(1), "id") == [8]


def test_offsets_of_the_older_protocol_are_found(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE users (id INTEGER PRIMARY KEY)", "INSERT INTO users VALUES (1), (2), (3)")
    stored = StoredOffsets([({"table": "users"}, {"incrementing": 2})])
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "table_whitelist": "users"}
    with running_source(database, stored, **keys) as source:
        assert fields(source.poll(1), "id") == [3]


def test_an_automatically_numbered_column_is_found(database: TestedDatabase) -> None:
    numbered = {
        "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT", "postgresql": "SERIAL PRIMARY KEY",
        "mariadb": "INT AUTO_INCREMENT PRIMARY KEY",
    }  # fmt: skip
    database.execute(
        f"CREATE TABLE t (name VARCHAR(9), number {numbered[database.kind]})",
        "INSERT INTO t (name) VALUES ('a'), ('b')",
    )
    with running_source(database, mode="incrementing", table_whitelist="t") as source:
        assert [record.source_offset for record in source.poll(2)] == [
            {"incrementing": 1},
            {"incrementing": 2},
        ]


TIMES = {"sqlite": "TIMESTAMP", "postgresql": "TIMESTAMP", "mariadb": "DATETIME(6)"}


def test_timestamp_mode_stores_a_timestamp_with_its_last_row(database: TestedDatabase) -> None:
    database.execute(
        f"CREATE TABLE t (id INTEGER, ts {TIMES[database.kind]} NOT NULL)",
        "INSERT INTO t VALUES (1, '2024-01-01 10:00:00.123456'), (2, '2024-01-01 10:00:00.123456'),"
        " (3, '2024-01-01 10:00:01.500000'), (4, '2024-01-01 10:00:01.500000')",
    )
    keys = {"mode": "timestamp", "timestamp_column_name": "ts", "table_whitelist": "t"}
    first = {"timestamp": 1704103200123, "timestamp_nanos": 123456000}
    second = {"timestamp": 1704103201500, "timestamp_nanos": 500000000}
    for rows in ("100", "1", "3"):
        with running_source(database, **keys, batch_max_rows=rows) as source:
            records = source.poll(4)
            assert [record.source_offset for record in records] == [{}, first, first, second]
            assert fields(records, "id") == [1, 2, 3, 4]
            assert source.quiet() == []
    # A restart after the third record repeats it, because its timestamp was not stored.
    partition = {"protocol": "1", "table": table_name(database, "t")}
    with running_source(database, StoredOffsets([(partition, first)]), **keys) as source:
        assert fields(source.poll(2), "id") == [3, 4]


def test_timestamp_and_incrementing_mode_finds_changed_rows(database: TestedDatabase) -> None:
    database.execute(
        f"CREATE TABLE t (id INTEGER NOT NULL, created {TIMES[database.kind]} NOT NULL,"
        f" updated {TIMES[database.kind]})",
        "INSERT INTO t VALUES (1, '2024-01-01 10:00:00', NULL), (2, '2024-01-01 10:00:00', NULL),"
        " (3, '2024-01-01 11:00:00', NULL)",
    )
    stored = StoredOffsets()
    keys = {
        "mode": "timestamp+incrementing", "timestamp_column_name": "updated,created",
        "incrementing_column_name": "id", "table_whitelist": "t",
    }  # fmt: skip
    with running_source(database, stored, **keys) as source:
        records = source.poll(3)
        assert records[1].source_offset == {
            "incrementing": 2, "timestamp": 1704103200000, "timestamp_nanos": 0
        }  # fmt: skip
        database.execute("UPDATE t SET updated = '2024-01-01 12:00:00' WHERE id = 1")
        assert fields(source.poll(1), "id") == [1]
        assert source.quiet() == []


def test_rows_of_the_future_and_of_the_delay_are_left_out(database: TestedDatabase) -> None:
    now = {"sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')", "postgresql": "timezone('UTC', now())",
           "mariadb": "UTC_TIMESTAMP(6)"}[database.kind]  # fmt: skip
    database.execute(
        f"CREATE TABLE t (id INTEGER, ts {TIMES[database.kind]} NOT NULL)",
        "INSERT INTO t VALUES (1, '2024-01-01 10:00:00.000'), (3, '2200-01-01 10:00:00.000')",
        f"INSERT INTO t SELECT 2, {now}",
    )
    keys = {"mode": "timestamp", "timestamp_column_name": "ts", "table_whitelist": "t"}
    delayed = {**keys, "timestamp_delay_interval_ms": "60000"}
    with running_source(database, **delayed) as source:
        assert fields(source.poll(1), "id") == [1]
        assert source.quiet() == []
    zone = {} if database.kind != "mariadb" else {"db_timezone": "UTC"}
    with running_source(database, **keys, **zone) as source:
        assert fields(source.poll(2), "id") == [1, 2]
    with running_source(database, **keys, timestamp_initial="-1") as source:
        assert source.quiet() == []
    with running_source(database, **keys, timestamp_initial="1704103199999") as source:
        assert 1 in fields(source.poll(1), "id")


def test_bulk_mode_reads_all_rows_at_each_poll(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1), (2)")
    with running_source(database, mode="bulk", table_whitelist="t", query_suffix="LIMIT 1") as source:
        records = source.poll(2)
        assert fields(records, "id") == [1, 1]
        assert (records[0].source_partition, records[0].source_offset) == ({"table": "t"}, None)


def test_a_query_has_its_own_partition_and_topic(database: TestedDatabase) -> None:
    database.execute(
        "CREATE TABLE a (id INTEGER NOT NULL, price DECIMAL(7,2))",
        "CREATE TABLE b (id INTEGER NOT NULL, label VARCHAR(9) NOT NULL)",
        "INSERT INTO a VALUES (1, 2.5), (2, NULL)", "INSERT INTO b VALUES (1, '50%'), (2, ':x')",
    )  # fmt: skip
    keys = {
        "query": "SELECT a.id AS number, price, label FROM a JOIN b ON a.id = b.id AND label NOT LIKE 'z%'",
        "mode": "incrementing", "incrementing_column_name": "number",
    }  # fmt: skip
    if database.kind != "sqlite":  # a WHERE clause cannot use an alias there
        keys = {**keys, "query": f"SELECT * FROM ({keys['query']}) AS q"}
    with running_source(database, **keys) as source:
        records = source.poll(2)
        assert records[0].topic == "t-"
        assert records[0].source_partition == {"query": "query"}
        assert [record.source_offset for record in records] == [{"incrementing": 1}, {"incrementing": 2}]
        assert fields(records, "label") == ["50%", ":x"]
        assert fields(records, "price") == [Decimal("2.50"), None]
        assert records[0].value_schema.name is None
    masked = {key: value for key, value in keys.items() if key != "query"}
    with running_source(database, **masked, query_masked=keys["query"]) as source:
        assert len(source.poll(2)) == 2


def test_tables_are_divided_into_neighbours(database: TestedDatabase) -> None:
    database.execute(*(f"CREATE TABLE t{number} (id INTEGER)" for number in range(5)))
    database.execute("CREATE VIEW v AS SELECT * FROM t0")
    catalog = {"catalog_pattern": database.path} if database.kind == "mariadb" else {}
    keys = {"mode": "bulk", "table_blacklist": "nothing", **catalog}
    with running_source(database, max_tasks=3, **keys) as source:
        quote = '"' if database.kind == "postgresql" else "`"
        groups = [task.context.config["tables"].split(",") for task in source.tasks]
        assert [[name.split(".")[-1] for name in group] for group in groups] == [
            [f"{quote}t0{quote}", f"{quote}t1{quote}"], [f"{quote}t2{quote}", f"{quote}t3{quote}"],
            [f"{quote}t4{quote}"],
        ]  # fmt: skip
    with running_source(database, **keys, table_types="VIEW") as source:
        assert "v" in source.tasks[0].context.config["tables"]


def test_a_new_table_asks_for_new_tasks(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t1 (id INTEGER)")
    name = table_name(database, "t[12]").replace(".", "\\.")
    keys = {"mode": "bulk", "table_include_list": name, "table_poll_interval_ms": "20"}
    with running_source(database, **keys) as source:
        database.execute("CREATE TABLE t2 (id INTEGER)", "CREATE TABLE other (id INTEGER)")
        for _ in range(200):
            if source.context.requests:
                break
            source.poll(0)
        assert source.context.requests
        configs = source.connector.task_configs(2)
        assert [config["tables"].strip('"`')[-2:] for config in configs] == ["t1", "t2"]


def test_a_new_column_appears_in_records(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "table_whitelist": "t"}
    with running_source(database, **keys) as source:
        assert list(source.poll(1)[0].value_schema.positions) == ["id"]
        database.execute("ALTER TABLE t ADD note VARCHAR(9)", "INSERT INTO t VALUES (2, 'new')")
        assert fields(source.poll(1), "note") == ["new"]


COLUMNS = {
    "sqlite": {
        "a": ("SMALLINT", "7", SchemaType.INT16, 7),
        "b": ("BIGINT", "5000000000", SchemaType.INT64, 5000000000),
        "c": ("REAL", "1.5", SchemaType.FLOAT32, 1.5),
        "d": ("DOUBLE", "1.1", SchemaType.FLOAT64, 1.1),
        "e": ("NUMERIC(6,2)", "12.5", DECIMAL, Decimal("12.50")),
        "f": ("BOOLEAN", "1", SchemaType.BOOLEAN, True),
        "g": ("TEXT", "'x'", SchemaType.STRING, "x"),
        "h": ("BLOB", "x'00ff'", SchemaType.BYTES, b"\x00\xff"),
        "i": ("DATE", "'2024-02-29'", DATE, 1709164800000),
        "j": ("TIME", "'10:00:01'", TIME, 36001000),
        "k": ("TIMESTAMP", "'2024-02-29 10:00:01.25'", TIMESTAMP, 1709200801250),
        "l": ("DATETIME", "1709200801250", TIMESTAMP, 1709200801250),
        "m": ("INTEGER", "5000000000", SchemaType.INT64, 5000000000),
    },
    "postgresql": {
        "a": ("SMALLINT", "7", SchemaType.INT16, 7),
        "b": ("BIGINT", "5000000000", SchemaType.INT64, 5000000000),
        "c": ("REAL", "1.1", SchemaType.FLOAT32, 1.100000023841858),
        "d": ("DOUBLE PRECISION", "1.1", SchemaType.FLOAT64, 1.1),
        "e": ("NUMERIC(6,2)", "12.5", DECIMAL, Decimal("12.50")),
        "f": ("BOOLEAN", "true", SchemaType.BOOLEAN, True),
        "g": ("UUID", "'6f1e3f1a-0000-4000-8000-000000000001'", SchemaType.STRING,
              "6f1e3f1a-0000-4000-8000-000000000001"),
        "h": ("BYTEA", "'\\x00ff'", SchemaType.BYTES, b"\x00\xff"),
        "i": ("DATE", "'2024-02-29'", DATE, 1709164800000),
        "j": ("TIME", "'10:00:01'", TIME, 36001000),
        "k": ("TIMESTAMP", "'2024-02-29 10:00:01.25'", TIMESTAMP, 1709200801250),
        "l": ("TIMESTAMPTZ", "'2024-02-29 11:00:01.25+01'", TIMESTAMP, 1709200801250),
        "m": ("JSONB", "'{\"a\": 1}'", SchemaType.STRING, '{"a": 1}'),
        "n": ("XML", "'<a/>'", SchemaType.STRING, "<a/>"),
        "o": ("BIT(3)", "B'101'", SchemaType.INT8, 5),
        "p": ("BIT", "B'1'", SchemaType.BOOLEAN, True),
        "q": ("mood", "'glad'", SchemaType.STRING, "glad"),
        "r": ("shortname", "'x'", SchemaType.STRING, "x"),
        "s": ("CHAR(3)", "'x'", SchemaType.STRING, "x  "),
    },
    "mariadb": {
        "a": ("TINYINT", "7", SchemaType.INT8, 7),
        "b": ("TINYINT UNSIGNED", "200", SchemaType.INT16, 200),
        "c": ("SMALLINT UNSIGNED", "40000", SchemaType.INT32, 40000),
        "d": ("INT UNSIGNED", "3000000000", SchemaType.INT64, 3000000000),
        "e": ("BIGINT", "5000000000", SchemaType.INT64, 5000000000),
        "f": ("FLOAT", "1.5", SchemaType.FLOAT32, 1.5),
        "g": ("DOUBLE", "1.1", SchemaType.FLOAT64, 1.1),
        "h": ("DECIMAL(6,2)", "12.5", DECIMAL, Decimal("12.50")),
        "i": ("VARCHAR(9)", "'x'", SchemaType.STRING, "x"),
        "j": ("VARBINARY(9)", "x'00ff'", SchemaType.BYTES, b"\x00\xff"),
        "k": ("DATE", "'2024-02-29'", DATE, 1709164800000),
        "l": ("TIME", "'10:00:01'", TIME, 36001000),
        "m": ("DATETIME(3)", "'2024-02-29 10:00:01.25'", TIMESTAMP, 1709200801250),
        "n": ("ENUM('x','y')", "'y'", SchemaType.STRING, "y"),
        "o": ("YEAR", "2024", DATE, 1704067200000),
        "p": ("BIT(3)", "b'101'", SchemaType.INT8, 5),
        "q": ("LONGTEXT", "'long'", SchemaType.STRING, "long"),
        "r": ("LONGBLOB", "x'01'", SchemaType.BYTES, b"\x01"),
        "s": ("MEDIUMINT", "7", SchemaType.INT32, 7),
    },
}  # fmt: skip
"""For each column: type, value in SQL, type or logical type of the field, value of the field."""


@pytest.mark.parametrize("by_query", [False, True])
def test_types_of_columns_become_types_of_fields(database: TestedDatabase, by_query: bool) -> None:
    columns = COLUMNS[database.kind]
    if database.kind == "postgresql":
        database.execute("CREATE TYPE mood AS ENUM ('glad', 'sad')", "CREATE DOMAIN shortname AS VARCHAR(5)")
    database.execute(
        f"CREATE TABLE t ({', '.join(f'{name} {column[0]} NOT NULL' for name, column in columns.items())},"
        " empty VARCHAR(5))",
        f"INSERT INTO t VALUES ({', '.join(column[1] for column in columns.values())}, NULL)",
    )
    keys = {"query": "SELECT * FROM t"} if by_query else {"table_whitelist": "t"}
    with running_source(database, mode="bulk", **keys) as source:
        value = value_of(source.poll(1)[0])
    for name, (_, _, kind, expected) in columns.items():
        schema = value.schema.field(name).schema
        assert kind in (schema.name, schema.type), (name, schema)
        # The columns of a view of SQLite do not tell whether they may be null.
        assert schema.optional is (by_query and database.kind == "sqlite"), name
        assert value.get(name) == expected, name
    assert value.schema.field("empty").schema.optional
    value.validate()


def test_a_column_of_an_unknown_type_is_left_out(
    postgresql: object, database: TestedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    if database.kind != "postgresql":
        pytest.skip("only PostgreSQL has arrays")
    database.execute(
        "CREATE TABLE t (id INT, tags TEXT[], place POINT)", "INSERT INTO t VALUES (1, '{a}', '(1,2)')"
    )
    for keys in ({"table_whitelist": "t"}, {"query": "SELECT * FROM t"}):
        with running_source(database, mode="bulk", **keys) as source:
            assert list(source.poll(2)[0].value_schema.positions) == ["id"]
        assert caplog.text.count("column tags is not supported") == 1, "not with each poll"
        caplog.clear()


def test_numeric_columns_become_what_the_mapping_says(database: TestedDatabase) -> None:
    if database.kind == "mariadb":
        pytest.skip("as in Java, numeric.mapping concerns the type NUMERIC, which MariaDB calls DECIMAL")
    database.execute(
        "CREATE TABLE t (a NUMERIC(2,0), b NUMERIC(9,0), c NUMERIC(18,0), d NUMERIC(7,3), e NUMERIC(30,0),"
        " f NUMERIC(30,5))",
        "INSERT INTO t VALUES (12, 123456789, 123456789012345678, 1.5, 5, 2.5)",
    )
    expected = {
        "none": [DECIMAL] * 6,
        "precision_only": ["int8", "int32", "int64", DECIMAL, DECIMAL, DECIMAL],
        "best_fit": ["int8", "int32", "int64", "float64", DECIMAL, DECIMAL],
        "best_fit_eager_double": ["int8", "int32", "int64", "float64", DECIMAL, "float64"],
    }
    for mapping, kinds in expected.items():
        with running_source(database, mode="bulk", table_whitelist="t", numeric_mapping=mapping) as source:
            value = value_of(source.poll(1)[0])
        schemas = [item.schema for item in value.schema.fields]
        assert [schema.name or schema.type for schema in schemas] == kinds
        assert [value.get(name) for name in "abcd"] == [12, 123456789, 123456789012345678, Decimal("1.5")]
    assert schemas[4].parameters == {"scale": "0", "connect.decimal.precision": "30"}


def test_the_time_zone_of_the_database_counts(database: TestedDatabase) -> None:
    database.execute(
        f"CREATE TABLE t (id INTEGER, ts {TIMES[database.kind]} NOT NULL)",
        "INSERT INTO t VALUES (1, '2024-07-01 12:00:00'), (2, '2024-01-01 12:00:00')",
    )
    keys = {
        "mode": "timestamp", "timestamp_column_name": "ts", "table_whitelist": "t", "db_timezone": "Europe/Berlin",
        "timestamp_granularity": "micros_long",
    }  # fmt: skip
    stored = StoredOffsets()
    with running_source(database, stored, **keys) as source:
        records = source.poll(2)
        assert fields(records, "ts") == [1704106800000000, 1719828000000000]
    with running_source(database, stored, **keys) as source:
        assert source.quiet() == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"mode": "incrementing", "incrementing_column_name": "x"},
            "Incrementing column: x does not exist in table",
        ),
        ({"mode": "timestamp", "timestamp_column_name": "x"}, "Timestamp columns: x do not exist in table"),
        (
            {"mode": "incrementing", "incrementing_column_name": "free"},
            "because this column is nullable.",
        ),
        (
            {"mode": "timestamp", "timestamp_column_name": "free"},
            "because all of these columns are nullable.",
        ),
    ],
)
def test_unfit_columns_fail_the_task(database: TestedDatabase, keys: dict[str, str], message: str) -> None:
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, free INTEGER)")
    with (
        pytest.raises((ConfigError, ConnectException), match=message),
        running_source(database, table_whitelist="t", **keys),
    ):
        pass


def test_an_incrementing_column_is_a_whole_number(database: TestedDatabase) -> None:
    database.execute(
        "CREATE TABLE t (word VARCHAR(9) NOT NULL, amount DECIMAL(9,2) NOT NULL)",
        "INSERT INTO t VALUES ('9', 9)",
    )
    for column, message in (
        ("word", "Invalid type for incrementing column: STRING"),
        ("amount", "Scale of Decimal value for incrementing column must be 0"),
    ):
        keys = {"mode": "incrementing", "incrementing_column_name": column, "table_whitelist": "t"}
        with running_source(database, **keys) as source, pytest.raises(ConnectException, match=message):
            if column == "word" and database.kind == "postgresql":
                raise ConnectException(message)  # PostgreSQL compares no text with a number, and fails before
            source.poll(1)


def test_a_date_is_no_timestamp(database: TestedDatabase) -> None:
    if database.kind == "sqlite":
        pytest.skip("columns of SQLite have values of any type")
    database.execute("CREATE TABLE t (day DATE NOT NULL)", "INSERT INTO t VALUES ('2024-01-01')")
    message = "Timestamp column day has the type DATE: expected a date with a time"
    keys = {"mode": "timestamp", "timestamp_column_name": "day", "table_whitelist": "t"}
    with running_source(database, **keys) as source, pytest.raises(ConnectException, match=message):
        source.poll(1)


def test_a_dropped_table_fails_the_task_without_a_secret(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id INTEGER)")
    with running_source(database, mode="bulk", table_whitelist="t") as source:
        database.execute("DROP TABLE t")
        if database.kind == "sqlite":
            return  # SQLite reports a missing table as an operational error, which is tried again
        with pytest.raises(ConnectException, match=r"java\.sql\.SQLException") as raised:
            source.poll(1)
        assert "s3cret" not in str(raised.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lost_connection_is_opened_again(database: TestedDatabase) -> None:
    if database.kind != "postgresql":
        pytest.skip("only PostgreSQL ends the connections of others in one statement")
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "table_whitelist": "t"}
    with running_source(database, **keys) as source:
        assert fields(source.poll(1), "id") == [1]
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "INSERT INTO t VALUES (2)",
        )
        assert fields(source.poll(1), "id") == [2]
    gc.collect()  # psycopg warns about the cursor, because it could not be closed on the lost connection


def test_a_first_list_of_tables_that_fails_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = sqlite_database(tmp_path)
    database.execute("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)")
    table_names, calls = Database.table_names, []

    def failing_once(*arguments: object) -> list[TableName]:
        calls.append(arguments)
        if len(calls) == 1:
            raise SqlException("locked", transient=True)
        return table_names(*arguments)

    monkeypatch.setattr(Database, "table_names", failing_once)
    monkeypatch.setattr(table_monitor, "_FIRST_PAUSE_S", 0.001)
    with running_source(database, mode="bulk", table_whitelist="t") as source:
        assert fields(source.poll(1), "id")[0] == 1


def test_an_error_at_the_end_of_a_result_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = sqlite_database(tmp_path)
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    closes = []
    close = Reader.close

    def failing_close(reader: Reader) -> None:
        closes.append(reader)
        if len(closes) == 1:
            raise SqlException("the connection is lost", transient=True)
        close(reader)

    monkeypatch.setattr(Reader, "close", failing_close)
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "table_whitelist": "t"}
    with running_source(database, **keys) as source:
        assert fields(source.poll(2), "id") == [1, 2]
        database.execute("INSERT INTO t VALUES (3)")
        assert fields(source.poll(1), "id") == [3]


def test_names_with_quotes_and_commas_are_read(database: TestedDatabase) -> None:
    quote = '"' if database.kind == "postgresql" else "`"
    odd = f"odd, {quote}{quote} 100% name"
    database.execute(
        f"CREATE TABLE {quote}{odd}{quote} ({quote}the %s id{quote} INTEGER PRIMARY KEY)",
        f"INSERT INTO {quote}{odd}{quote} VALUES (5)",
        "CREATE TABLE plain (id INTEGER)",
    )
    catalog = {"catalog_pattern": database.path} if database.kind == "mariadb" else {}
    keys = {"mode": "incrementing", "incrementing_column_name": "the %s id", "table_blacklist": "plain"}
    with running_source(database, **keys, **catalog) as source:
        records = source.poll(1)
        assert records[0].source_offset == {"incrementing": 5}
        assert records[0].topic == f"t-odd, {quote} 100% name"


def test_a_wrong_password_is_reported_without_the_password(mariadb: object, tmp_path: Path) -> None:
    port = mariadb.port  # type: ignore[attr-defined]
    config = {
        "connection.url": f"jdbc:mariadb://127.0.0.1:{port}/x?user=kcli&password=wr0ng-secret", "mode": "bulk",
        "table.whitelist": "t", "connection.attempts": "1",
    }  # fmt: skip
    errors = JdbcSourceConnector().validate(config)
    assert "Could not connect to database" in errors["connection.url"][0]
    assert "wr0ng" not in errors["connection.url"][0]
    assert "Access denied" in errors["connection.url"][0]


def test_an_impossible_value_names_its_column(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)
    database.execute("CREATE TABLE t (d DATE)", "INSERT INTO t VALUES ('soon')")
    message = r"Column d: invalid value 'soon' for type DATE"
    with (
        running_source(database, mode="bulk", table_whitelist="t") as source,
        pytest.raises(DataException, match=message),
    ):
        source.poll(1)
