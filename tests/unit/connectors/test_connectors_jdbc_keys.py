"""The keys of the JDBC connectors, and the checks that concern several keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.config.validation import validate
from kcli.connectors.interface import Config
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.sink import JdbcSinkConnector, JdbcSinkTask
from kcli.connectors.jdbc.sink_keys import SINK_KEYS
from kcli.connectors.jdbc.source import JdbcSourceConnector, contiguous_groups
from kcli.connectors.jdbc.source_keys import SOURCE_KEYS, SourceSettings
from kcli.connectors.jdbc.table_monitor import in_own_catalog
from kcli.formats.connect.errors import ConnectException

ROOT = Path(__file__).resolve().parents[3]
SQLITE = {"connection.url": "jdbc:sqlite::memory:"}
SOURCE = {**SQLITE, "mode": "bulk", "table.whitelist": "t"}


def test_the_examples_are_valid() -> None:
    for name, definition in (("source", SOURCE_KEYS), ("sink", SINK_KEYS)):
        config = load(str(ROOT / f"config/connect-jdbc-{name}.properties"))
        definition.parse(config)
        unknown = config.keys() - set(definition) - {"name", "connector.class", "tasks.max", "topics"}
        assert not unknown


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "mode",
            "sometimes",
            "String must be one of: , bulk, timestamp, incrementing, timestamp+incrementing",
        ),
        ("connection.attempts", "0", "Value must be at least 1"),
        ("dialect.name", "MyDialect", "Invalid enumerator"),
        ("db.timezone", "Nowhere", "Invalid time zone. See the list of valid time zones at"),
        ("topic.prefix", "a b", "Topic prefix must not contain any character other than ASCII alphanumerics"),
        ("topic.prefix", "a" * 250, "Topic prefix length must not exceed max topic name length, 249 chars"),
        ("table.include.list", "a(", "Must be a valid comma-separated list of regular expression patterns"),
        ("timestamp.columns.mapping", "a", "Invalid format. Expected 'regex:[col1|col2|...]'"),
        ("timestamp.columns.mapping", "a:b", "Columns list must be enclosed in square brackets"),
        ("timestamp.columns.mapping", "a:[]", "Columns list cannot be empty"),
        ("timestamp.columns.mapping", "a:[b|]", "Every column name should be non-empty string"),
        ("incrementing.column.mapping", "a:", "Column name cannot be empty"),
        ("incrementing.column.mapping", "(:b", "Invalid regular expression"),
        ("numeric.mapping", "best", "Invalid enumerator"),
        ("quote.sql.identifiers", "sometimes", "Invalid enumerator"),
        ("jdbc.credentials.provider.class", "my.Vault", "classes of Java are not supported"),
    ],
)
def test_invalid_values_of_source_keys(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SourceSettings.of({**SOURCE, key: value})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        (
            {"table.whitelist": ""},
            "table.blacklist",
            "At least one table filtering configuration is required.",
        ),
        (
            {"table.include.list": "x"},
            "table.whitelist",
            "Cannot mix legacy and new configuration approaches.",
        ),
        ({"query": "SELECT 1"}, "query", "Do not specify table filtering configs with 'query'."),
        (
            {"table.whitelist": "", "query": "SELECT 1", "query.masked": "SELECT 1"},
            "query.masked",
            "Both 'query' and 'query.masked' configs cannot be set at the same time.",
        ),
        ({"table.whitelist": "", "query": "DELETE FROM t"}, "query", "Only SELECT statements are supported"),
        (
            {"table.whitelist": "", "query": "SELECT 1", "mode": "incrementing"},
            "incrementing.column.name",
            "'incrementing.column.name' must be provided when using mode 'incrementing'",
        ),
        (
            {"table.whitelist": "", "query": "SELECT x FROM no_table"},
            "query",
            "The configured query is not valid",
        ),
        (
            {"transaction.isolation.mode": "SQL_SERVER_SNAPSHOT"},
            "transaction.isolation.mode",
            "Isolation mode of `SQL_SERVER_SNAPSHOT` can only be configured with a Sql Server Dialect",
        ),
        (
            {"table.whitelist": "", "table.exclude.list": "x"},
            "table.exclude.list",
            "table.exclude.list cannot be used without table.include.list.",
        ),
        (
            {"table.whitelist": "", "table.include.list": "x", "mode": "timestamp"},
            "mode",
            "Timestamp column configuration must be provided when using mode 'timestamp'",
        ),
        (
            {"table.whitelist": "", "table.include.list": "x", "incrementing.column.mapping": "x:y"},
            "mode",
            "Incrementing column configurations should not be provided if mode is not",
        ),
        ({"connection.url": "jdbc:nothing://h/d"}, "connection.url", "Could not connect to database."),
        (
            {"dialect.name": "Db2DatabaseDialect"},
            "connection.url",
            "Db2DatabaseDialect does not fit jdbc:sqlite",
        ),
        (
            {"connection.url": "jdbc:db2://h:1/d"},
            "connection.url",
            "The Python module ibm_db_sa is missing. Install",
        ),
    ],
)
def test_keys_that_do_not_fit_each_other(changes: Config, key: str, message: str) -> None:
    errors = JdbcSourceConnector().validate({**SOURCE, **changes})
    assert errors[key][0].startswith(message) or message in errors[key][0]


def test_a_masked_query_does_not_appear_in_errors() -> None:
    config = {**SQLITE, "mode": "bulk", "query.masked": "SELECT 'secret-word' FROM no_table"}
    errors = JdbcSourceConnector().validate(config)
    assert list(errors) == ["query.masked"]
    assert "secret-word" not in str(errors)


def test_forms_show_the_keys_of_the_mode() -> None:
    results = validate(SOURCE_KEYS, {**SOURCE, "mode": "timestamp"})
    assert results["timestamp.column.name"].visible
    assert not results["incrementing.column.name"].visible
    assert not results["query.masked"].visible
    assert results["numeric.mapping"].recommended == [
        "none",
        "precision_only",
        "best_fit",
        "best_fit_eager_double",
    ]
    assert validate(SOURCE_KEYS, SQLITE)["validate.non.null"].errors == ["Query mode must be specified"]


def test_deletes_need_the_key_of_the_record() -> None:
    config = {**SQLITE, "delete.enabled": "true", "pk.mode": "record_value"}
    message = ["Deletes are only supported for pk.mode record_key"]
    assert JdbcSinkConnector().validate(config) == {"pk.mode": message, "delete.enabled": message}
    with pytest.raises(
        ConfigError, match="Primary key mode must be 'record_key' when delete support is enabled"
    ):
        JdbcSinkTask().start(config)
    results = validate(SINK_KEYS, {**SQLITE, "delete.enabled": "true"})
    assert results["pk.mode"].recommended == ["record_key"]
    assert not results["delete.enabled"].visible


def test_tables_are_grouped_with_their_neighbours() -> None:
    tables = [TableName(None, None, str(number)) for number in range(5)]
    assert [len(group) for group in contiguous_groups(tables, 3)] == [2, 2, 1]
    assert sum(map(list, contiguous_groups(tables, 3)), []) == tables  # noqa: RUF017


def test_a_table_of_the_own_database_takes_precedence() -> None:
    shop, other, more = (
        TableName(*parts) for parts in (("shop", None, "t"), ("other", None, "t"), ("other", None, "u"))
    )
    assert in_own_catalog([other, more, shop], "shop") == [more, shop]
    assert in_own_catalog([other, more], "shop") == [other, more]


def test_only_offsets_of_the_right_form_may_be_set() -> None:
    connector = JdbcSourceConnector()
    table, query = {"protocol": "1", "table": "t"}, {"query": "query"}
    assert connector.alter_offsets(
        SOURCE, [(table, {"incrementing": 5}), (query, {"timestamp": 1}), ({}, None)]
    )
    for partition, offset in (
        ({"file": "x"}, {"incrementing": 1}),
        (table, {}),
        (table, {"incrementing": "5"}),
    ):
        with pytest.raises(ConnectException, match="expected"):
            connector.alter_offsets(SOURCE, [(partition, offset)])


def test_modes_with_a_number_can_be_exactly_once() -> None:
    support = JdbcSourceConnector().exactly_once_support
    modes = ("bulk", "timestamp", "incrementing", "timestamp+incrementing")
    assert [support({"mode": mode}) for mode in modes] == [False, False, True, True]


def test_a_task_without_tables_waits_or_fails() -> None:
    from kcli.connectors.jdbc.source import JdbcSourceTask

    task = JdbcSourceTask()
    task.start({**SOURCE, "tables": "", "tables.fetched": "false", "poll.linger.ms": "1"})
    assert task.poll() is None
    task.stop()
    with pytest.raises(ConfigError, match="it was not assigned a table nor a query to execute"):
        JdbcSourceTask().start({**SOURCE, "tables": "", "tables.fetched": "true"})
    with pytest.raises(ConfigError, match="cannot have both a table and a query"):
        JdbcSourceTask().start({**SQLITE, "mode": "bulk", "query": "SELECT 1", "tables": "t"})
