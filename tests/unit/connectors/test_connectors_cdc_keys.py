"""The keys of the PostgreSQL source: what they choose, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.connectors.cdc.foreign_keys import keys_without_effect, refused_keys
from kcli.connectors.cdc.keys import KEYS, Settings
from kcli.connectors.cdc.source import PostgresConnector
from kcli.formats.connect.errors import ConnectException

ROOT = Path(__file__).resolve().parents[3]
NEEDED = {
    "database.hostname": "127.0.0.1",
    "database.port": "1",
    "database.user": "u",
    "database.dbname": "db",
    "topic.prefix": "shop",
}


def settings(**keys: str) -> Settings:
    return Settings.of({**NEEDED, **{key.replace("_", "."): value for key, value in keys.items()}})


def test_the_example_is_valid() -> None:
    config = load(str(ROOT / "config/connect-postgresql-source.properties"))
    Settings.of(config)
    assert config.keys() - set(KEYS) == {"name", "connector.class", "tasks.max"}
    assert refused_keys(config) == {}


def test_the_guide_names_every_key() -> None:
    guide = (ROOT / "docs/connect-postgresql.md").read_text()
    assert [key for key in KEYS if f"`{key}`" not in guide] == []


def test_expressions_choose_tables_and_columns() -> None:
    choice = settings(table_include_list="public\\.orders, Sales\\..*").choice
    assert [
        choice.captures(*table) for table in (("public", "orders"), ("sales", "A"), ("public", "orders2"))
    ] == [True, True, False]
    choice = settings(
        schema_exclude_list="internal", table_exclude_list="a\\.b", column_include_list="a\\.c\\.x"
    ).choice
    assert [choice.captures(*table) for table in (("internal", "t"), ("a", "b"), ("a", "c"))] == [
        False,
        False,
        True,
    ]
    assert [choice.includes(column) for column in ("a.c.x", "a.c.y")] == [True, False]


def test_key_columns_are_chosen_by_table() -> None:
    choice = settings(message_key_columns="a\\.b: x, y ;.*\\.c:z;").choice
    assert [choice.key_columns(table) for table in ("a.b", "q.c", "a.d")] == [("x", "y"), ("z",), None]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("plugin.name", "decoderbufs"),
        ("slot.name", "Upper"),
        ("slot.name", ""),
        ("topic.prefix", "a b"),
        ("snapshot.mode", "custom"),
        ("hstore.handling.mode", "list"),
        ("time.precision.mode", "seconds"),
        ("table.include.list", "("),
        ("message.key.columns", "a.b"),
        ("message.key.columns", "a.b:x,"),
        ("skipped.operations", "t,none"),
        ("skipped.operations", "x"),
        ("column.exclude.list", "a"),
    ],
)
def test_invalid_values_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", "\\.")):
        Settings.of({**NEEDED, "column.include.list": "b", key: value})


def test_passwords_are_not_shown() -> None:
    parsed = Settings.of({**NEEDED, "database.password": "s3cret", "database.sslmode": "require"})
    assert parsed.connection["password"] == "s3cret"
    assert (parsed.connection["sslmode"], parsed.connection["keepalives"]) == ("require", "1")
    assert "s3cret" not in repr(parsed.connection.keys()) + repr(
        PostgresConnector.config_def["database.password"]
    )
    assert KEYS["database.password"].sensitive and KEYS["database.sslpassword"].sensitive


def test_keys_of_debezium_that_are_missing_here_are_refused_or_named() -> None:
    config = {
        **NEEDED, "signal.data.collection": "a.b", "notification.enabled.channels": "log", "database.foo": "1",
        "converters": "x", "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
        "schema.name.adjustment.mode": "none", "transforms": "t", "key.converter": "k", "max.queue.size": "8192",
    }  # fmt: skip
    errors = PostgresConnector().validate(config)
    assert set(errors) == {
        "signal.data.collection",
        "notification.enabled.channels",
        "database.foo",
        "converters",
    }
    assert "notifications are not supported" in errors["notification.enabled.channels"][0]
    assert list(keys_without_effect(config)) == ["max.queue.size"]


def test_a_validation_tells_that_the_server_is_not_reachable() -> None:
    connector = PostgresConnector()
    ((key, (error,)),) = connector.validate(NEEDED).items()
    assert key == "database.hostname" and error.startswith("Cannot connect to PostgreSQL: ")
    both = {**NEEDED, "table.include.list": "a", "table.exclude.list": "b"}
    assert list(connector.validate(both)) == ["table.exclude.list"]
    assert connector.validate({**NEEDED, "slot.name": "?"}) == {}, "the worker reports it"


def test_one_task_has_the_whole_configuration() -> None:
    connector = PostgresConnector()
    connector.start(NEEDED)
    assert connector.task_configs(7) == [NEEDED]
    assert connector.exactly_once_support(NEEDED) is True


def test_offsets_that_a_user_sets_are_checked() -> None:
    connector = PostgresConnector()
    server = {"server": "shop"}
    assert connector.alter_offsets(NEEDED, [(server, {"lsn": 5}), (server, None), (None, None)])
    for partition, offset in (
        (None, {"lsn": 5}),
        ({"table": "t"}, {"lsn": 5}),
        (server, {"lsn": "5"}),
        (server, {}),
    ):
        with pytest.raises(ConnectException):
            connector.alter_offsets(NEEDED, [(partition, offset)])
