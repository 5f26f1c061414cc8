"""The JDBC sink connector on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from kcli.connectors.records import SinkRecord, SourceRecord
from kcli.formats.connect.errors import ConnectException, RetriableException, java_chain
from kcli.formats.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    array_schema,
    decimal_schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Instant, Int8
from rigs.connectors import Reports, SinkContext
from rigs.databases import Server
from rigs.jdbc import (
    TestedDatabase,
    running_sink,
    running_source,
    server_database,
    sink_record,
    sqlite_database,
)

KINDS = ("sqlite", "postgresql", "mariadb")
ORDER = struct_schema({"id": INT32_SCHEMA, "item": OPTIONAL_STRING_SCHEMA}, name="Order")
KEY = struct_schema({"id": INT32_SCHEMA})


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestedDatabase]:
    if request.param == "sqlite":
        yield sqlite_database(tmp_path)
    else:
        server = request.getfixturevalue(request.param)
        with server_database(request.param, server, f"sink_{os.getpid()}") as database:
            yield database


def order(number: int, item: str | None = "x", key: object = "same", **others: object) -> SinkRecord:
    struct = Struct(KEY, {"id": number}) if key == "same" else key
    return sink_record(ORDER, {"id": number, "item": item}, KEY, struct, **others)


def tombstone(number: int) -> SinkRecord:
    return sink_record(None, None, KEY, Struct(KEY, {"id": number}))


def shown_table(database: TestedDatabase, name: str) -> str:
    """A table in error texts."""
    prefix = {"sqlite": "", "postgresql": f'"{database.path}"."public".'}.get(
        database.kind, f'"{database.path}".'
    )
    return f'{prefix}"{name}"'


def test_records_become_rows_of_a_new_table(database: TestedDatabase) -> None:
    with running_sink(database, auto_create="true", batch_size="2") as task:
        task.put([])
        task.put([order(1), order(2, None), order(3)])
    assert database.rows("SELECT * FROM orders ORDER BY id") == [(1, "x"), (2, None), (3, "x")]


def test_a_record_without_its_table_fails(database: TestedDatabase) -> None:
    message = f"Table {shown_table(database, 'orders')} is missing and auto-creation is disabled"
    with running_sink(database) as task, pytest.raises(ConnectException) as raised:
        task.put([order(1)])
    assert str(raised.value) == message
    reports = Reports()
    with running_sink(database, reports) as task:
        task.put([order(1), order(2)])
    assert [java_chain(error)[0] for _, error in reports.reported] == [
        ("io.confluent.connect.jdbc.sink.TableAlterOrCreateException", message)
    ] * 2


@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        ({"pk.mode": "record_value", "pk.fields": "id"}, ["id", "item"]),
        ({"pk.mode": "record_key"}, ["id", "item"]),
        ({"pk.mode": "kafka"}, ["__connect_topic", "__connect_partition", "__connect_offset", "id", "item"]),
        ({"pk.mode": "kafka", "pk.fields": "t,p,o"}, ["id", "item", "o", "p", "t"]),
        ({"pk.mode": "record_value", "pk.fields": "id", "fields.whitelist": "nothing"}, ["id"]),
    ],
)
def test_upserts_repeat_without_doubles(
    database: TestedDatabase, keys: dict[str, str], columns: list[str]
) -> None:
    keys = {key.replace(".", "_"): value for key, value in keys.items()}
    records = [order(1, "old", offset=4), order(2, "two", offset=5)]
    with running_sink(database, auto_create="true", insert_mode="upsert", **keys) as task:
        task.put(records)
        task.put([*records, order(1, "new", offset=4)])
    names = database.rows(
        "SELECT name FROM pragma_table_info('orders')"
        if database.kind == "sqlite"
        else "SELECT column_name FROM information_schema.columns WHERE table_name = 'orders'"
        f" AND table_{'schema' if database.kind == 'mariadb' else 'catalog'} = '{database.path}'"
        " ORDER BY ordinal_position"
    )
    assert [name for (name,) in names] == columns
    if "item" in columns:
        assert database.rows("SELECT id, item FROM orders ORDER BY id") == [(1, "new"), (2, "two")]
    else:
        assert database.rows("SELECT id FROM orders ORDER BY id") == [(1,), (2,)]


def test_a_primitive_key_is_one_column(database: TestedDatabase) -> None:
    keys = {"auto_create": "true", "insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "code"}
    value = struct_schema({"item": STRING_SCHEMA})
    with running_sink(database, **keys) as task:
        task.put([sink_record(value, {"item": word}, STRING_SCHEMA, "k1") for word in ("a", "b")])
    assert database.rows("SELECT code, item FROM orders") == [("k1", "b")]


def test_updates_change_only_existing_rows(database: TestedDatabase) -> None:
    database.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, item VARCHAR(9))", "INSERT INTO orders VALUES (1, 'a')"
    )
    with running_sink(database, insert_mode="update", pk_mode="record_key") as task:
        task.put([order(1, "b"), order(2, "c")])
    assert database.rows("SELECT * FROM orders") == [(1, "b")]


def test_null_values_delete_rows_in_the_order_of_the_records(database: TestedDatabase) -> None:
    keys = {"auto_create": "true", "insert_mode": "upsert", "pk_mode": "record_key", "delete_enabled": "true"}
    with running_sink(database, **keys) as task:
        task.put([tombstone(1)])  # the table does not exist yet
        task.put([order(1), order(2), tombstone(1), order(1, "again"), tombstone(2), order(3), tombstone(9)])
    assert database.rows("SELECT * FROM orders ORDER BY id") == [(1, "again"), (3, "x")]


def test_new_optional_fields_become_columns(database: TestedDatabase) -> None:
    wider = struct_schema(
        {
            **{item.name: item.schema for item in ORDER.fields},
            "note": OPTIONAL_STRING_SCHEMA,
            "count": Schema(SchemaType.INT32, default=5),
        }
    )
    required = struct_schema({**{item.name: item.schema for item in wider.fields}, "must": INT32_SCHEMA})
    with running_sink(database, auto_create="true") as task:
        task.put([order(1)])
        with pytest.raises(
            ConnectException, match=r"missing fields .* and auto-evolution is disabled"
        ) as raised:
            task.put([sink_record(wider, {"id": 2})])
    assert str(raised.value) == (
        f"Table {shown_table(database, 'orders')} is missing fields (["
        "SinkRecordField{schema=Schema{STRING}, name='note', isPrimaryKey=false}, "
        "SinkRecordField{schema=Schema{INT32}, name='count', isPrimaryKey=false}"
        "]) and auto-evolution is disabled"
    )
    with running_sink(database, auto_evolve="true") as task:
        task.put(
            [sink_record(wider, {"id": 2, "note": "n"}), order(3), sink_record(wider, {"id": 4, "count": 7})]
        )
        with pytest.raises(
            ConnectException,
            match=r"to add missing field .*'must'.* not optional and does not have a default value",
        ):
            task.put([sink_record(required, {"id": 9, "must": 1})])
    assert database.rows("SELECT id, note, count FROM orders ORDER BY id") == [
        (1, None, 5), (2, "n", 5), (3, None, 5), (4, None, 7)
    ]  # fmt: skip


ALL = struct_schema(
    {
        "i8": INT8_SCHEMA, "i16": INT16_SCHEMA, "i32": INT32_SCHEMA, "i64": INT64_SCHEMA, "f32": FLOAT32_SCHEMA,
        "f64": FLOAT64_SCHEMA, "flag": BOOLEAN_SCHEMA, "word": STRING_SCHEMA, "raw": BYTES_SCHEMA,
        "price": decimal_schema(2), "day": DATE_SCHEMA, "clock": TIME_SCHEMA, "moment": TIMESTAMP_SCHEMA,
    }
)  # fmt: skip
VALUES = {
    "i8": Int8(-5), "i16": 300, "i32": 70000, "i64": 5_000_000_000, "f32": 1.5, "f64": 1.1, "flag": True,
    "word": "it's ✓ \\ 100%", "raw": b"\x00\xff", "price": Decimal("12.50"), "day": Instant(1709164800000),
    "clock": Instant(36001000), "moment": Instant(1709200801250),
}  # fmt: skip


def test_all_types_are_written(database: TestedDatabase) -> None:
    with running_sink(database, auto_create="true") as task:
        task.put([sink_record(ALL, VALUES)])
    (row,) = database.rows("SELECT * FROM orders")
    times: tuple[object, ...] = (
        dt.date(2024, 2, 29), dt.time(10, 0, 1), dt.datetime(2024, 2, 29, 10, 0, 1, 250000)
    )  # fmt: skip
    if database.kind == "sqlite":
        times = (1709164800000, 36001000, 1709200801250)
    if database.kind == "mariadb":
        times = (times[0], dt.timedelta(hours=10, seconds=1), times[2])
    assert row == (
        -5, 300, 70000, 5_000_000_000, 1.5, 1.1, True, "it's ✓ \\ 100%", b"\x00\xff",
        12.5 if database.kind == "sqlite" else Decimal("12.50"), *times,
    )  # fmt: skip


def test_defaults_become_defaults_of_columns(database: TestedDatabase) -> None:
    defaults = {name: value for name, value in VALUES.items() if name not in ("raw",)}
    schema = struct_schema(
        {
            "id": INT32_SCHEMA,
            **{
                name: Schema(
                    ALL.field(name).schema.type, default=value, name=ALL.field(name).schema.name,
                    version=ALL.field(name).schema.version, parameters=ALL.field(name).schema.parameters,
                )
                for name, value in defaults.items()
            },
        }
    )  # fmt: skip
    with running_sink(database, auto_create="true") as task:
        task.put([sink_record(schema, {"id": 1})])
    database.execute("INSERT INTO orders (id) VALUES (2)")
    first, second = database.rows("SELECT * FROM orders ORDER BY id")
    assert first[1:] == second[1:]
    optional = struct_schema({"id": INT32_SCHEMA, "n": Schema(SchemaType.INT32, optional=True, default=5)})
    with running_sink(
        database, table_name_format="plain", auto_create="true", replace_null_with_default="false"
    ) as task:
        task.put([sink_record(optional, {"id": 1})])
    assert database.rows("SELECT n FROM plain") == [(None,)]


def test_time_zones_shift_local_times(database: TestedDatabase) -> None:
    schema = struct_schema({"day": DATE_SCHEMA, "moment": TIMESTAMP_SCHEMA, "micros": INT64_SCHEMA})
    values = {"day": Instant(1709164800000), "moment": Instant(1719828000000), "micros": 1719828000123456}
    keys = {"db_timezone": "America/New_York", "timestamp_fields_list": "micros", "auto_create": "true"}
    for zone in ("db_timezone", "utc"):
        with running_sink(database, date_timezone=zone, table_name_format=f"t_{zone}", **keys) as task:
            task.put([sink_record(schema, values)])
    if database.kind == "sqlite":
        assert database.rows("SELECT * FROM t_utc") == [(1709164800000, 1719828000000, 1719828000123)]
        return
    local = dt.datetime(2024, 7, 1, 6, 0)
    moments = (local, local.replace(microsecond=123456))
    assert database.rows("SELECT * FROM t_utc") == [(dt.date(2024, 2, 29), *moments)]
    assert database.rows("SELECT * FROM t_db_timezone") == [(dt.date(2024, 2, 28), *moments)]


def test_strings_go_into_one_column(database: TestedDatabase) -> None:
    with running_sink(database, auto_create="true", pk_mode="kafka") as task:
        task.put([SinkRecord("lines", 0, 7, "hello", STRING_SCHEMA)])
    assert database.rows(
        "SELECT record_value FROM `lines`".replace("`", '"' if database.kind == "postgresql" else "`")
    ) == [("hello",)]
    with (
        running_sink(database, fields_whitelist="a") as task,
        pytest.raises(ConnectException, match=r"not applicable to String values: fields\.whitelist"),
    ):
        task.put([SinkRecord("lines", 0, 8, "hello", STRING_SCHEMA)])


def test_an_error_is_tried_again_and_then_reported(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item VARCHAR(9))")
    batch = [order(1), order(1, "double"), order(2)]
    with running_sink(database, max_retries="1") as task:
        with pytest.raises(
            RetriableException, match=r"^java\.sql\.SQLException: Exception chain:\njava\.sql"
        ):
            task.put(batch)
        assert isinstance(task.context, SinkContext)
        assert task.context.timeouts == [7]
        assert database.rows("SELECT * FROM orders") == []
        with pytest.raises(ConnectException) as raised:
            task.put(batch)
        assert not isinstance(raised.value, RetriableException)
        task.put([order(5)])  # the writer still works
    reports = Reports()
    with running_sink(database, reports, max_retries="0", trim_sensitive_log="true") as task:
        task.put(batch)
    assert database.rows("SELECT * FROM orders ORDER BY id") == [(1, "x"), (2, "x"), (5, "x")]
    ((record, error),) = reports.reported
    assert record is batch[1]
    assert "trim.sensitive.log" in str(error)
    assert java_chain(error)[0][0] == "java.sql.SQLException"


def test_topics_with_a_schema_name_and_odd_columns(database: TestedDatabase) -> None:
    schema = struct_schema({"a % \"b\" `c` 'd' ?": INT32_SCHEMA, "plain": INT32_SCHEMA})
    with running_sink(database, auto_create="true", table_name_format="kafka %s ${topic}") as task:
        task.put([sink_record(schema, {"a % \"b\" `c` 'd' ?": 1, "plain": 2}, topic="my-topic")])
    quote = '"' if database.kind == "postgresql" else "`"
    assert database.rows(f"SELECT * FROM {quote}kafka %s my-topic{quote}") == [(1, 2)]


def test_half_a_character_becomes_a_question_mark(database: TestedDatabase) -> None:
    keys = {"auto_create": "true", "insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "k"}
    schema = struct_schema({"a": STRING_SCHEMA})
    with running_sink(database, **keys) as task:
        task.put([sink_record(schema, {"a": "x\ud800y"}, STRING_SCHEMA, "\udc00")])
    assert database.rows("SELECT k, a FROM orders") == [("?", "x?y")]
    with running_sink(database, auto_create="true", max_retries="0") as task:
        wrong = struct_schema({"\ud800": INT32_SCHEMA})
        with pytest.raises(ConnectException, match=r"java\.sql\.SQLException"):
            task.put([sink_record(wrong, {"\ud800": 1}, topic="other")])


def test_a_name_of_a_record_adds_nothing_to_a_statement(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE victims (id INTEGER)")
    with running_sink(database, auto_create="true", quote_sql_identifiers="never") as task:
        for name in ("id INT); DROP TABLE victims; --", "a b", "a-b", 'a"b', "a\0b"):
            schema = struct_schema({name: INT32_SCHEMA})
            with pytest.raises(ConnectException, match=r"^The name .* (needs quotes|has a null character)"):
                task.put([sink_record(schema, {name: 1})])
        plain = struct_schema({"a_1$": INT32_SCHEMA})
        task.put([sink_record(plain, {"a_1$": 1}, topic="plain")])
    assert database.rows("SELECT * FROM plain") == [(1,)]
    assert database.rows("SELECT * FROM victims") == []


def test_a_value_that_does_not_fit_is_never_cut(mariadb: Server) -> None:
    with server_database("mariadb", mariadb, f"sink_{os.getpid()}") as database:
        ((mode,),) = database.rows("SELECT @@GLOBAL.sql_mode")
        database.execute("SET GLOBAL sql_mode = ''")
        try:
            schema = struct_schema({"id": INT8_SCHEMA, "item": STRING_SCHEMA})
            with running_sink(database, auto_create="true", max_retries="0") as task:
                with pytest.raises(ConnectException, match=r"Incorrect string value|Data too long"):
                    task.put([sink_record(schema, {"id": 1, "item": "x" * 70_000})])
                database.execute("ALTER TABLE orders MODIFY id TINYINT(2) UNSIGNED")
                with pytest.raises(ConnectException, match="Out of range"):
                    task.put([sink_record(schema, {"id": -1, "item": "x"})])
            assert database.rows("SELECT * FROM orders") == []
        finally:
            database.execute(f"SET GLOBAL sql_mode = '{mode}'")


def test_arrays_are_written_to_postgresql(database: TestedDatabase) -> None:
    schema = struct_schema({"tags": array_schema(STRING_SCHEMA), "ns": array_schema(OPTIONAL_INT32_SCHEMA)})
    record = sink_record(schema, {"tags": ["a", "b"], "ns": [1, None]})
    with running_sink(database, auto_create="true") as task:
        if database.kind != "postgresql":
            with pytest.raises(ConnectException, match="Unsupported source data type: ARRAY"):
                task.put([record])
            return
        task.put([record])
    assert database.rows("SELECT * FROM orders") == [(["a", "b"], [1, None])]


def test_json_and_uuid_columns_take_strings(database: TestedDatabase) -> None:
    if database.kind != "postgresql":
        pytest.skip("the other databases store them as texts")
    database.execute("CREATE TABLE orders (id INT PRIMARY KEY, u UUID, j JSONB, ts TIMESTAMPTZ)")
    schema = struct_schema(
        {"id": INT32_SCHEMA, "u": STRING_SCHEMA, "j": STRING_SCHEMA, "ts": TIMESTAMP_SCHEMA}
    )
    uuid = "6f1e3f1a-0000-4000-8000-000000000001"
    values = {"id": 1, "u": uuid, "j": '{"a": 1}', "ts": Instant(1709200801250)}
    with running_sink(
        database, insert_mode="upsert", pk_mode="record_value", pk_fields="id", db_timezone="Asia/Tokyo"
    ) as task:
        task.put([sink_record(schema, values)] * 2)
    assert database.rows("SELECT u::text, j->>'a', extract(epoch FROM ts)::float FROM orders") == [
        (uuid, "1", 1709200801.25)
    ]


def test_infinite_timestamps_are_kept(database: TestedDatabase) -> None:
    if database.kind != "postgresql":
        pytest.skip("only PostgreSQL has infinite timestamps")
    database.execute(
        "CREATE TABLE src (a TIMESTAMP, b TIMESTAMPTZ)",
        "INSERT INTO src VALUES ('infinity', '-infinity'), (now(), now())",
    )
    with running_source(database, mode="bulk", table_whitelist="src") as source:
        records = source.poll(2)[:2]
    assert isinstance(records[0].value, Struct)
    assert records[0].value.values == [9223372036825200000, -9223372036832400000]
    with running_sink(database, auto_create="true", table_name_format="dst") as task:
        task.put(as_sink_records(records))
    assert database.rows("SELECT count(*) FROM dst WHERE a = 'infinity' AND b = '-infinity'") == [(1,)]


def test_a_view_cannot_be_evolved(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE base (id INTEGER)", "CREATE VIEW orders AS SELECT id FROM base")
    with (
        running_sink(database, auto_evolve="true", table_types="VIEW") as task,
        pytest.raises(ConnectException, match="and ALTER VIEW is unsupported"),
    ):
        task.put([order(1)])


def test_rows_travel_from_table_to_table(database: TestedDatabase) -> None:
    """A source and a sink keep each value, and a repeated batch changes nothing."""
    database.execute(
        "CREATE TABLE src (id INTEGER PRIMARY KEY, word VARCHAR(20), price DECIMAL(9,2), day DATE)",
        "INSERT INTO src VALUES " + ", ".join(map(_row, range(1, 501))),
    )  # fmt: skip
    with running_source(
        database,
        mode="incrementing",
        incrementing_column_name="id",
        table_whitelist="src",
        batch_max_rows="64",
    ) as source:
        records = source.poll(500)
    keys = {
        "auto_create": "true",
        "insert_mode": "upsert",
        "pk_mode": "record_value",
        "pk_fields": "id",
        "table_name_format": "copy",
    }
    with running_sink(database, **keys) as task:
        task.put(as_sink_records(records[:300]))
        task.put(as_sink_records(records[200:]))
    day = "day" if database.kind != "sqlite" else "strftime('%Y-%m-%d', day / 1000, 'unixepoch')"
    copied = database.rows(f"SELECT id, word, price, {day} FROM copy ORDER BY id")
    assert copied == database.rows("SELECT id, word, price, day FROM src ORDER BY id")


def as_sink_records(records: list[SourceRecord]) -> list[SinkRecord]:
    return [
        SinkRecord(record.topic, 0, offset, record.value, record.value_schema)
        for offset, record in enumerate(records)
    ]


def _row(number: int) -> str:
    word = "NULL" if number % 7 == 0 else f"'w{number}'"
    return f"({number}, {word}, {number}.25, '2024-01-{1 + number % 28:02}')"
