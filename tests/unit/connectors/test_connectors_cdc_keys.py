"""The keys of the PostgreSQL source: what they choose, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.connectors.cdc.foreign_keys import keys_without_effect, refused_keys
from kcli.connectors.cdc.keys import KEYS, parse_identities
from kcli.connectors.cdc.naming import Naming
from kcli.connectors.cdc.settings import Settings, parse_statements
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
        ("topic.delimiter", "/"),
        ("field.name.adjustment.mode", "json"),
        ("replica.identity.autoset.values", "a.b:ALL"),
        ("replica.identity.autoset.values", "a.b:INDEX"),
        ("replica.identity.autoset.values", "FULL"),
        ("snapshot.mode", "configuration_based"),
        ("snapshot.select.statement.overrides", "a.b"),
        ("guardrail.collections.limit.action", "ignore"),
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


ACCEPTED = {
    "database.query.timeout.ms": "600000", "lsn.flush.timeout.ms": "30000", "flush.lsn.source": "true",
    "event.processing.failure.handling.mode": "fail", "max.queue.size.in.bytes": "0", "snapshot.max.threads": "1",
    "query.fetch.size": "0", "xmin.fetch.interval.ms": "0", "slot.failover": "false",
    "incremental.snapshot.watermarking.strategy": "INSERT_INSERT", "incremental.snapshot.chunk.size": "1024",
    "snapshot.lock.timeout.ms": "10000", "snapshot.isolation.mode": "serializable", "snapshot.locking.mode": "none",
    "snapshot.query.mode": "select_all", "schema.refresh.mode": "columns_diff", "signal.enabled.channels": "source",
    "signal.poll.interval.ms": "5000", "include.unknown.datatypes": "false", "include.schema.comments": "false",
    "table.ignore.builtin": "true", "snapshot.tables.order.by.row.count": "disabled", "converters": "",
    "openlineage.integration.enabled": "false", "connection.validation.timeout.ms": "60000",
    "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",
    "sourceinfo.struct.maker": "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
}  # fmt: skip
"""Keys that the connector does not have, with the defaults of Debezium."""
REFUSED = (
    "database.sslfactory", "slot.stream.params", "snapshot.mode.custom.name", "snapshot.query.mode.custom.name",
    "snapshot.locking.mode.custom.name", "openlineage.integration.job.owners", "heartbeat.topics.prefix",
    "signal.data.collection", "notification.enabled.channels", "notification.sink.topic.name", "custom.metric.tags",
    "internal.log.position.check.enable", "internal.snapshot.scan.all.columns.force", "signal.kafka.topic",
    "column.mask.hash", "column.truncate.to.x.chars",
)  # fmt: skip


def test_the_defaults_of_debezium_are_accepted() -> None:
    assert refused_keys(ACCEPTED) == {}
    changed = {key: "other" for key in ACCEPTED if key not in keys_without_effect(ACCEPTED)}
    assert list(refused_keys(changed)) == list(changed)


def test_keys_that_would_change_events_are_refused() -> None:
    assert list(refused_keys(dict.fromkeys(REFUSED, "x"))) == list(REFUSED)


@pytest.mark.parametrize(
    ("chosen", "mode"),
    [
        ("snapshot.data start.stream", "initial"),
        ("snapshot.data", "initial_only"),
        ("start.stream snapshot.on.data.error", "no_data"),
        ("snapshot.data start.stream snapshot.on.data.error", "when_needed"),
    ],
)
def test_a_mode_is_based_on_the_configuration(chosen: str, mode: str) -> None:
    keys = {f"snapshot.mode.configuration.based.{name}": "true" for name in chosen.split()}
    assert Settings.of({**NEEDED, "snapshot.mode": "CONFIGURATION_BASED", **keys}).snapshot_mode == mode


def test_replica_identities_are_chosen_by_table() -> None:
    chosen = parse_identities("public\\.orders:full, s\\..*:INDEX my Key,a.b:nothing,")
    assert [identity for _, identity in chosen] == ["FULL", 'USING INDEX "my Key"', "NOTHING"]
    assert [matches("s.x") for matches, _ in chosen] == [False, True, False]


def test_initial_statements_are_divided_at_single_semicolons() -> None:
    assert parse_statements("SET a = 1; SELECT ';;x' ;") == ["SET a = 1", "SELECT ';x'"]
    assert parse_statements("") == []


def test_names_are_joined_and_adjusted() -> None:
    naming = Naming("a-b", "_", "avro", "avro")
    assert naming.topic("s", "t x") == "a-b_s_t_x"
    assert naming.schema("a-b_s", "Key") == "a_b_s.Key"
    assert [naming.field(name) for name in ("a-b", "1c", "é", "a.b")] == ["a_b", "_1c", "_", "a_b"]
    naming = Naming("p", schema_adjustment="avro_unicode", field_adjustment="avro_unicode")
    assert naming.schema("p.We-ird_t", "Value") == "p.We_u002dird_u005ft.Value"
    names = ("a-b", "1c", "é", "a.b", "_a", "\U0001f600")
    assert [naming.field(name) for name in names] == [
        "a_u002db", "_u0031c", "_u00e9", "a_u002eb", "_u005fa", "_ud83d_ude00"
    ]  # fmt: skip
    plain = Naming("p")
    assert (plain.topic("s", "t"), plain.schema("p.s-t", "Key"), plain.field("1-c")) == (
        "p.s.t",
        "p.s-t.Key",
        "1-c",
    )
    events = settings(topic_delimiter="_", provide_transaction_metadata="true").events
    assert (events.heartbeat_topic, events.transaction_topic, events.message_topic) == (
        "__debezium-heartbeat_shop", "shop_transaction", "shop.message"
    )  # fmt: skip


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
