"""The PostgreSQL source connector on a real server: snapshot, stream, restarts, and lost connections."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from decimal import Decimal

import pytest

from kcli.connectors.cdc import capture, snapshot
from kcli.connectors.cdc.source import PostgresConnector
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.structs import Struct
from rigs.cdc import PATIENCE_S, Captured, Stored, captured_database, events, part, running
from rigs.databases import Server


@pytest.fixture
def captured(postgresql: Server) -> Iterator[Captured]:
    with captured_database(postgresql) as it:
        yield it


def create(captured: Captured, rows: int = 2) -> None:
    captured.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)",
        f"INSERT INTO orders SELECT n, 'note ' || n FROM generate_series(1, {rows}) n",
    )


def terminate(captured: Captured) -> None:
    captured.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'kcli connect' AND datname = current_database()"
    )


def test_a_snapshot_is_followed_by_the_stream(captured: Captured) -> None:
    create(captured)
    captured.execute("CREATE TABLE other (a INTEGER)", "INSERT INTO other VALUES (7)")
    with running(captured, snapshot_fetch_size="1") as it:
        records = it.poll(3)
        assert events(records) == [("r", 1), ("r", 2), ("r", 7)]
        assert [record.topic for record in records] == ["shop.public.orders"] * 2 + ["shop.public.other"]
        places = [part(record, "source").get("snapshot") for record in records]
        assert places == ["first", "last_in_data_collection", "last"]
        assert [record.source_offset["last_snapshot_record"] for record in records] == [False, False, True]
        captured.execute(
            "INSERT INTO orders VALUES (3, 'x')", "UPDATE orders SET note = 'y' WHERE id = 1",
            "UPDATE orders SET id = 4 WHERE id = 2", "DELETE FROM orders WHERE id = 3", "TRUNCATE other",
        )  # fmt: skip
        records = it.poll(7)
        assert events(records) == [
            ("c", 3), ("u", 1), ("d", 2), ("-", 2), ("c", 4), ("d", 3), ("-", 3)
        ]  # fmt: skip
        assert {part(record, "source").get("snapshot") for record in records if record.value} == {"false"}
        assert it.quiet() == []


def test_changes_during_a_snapshot_are_in_the_stream(captured: Captured) -> None:
    create(captured, rows=5)
    with running(captured, max_batch_size="1", snapshot_fetch_size="1") as it:
        assert events(it.poll(1)) == [("r", 1)]
        captured.execute("UPDATE orders SET note = 'new' WHERE id = 5", "INSERT INTO orders VALUES (6)")
        assert events(it.poll(6)) == [("r", 2), ("r", 3), ("r", 4), ("r", 5), ("u", 5), ("c", 6)]


def test_a_restart_continues_after_the_stored_offset(captured: Captured) -> None:
    create(captured)
    stored = Stored()
    with running(captured, stored) as it:
        it.poll(2)
        # One COPY and one transaction, of which a part is acknowledged.
        captured.execute("INSERT INTO orders SELECT n FROM generate_series(3, 8) n")
        records = it.poll(6, acknowledged=False)
        it.acknowledge(records[3])
    captured.execute("INSERT INTO orders VALUES (9)")
    with running(captured, stored) as it:
        assert events(it.poll(3)) == [("c", 7), ("c", 8), ("c", 9)]
        assert it.quiet() == []


def test_rows_of_one_wal_record_have_different_offsets(captured: Captured) -> None:
    create(captured, rows=1)
    stored = Stored()
    with running(captured, stored) as it:
        it.poll(1)
        import psycopg

        with psycopg.connect(
            host="127.0.0.1", port=int(captured.keys["database.port"]), user=captured.keys["database.user"],
            dbname=captured.database.path,
        ) as connection, connection.cursor().copy("COPY orders FROM STDIN") as copy:  # fmt: skip
            for number in range(2, 7):
                copy.write_row((number, "copied"))
        records = it.poll(5, acknowledged=False)
        assert len({record.source_offset["lsn"] for record in records}) == 1
        it.acknowledge(records[1])
    with running(captured, stored) as it:
        assert events(it.poll(3)) == [("c", 4), ("c", 5), ("c", 6)]


def test_an_interrupted_snapshot_begins_again(captured: Captured) -> None:
    create(captured, rows=4)
    stored = Stored()
    with running(captured, stored, max_batch_size="2") as it:
        it.poll(2)
    captured.execute("UPDATE orders SET note = 'between' WHERE id = 1", "INSERT INTO orders VALUES (5)")
    with running(captured, stored) as it:
        records = it.poll(5)
        assert events(records) == [("r", number) for number in (2, 3, 4, 1, 5)]
        # The slot is older than the snapshot, and the rows of the first attempt may be deleted by now.
        assert events(it.poll(2)) == [("u", 1), ("c", 5)]
        captured.execute("INSERT INTO orders VALUES (6)")
        assert events(it.poll(1)) == [("c", 6)]


def test_a_lost_connection_is_made_again(captured: Captured) -> None:
    create(captured)
    with running(captured) as it:
        it.poll(2)
        captured.execute("INSERT INTO orders VALUES (3)")
        assert events(it.poll(1)) == [("c", 3)]
        terminate(captured)
        captured.execute("INSERT INTO orders VALUES (4)")
        assert events(it.poll(1)) == [("c", 4)]
        assert it.retries and "lost" in str(it.retries[0])


def test_a_connection_that_is_lost_in_a_snapshot_begins_it_again(captured: Captured) -> None:
    create(captured, rows=6)
    with running(captured, max_batch_size="1", snapshot_fetch_size="1") as it:
        it.poll(1)
        terminate(captured)
        records = it.poll(6)
        assert it.retries
        assert events(records)[-6:] == [("r", number) for number in range(1, 7)]


def test_the_slot_moves_only_after_the_offset_is_stored(captured: Captured) -> None:
    create(captured)
    with running(captured) as it:
        it.poll(2)
        it.quiet()
        it.task.commit()
        ((active, before),) = captured.slots()
        assert active
        captured.execute("INSERT INTO orders VALUES (3)", "INSERT INTO orders VALUES (4)")
        record, _ = it.poll(2, acknowledged=False)
        it.task._next_confirmation = 0
        it.task.commit()
        it.quiet()
        ((_, unchanged),) = captured.slots()
        assert unchanged == before
        it.acknowledge(record)
        captured.execute("CREATE TABLE other AS SELECT 1 AS a")
        it.poll(1)
        it.task._next_confirmation = 0
        it.task.commit()
        assert captured.slots()[0][1] > before


def test_a_lost_slot_is_a_clear_error_or_a_new_snapshot(captured: Captured) -> None:
    create(captured)
    stored = Stored()
    with running(captured, stored) as it:
        it.poll(2)
    captured.drop_slot()
    captured.execute("DELETE FROM orders WHERE id = 1")
    with (
        running(captured, stored) as it,
        pytest.raises(ConnectException, match=r"does not exist any more.* are lost"),
    ):
        it.poll(1)
    with running(captured, stored, snapshot_mode="when_needed") as it:
        assert events(it.poll(1)) == [("r", 2)]


def test_a_position_that_the_server_has_not_reached_is_an_error(captured: Captured) -> None:
    create(captured)
    with running(captured) as it:
        it.poll(2)
        it.quiet()
    stored = Stored({"lsn": 1 << 60, "lsn_proc": 1 << 60, "lsn_commit": 1 << 60})
    with running(captured, stored) as it, pytest.raises(ConnectException, match="after the end of the WAL"):
        it.poll(1)
    with running(captured, stored, snapshot_mode="when_needed") as it:
        assert events(it.poll(2)) == [("r", 1), ("r", 2)]


def test_a_task_that_is_not_polled_still_reports_its_position(captured: Captured) -> None:
    create(captured)

    def replied() -> object:
        return captured.database.rows(
            "SELECT reply_time FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid"
            f" WHERE slot_name = '{captured.keys['slot.name']}'"
        )

    with running(captured, status_update_interval_ms="20") as it:
        it.poll(2)
        it.quiet()
        first, deadline = replied(), time.monotonic() + PATIENCE_S
        while replied() == first:
            assert time.monotonic() < deadline, "no reply"
            time.sleep(0.02)


def test_the_snapshot_mode_chooses_when_rows_are_read(captured: Captured) -> None:
    create(captured)
    with running(captured, snapshot_mode="never") as it:
        it.quiet()
        captured.execute("INSERT INTO orders VALUES (3)")
        assert events(it.poll(1)) == [("c", 3)]
        stored = it.stored
    for _ in range(2):
        with running(captured, stored, snapshot_mode="always") as it:
            assert events(it.poll(3)) == [("r", 1), ("r", 2), ("r", 3)]
            assert it.quiet() == []
    captured.drop_slot()
    stored = Stored()
    with running(captured, stored, snapshot_mode="initial_only") as it:
        assert len(it.poll(3)) == 3
        captured.execute("INSERT INTO orders VALUES (4)")
        assert it.quiet() == []
    with running(captured, stored, snapshot_mode="initial_only") as it:
        assert it.quiet() == []
    assert captured.slots() == []


def test_columns_that_change_appear_in_records(captured: Captured) -> None:
    create(captured, rows=1)
    with running(captured) as it:
        it.poll(1)
        captured.execute(
            "ALTER TABLE orders ADD price NUMERIC(7,2) NOT NULL DEFAULT 1.5",
            "INSERT INTO orders VALUES (2, 'a', 3)",
            "ALTER TABLE orders DROP note", "ALTER TABLE orders RENAME price TO cost",
            "ALTER TABLE orders ALTER cost TYPE TEXT", "INSERT INTO orders VALUES (3, 'cheap')",
        )  # fmt: skip
        first, second = (part(record, "after") for record in it.poll(2))
        assert first.values == [2, "a", Decimal("3.00")]
        assert list(second.schema.positions) == ["id", "cost"]
        assert second.values == [3, "cheap"]


def test_types_are_equal_in_the_snapshot_and_in_the_stream(captured: Captured) -> None:
    columns = {
        "a": ("BOOLEAN", "true"), "b": ("SMALLINT[]", "'{1,NULL}'"), "c": ("NUMERIC", "1.230"),
        "d": ("BIT(3)", "B'101'"),
        "e": ("TIMESTAMPTZ(3)", "'2024-02-29 11:00:01.25+01'"), "f": ("mood", "'sad'"), "g": ("price", "1.5"),
        "h": ("JSONB", "'{\"a\":1}'"), "i": ("INTERVAL", "'1 day -2:00'"), "j": ("MONEY", "'-1234.5'"),
        "k": ("BYTEA", "'\\x00ff'"), "l": ("DATE", "'infinity'"), "m": ("TEXT[]", "ARRAY['a b', '\"']"),
        "n": ("INT4RANGE", "'[1,5)'"), "o": ("CHAR(3)", "'x'"), "p": ("TIME(3)", "'10:00:01.5'"),
        "q": ("UUID", "'6f1e3f1a-0000-4000-8000-000000000001'"), "r": ("REAL", "'NaN'"), "s": ("mood[]", "'{glad}'"),
        "t": ("BOX[]", "'{(1,1),(0,0);(3,3),(2,2)}'"), "u": ("INT2VECTOR", "'1 2'"), "v": ("TEXT[]", "'{}'"),
        "w": ("NUMERIC[]", "'{1.50,NULL}'"),
    }  # fmt: skip
    values = ", ".join(value for _, value in columns.values())
    captured.execute(
        "CREATE TYPE mood AS ENUM ('glad', 'sad')", "CREATE DOMAIN price AS NUMERIC(7,2)",
        "CREATE TABLE t (id INT PRIMARY KEY, twice INT GENERATED ALWAYS AS (id * 2) STORED, "
        + ", ".join(f"{name} {kind} NOT NULL" for name, (kind, _) in columns.items()) + ")",
        f"INSERT INTO t VALUES (1, DEFAULT, {values})",
    )  # fmt: skip
    with running(captured) as it:
        (read,) = it.poll(1)
        captured.execute(f"INSERT INTO t VALUES (2, DEFAULT, {values})")
        (created,) = it.poll(1)
    assert read.value_schema == created.value_schema
    before, after = part(read, "after"), part(created, "after")
    assert repr(before.values[1:]) == repr(after.values[1:])
    assert list(after.schema.positions) == ["id", *columns], "a generated column is not published"
    shown = {name: after.get(name) for name in columns}
    assert isinstance(shown["c"], Struct) and shown["c"].get("scale") == 2
    assert (shown["d"], shown["e"], shown["g"]) == (b"\x05", "2024-02-29T10:00:01.250Z", Decimal("1.50"))
    assert (shown["i"], shown["j"], shown["m"]) == (79_200_000_000, Decimal("-1234.50"), ["a b", '"'])
    assert (shown["n"], shown["o"], shown["s"]) == ("[1,5)", "x  ", ["glad"])
    assert (shown["t"], shown["u"], shown["v"]) == ("{(1,1),(0,0);(3,3),(2,2)}", "1 2", [])


def test_large_values_that_do_not_change_have_a_placeholder(captured: Captured) -> None:
    captured.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, big TEXT NOT NULL)", "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t VALUES (1, 1, repeat('x', 5000))",
    )  # fmt: skip
    with running(captured) as it:
        assert len(part(it.poll(1)[0], "after").get("big")) == 5000
        captured.execute("UPDATE t SET n = 2")
        assert part(it.poll(1)[0], "after").values == [1, 2, "__debezium_unavailable_value"]
        captured.execute("ALTER TABLE t REPLICA IDENTITY FULL", "UPDATE t SET n = 3")
        (full,) = it.poll(1)
        assert part(full, "before").get("n") == 2
        assert len(part(full, "after").get("big")) == 5000


def test_partitions_and_filters(captured: Captured) -> None:
    captured.execute(
        "CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)", "INSERT INTO p VALUES (1)",
        "CREATE TABLE ignored (id INT PRIMARY KEY)",
    )  # fmt: skip
    keys = {"publication_autocreate_mode": "filtered", "publish_via_partition_root": "true",
            "table_include_list": "public\\.p"}  # fmt: skip
    with running(captured, **keys) as it:
        (read,) = it.poll(1)
        captured.execute("INSERT INTO ignored VALUES (1)", "INSERT INTO p VALUES (2)")
        (created,) = it.poll(1)
        assert read.topic == created.topic == "shop.public.p"
        assert captured.database.rows("SELECT tablename FROM pg_publication_tables") == [("p",)]


def test_heartbeats_move_the_slot_while_no_table_changes(captured: Captured) -> None:
    create(captured, rows=1)
    captured.execute("CREATE TABLE beats (at TIMESTAMP)")
    keys = {"heartbeat_interval_ms": "50", "heartbeat_action_query": "INSERT INTO beats VALUES (now())",
            "table_exclude_list": "public\\.beats"}  # fmt: skip
    with running(captured, **keys) as it:
        it.poll(1)
        beats = it.poll(3)
        assert {record.topic for record in beats} == {"__debezium-heartbeat.shop"}
        it.task.commit()
        # The server sends WAL only after it is flushed, which may take a while.
        while it.poll(1)[-1].source_offset["lsn_commit"] == beats[0].source_offset["lsn_commit"]:
            pass
        assert captured.database.rows("SELECT count(*) FROM beats")[0][0] >= 2


def test_logical_decoding_messages_are_read_once(captured: Captured) -> None:
    create(captured, rows=1)
    emit = "SELECT pg_logical_emit_message({}, '{}', '{}')"
    stored = Stored()
    with running(captured, stored) as it:
        it.poll(1)
        captured.execute(emit.format("false", "audit", "between"), emit.format("true", "audit", "inside"))
        records = it.poll(2)
        assert {record.topic for record in records} == {"shop.message"}
        assert {part(record, "message").values[1] for record in records} == {b"between", b"inside"}
    captured.execute(emit.format("false", "audit", "later"), emit.format("false", "noise", "x"))
    with running(captured, stored, message_prefix_include_list="au.*") as it:
        assert [part(record, "message").values for record in it.poll(1)] == [["audit", b"later"]]
        assert it.quiet() == []


def test_a_snapshot_reads_chosen_tables_with_chosen_statements(captured: Captured) -> None:
    create(captured, rows=4)
    captured.execute("CREATE TABLE other AS SELECT 7 AS a", "ALTER TABLE other REPLICA IDENTITY FULL")
    keys = {
        "snapshot_include_collection_list": "public\\.orders", "snapshot_select_statement_overrides": "public.orders",
        "snapshot_select_statement_overrides_public_orders": "SELECT * FROM orders WHERE id > 2 ORDER BY id DESC; ",
        "snapshot_delay_ms": "1", "streaming_delay_ms": "1", "snapshot_mode": "configuration_based",
        "snapshot_mode_configuration_based_snapshot_data": "true",
        "snapshot_mode_configuration_based_start_stream": "true",
    }  # fmt: skip
    with running(captured, **keys) as it:
        assert events(it.poll(2)) == [("r", 4), ("r", 3)]
        captured.execute("UPDATE other SET a = 8")
        assert events(it.poll(1)) == [("u", 8)]


def test_replica_identities_and_connections_are_prepared(captured: Captured) -> None:
    create(captured, rows=1)
    captured.execute("CREATE TABLE marks (a INT)", "CREATE UNIQUE INDEX by_note ON orders (id)")
    keys = {
        "replica_identity_autoset_values": "public\\.orders:FULL",
        "database_initial_statements": "SET search_path = public; INSERT INTO marks VALUES (1)",
        "guardrail_collections_max": "2", "guardrail_collections_limit_action": "fail",
    }  # fmt: skip
    with running(captured, **keys, table_include_list="public\\.orders") as it:
        it.poll(1)
        captured.execute("UPDATE orders SET note = 'new'")
        (updated,) = it.poll(1)
        assert part(updated, "before").values == [1, "note 1"]
        assert captured.database.rows("SELECT count(*) > 0 FROM marks") == [(True,)]
    captured.execute("CREATE TABLE third (a INT)")
    with (
        running(captured, **keys) as it,
        pytest.raises(ConnectException, match="3 tables are captured: expected at most 2"),
    ):
        it.poll(1)
    keys = {"replica_identity_autoset_values": "public\\.orders:INDEX orders_pkey"}
    with running(captured, Stored(it.stored.value), **keys) as again:
        again.poll(1)
        assert captured.database.rows("SELECT relreplident FROM pg_class WHERE relname = 'orders'") == [
            ("i",)
        ]


def test_a_second_task_on_a_slot_gives_up_after_its_retries(captured: Captured) -> None:
    create(captured)
    with running(captured) as first:
        first.poll(2)
        first.quiet()
        stored = Stored(first.stored.value)
        with (
            running(captured, stored, slot_max_retries="2", slot_retry_delay_ms="1") as second,
            pytest.raises(ConnectException, match=r"after 2 retries.*is active"),
        ):
            second.poll(1)


def test_a_slot_is_dropped_when_its_key_says_so(captured: Captured) -> None:
    create(captured)
    with running(captured, slot_drop_on_stop="true") as it:
        it.poll(2)
        it.quiet()
        assert len(captured.slots()) == 1
    assert captured.slots() == []


def test_a_missing_publication_and_a_foreign_slot_are_errors(captured: Captured) -> None:
    create(captured)
    with running(captured, publication_autocreate_mode="disabled") as it, pytest.raises(
        ConnectException, match="publication dbz_publication does not exist"
    ):  # fmt: skip
        it.poll(1)
    captured.execute(
        f"SELECT pg_create_logical_replication_slot('{captured.keys['slot.name']}', 'test_decoding')"
    )
    with (
        running(captured) as it,
        pytest.raises(ConnectException, match="belongs to the plugin test_decoding"),
    ):
        it.poll(1)


def test_a_stop_ends_a_wait_for_running_transactions(captured: Captured) -> None:
    create(captured)
    import psycopg

    with psycopg.connect(
        host="127.0.0.1", port=int(captured.keys["database.port"]), user=captured.keys["database.user"],
        dbname=captured.database.path,
    ) as blocker:  # fmt: skip
        blocker.execute("INSERT INTO orders VALUES (3)")
        with running(captured) as it:
            # The slot waits for the transaction to end.
            timer = threading.Timer(0.3, it.task.stop)
            timer.start()
            assert it.task.poll() is None
            timer.join()


def test_a_validation_looks_at_the_server(captured: Captured) -> None:
    wrong = {**captured.keys, "database.dbname": "missing"}
    (errors,) = PostgresConnector().validate(wrong).values()
    assert 'database "missing" does not exist' in errors[0]


def test_a_publication_that_is_dropped_fails_the_task(captured: Captured) -> None:
    create(captured)
    with running(captured) as it:
        it.poll(2)
        it.quiet()
        captured.execute("DROP PUBLICATION dbz_publication")
        captured.execute("INSERT INTO orders VALUES (3)")
        with pytest.raises(ConnectException, match='publication "dbz_publication" does not exist'):
            it.poll(1)


def test_a_table_without_rights_fails_the_task(captured: Captured) -> None:
    create(captured)
    role = f"reader_{os.getpid()}"
    captured.execute(
        f"CREATE ROLE {role} LOGIN REPLICATION", "CREATE PUBLICATION dbz_publication FOR ALL TABLES"
    )
    try:
        with running(captured, database_user=role) as it, pytest.raises(
            ConnectException, match="permission denied for table orders"
        ):  # fmt: skip
            it.poll(1)
    finally:
        captured.drop_slot()
        captured.execute(f"DROP ROLE {role}")


def test_names_with_quotes_and_capitals_are_captured(captured: Captured) -> None:
    captured.execute(
        'CREATE SCHEMA "Odd"', 'CREATE TABLE "Odd"."My ""T" ("a""b" INT PRIMARY KEY, "select" TEXT)',
        """INSERT INTO "Odd"."My ""T" VALUES (1, '''\\')""",
    )  # fmt: skip
    with running(captured, publication_autocreate_mode="filtered", publication_name='p"1') as it:
        (read,) = it.poll(1)
        captured.execute("""INSERT INTO "Odd"."My ""T" VALUES (2, NULL)""")
        (created,) = it.poll(1)
        assert read.topic == created.topic == "shop.Odd.My__T"
        assert part(read, "after").values == [1, "'\\"]
        assert list(created.key_schema.positions) == ['a"b']


def test_a_slot_that_is_dropped_while_the_task_runs_is_a_clear_error(captured: Captured) -> None:
    create(captured)
    with running(captured) as it:
        it.poll(2)
        captured.execute("INSERT INTO orders VALUES (3)")
        assert events(it.poll(1)) == [("c", 3)]
        captured.drop_slot()
        captured.execute("INSERT INTO orders VALUES (4)")
        with pytest.raises(ConnectException, match=r"does not exist any more.* are lost"):
            it.poll(1)


def test_a_slot_that_is_dropped_while_the_task_runs_begins_a_new_snapshot(captured: Captured) -> None:
    create(captured)
    with running(captured, snapshot_mode="when_needed") as it:
        it.poll(2)
        captured.execute("INSERT INTO orders VALUES (3)")
        assert events(it.poll(1)) == [("c", 3)]
        captured.drop_slot()
        captured.execute("INSERT INTO orders VALUES (4)", "DELETE FROM orders WHERE id < 3")
        # The first row of the snapshot comes twice, because the worker stores its offset before the slot is made.
        assert events(it.poll(3)) == [("r", 3), ("r", 3), ("r", 4)]
        captured.execute("INSERT INTO orders VALUES (5)")
        assert events(it.poll(1)) == [("c", 5)]


def test_a_crash_before_the_offset_of_a_new_snapshot_is_stored_loses_nothing(captured: Captured) -> None:
    create(captured)
    stored = Stored()
    with running(captured, stored) as it:
        it.poll(2)
    captured.drop_slot()
    captured.execute("INSERT INTO orders VALUES (3), (4)")
    with running(captured, stored, snapshot_mode="when_needed", max_batch_size="1") as it:
        it.poll(1, acknowledged=False)
    captured.execute("INSERT INTO orders VALUES (5)")
    with running(captured, stored, snapshot_mode="when_needed") as it:
        assert [number for _, number in events(it.poll(6))] == [1, 1, 2, 3, 4, 5]


def test_a_new_snapshot_begins_also_if_its_announcement_is_dropped_or_has_no_row(captured: Captured) -> None:
    create(captured, rows=1)
    stored = Stored()
    with running(captured, stored) as it:
        it.poll(1)
    place = stored.value
    for statement, expected in (("SELECT 1", [("r", 1)]), ("DELETE FROM orders", [])):
        captured.drop_slot()
        captured.execute(statement)
        with running(captured, stored, snapshot_mode="when_needed") as it:
            assert events(it.poll(len(expected), acknowledged=False)) == expected
            for _ in range(3):
                it.task._next_confirmation = 0
                it.task.commit()  # a transformation has dropped the record, so the offset stays
                assert stored.value == place
            assert events(it.poll(len(expected), acknowledged=False)) == expected
            assert it.quiet() == []
            captured.execute("INSERT INTO orders VALUES (7)", "DELETE FROM orders WHERE id = 7")
            assert [op for op, _ in events(it.poll(3, acknowledged=False))] == ["c", "d", "-"]


def test_a_table_of_one_row_ends_with_it_and_fields_have_defaults(captured: Captured) -> None:
    captured.execute(
        "CREATE TABLE first (id SERIAL PRIMARY KEY, at TIMESTAMP(3) NOT NULL DEFAULT now())",
        "CREATE TABLE middle (id INT PRIMARY KEY, note TEXT DEFAULT 'it''s')",
        "CREATE TABLE z (id INT PRIMARY KEY)",
        "INSERT INTO first DEFAULT VALUES", "INSERT INTO middle VALUES (1)", "INSERT INTO z VALUES (1)",
    )  # fmt: skip
    with running(captured) as it:
        first, middle, last = it.poll(3)
        captured.execute("DELETE FROM first")
        gone, _ = it.poll(2)
    assert [part(record, "source").get("snapshot") for record in (first, middle, last)] == [
        "first", "last_in_data_collection", "last"
    ]  # fmt: skip
    xid = part(first, "source").get("txId")
    assert isinstance(xid, int) and xid > 0
    assert first.key_schema is not None and first.key_schema.fields[0].schema.default == 0
    assert part(middle, "after").schema.fields[1].schema.default == "it's"
    assert part(gone, "before").values == [1, 0], "the identity has the key only"


def test_large_rows_make_small_batches(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (capture, snapshot):
        monkeypatch.setattr(module, "BATCH_BYTES", 200_000)
    captured.execute("CREATE TABLE t (id INT PRIMARY KEY, big TEXT)")
    insert = "INSERT INTO t SELECT n, repeat('x', 50000) FROM generate_series({}, {}) n"
    captured.execute(insert.format(1, 300))
    with running(captured, poll_interval_ms="1000") as it:
        batches = it.batches(300)
        assert [number for _, number in events(itertools.chain(*batches))] == [*range(1, 301)]
        assert max(map(len, batches)) <= 5
        captured.execute(insert.format(301, 320))
        batches = it.batches(20)
        assert [number for _, number in events(itertools.chain(*batches))] == [*range(301, 321)]
        assert max(map(len, batches)) <= 4
