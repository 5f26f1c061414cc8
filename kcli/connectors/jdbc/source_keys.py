"""The keys of the source connector (io.confluent.connect.jdbc.source.JdbcSourceConnectorConfig)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    OneOf,
    Range,
    Width,
    invalid_value,
)
from kcli.connectors.jdbc.common_keys import (
    ATTEMPTS_KEY,
    BACKOFF_KEY,
    CALENDARS,
    CREDENTIALS_KEY,
    DIALECT_KEY,
    PASSWORD_KEY,
    QUOTE_KEY,
    TIME_ZONE_KEY,
    URL_KEY,
    USER_KEY,
    ConnectionSettings,
    Enumerator,
    connection_settings,
)
from kcli.connectors.jdbc.moments import GRANULARITIES, Zone
from kcli.connectors.keys import KeyGroup, names, number, text
from kcli.model.java_dates.zone_ids import time_zone
from kcli.model.java_regex import compile_java
from kcli.model.java_text import trim

BULK, INCREMENTING, TIMESTAMP = "bulk", "incrementing", "timestamp"
BOTH = "timestamp+incrementing"
TABLES, TABLES_FETCHED = "tables", "tables.fetched"
"""Keys that only a task has."""
CURRENT_TIME = -1
"""The value of timestamp.initial for the present time of the database."""
_TOPIC_PREFIX_MAX = 249
_INVALID_IN_TOPIC = re.compile(r"[^a-zA-Z0-9._-]")
_NUMERIC = Enumerator(("NONE", "PRECISION_ONLY", "BEST_FIT", "BEST_FIT_EAGER_DOUBLE"))
_GRANULARITY = Enumerator(tuple(name.upper() for name in GRANULARITIES))
_ISOLATION = Enumerator(
    (
        "DEFAULT", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE",
        "SQL_SERVER_SNAPSHOT",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _ModeDependent:
    """Shows the keys of columns in a form only with a mode that uses them."""

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return []

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        mode = values["mode"]
        if mode == "":
            raise ConfigError("Query mode must be specified")
        if mode not in (BULK, INCREMENTING, TIMESTAMP, BOTH):
            raise ConfigError(f"Invalid mode: {mode}")
        if key == "validate.non.null":
            return mode != BULK
        by_timestamp = key in ("timestamp.column.name", "timestamp.columns.mapping")
        by_number = key in ("incrementing.column.name", "incrementing.column.mapping")
        return (by_timestamp and mode in (TIMESTAMP, BOTH)) or (by_number and mode in (INCREMENTING, BOTH))


@dataclass(frozen=True, slots=True)
class _Hidden:
    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return []

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _Expressions:
    def check(self, key: str, value: ConfigValue) -> None:
        for item in _items(value):
            reason = _regex_error(item)
            if reason is not None:
                raise invalid_value(
                    key,
                    value,
                    f"Must be a valid comma-separated list of regular expression patterns: {reason}",
                )

    def __str__(self) -> str:
        return "a valid comma-separated list of Java regular expressions"


@dataclass(frozen=True, slots=True)
class _ColumnMapping:
    """A list of `regex:column`, or of `regex:[column|column]`."""

    several: bool

    def check(self, key: str, value: ConfigValue) -> None:
        for item in _items(value):
            expression, separator, columns = (trim(part) for part in item.partition(":"))
            if not separator or ":" in columns:
                form = "regex:[col1|col2|...]" if self.several else "regex:columnName"
                raise invalid_value(key, item, f"Invalid format. Expected '{form}'")
            reason = _regex_error(expression)
            if reason is not None:
                raise invalid_value(key, expression, f"Invalid regular expression: {reason}")
            if self.several:
                self._check_columns(key, columns)
            elif not columns:
                raise invalid_value(key, columns, "Column name cannot be empty")

    def _check_columns(self, key: str, columns: str) -> None:
        if not (columns.startswith("[") and columns.endswith("]")):
            raise invalid_value(key, columns, "Columns list must be enclosed in square brackets")
        inside = trim(columns[1:-1])
        if not inside:
            raise invalid_value(key, columns, "Columns list cannot be empty")
        if not all(map(trim, inside.split("|"))):
            raise invalid_value(key, columns, "Every column name should be non-empty string")

    def __str__(self) -> str:
        if self.several:
            return (
                "a list of mappings in the format 'regex:[col1|col2|...]' where regex is a valid Java regular"
                " expression and columns are valid column names"
            )
        return (
            "a list of mappings in the format 'regex:columnName' where regex is a valid Java regular"
            " expression and columnName is a valid column name"
        )


@dataclass(frozen=True, slots=True)
class _TopicPrefix:
    def check(self, key: str, value: ConfigValue) -> None:
        if not isinstance(value, str):
            raise invalid_value(key, value, "Topic prefix must not be null.")
        if len(trim(value)) > _TOPIC_PREFIX_MAX:
            raise invalid_value(
                key, value, "Topic prefix length must not exceed max topic name length, 249 chars"
            )
        if _INVALID_IN_TOPIC.search(trim(value)):
            raise invalid_value(
                key, value,
                "Topic prefix must not contain any character other than ASCII alphanumerics, '.', '_' and '-'.",
            )  # fmt: skip


def _items(value: ConfigValue) -> tuple[str, ...]:
    return tuple(map(trim, value)) if isinstance(value, tuple) else ()


def _regex_error(expression: str) -> str | None:
    try:
        compile_java(expression)
    except ValueError as error:
        return str(error)
    return None


_STRING, _LIST, _INT, _LONG = ConfigType.STRING, ConfigType.LIST, ConfigType.INT, ConfigType.LONG
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_MODE = _ModeDependent()


def _database_keys() -> list[ConfigKey]:
    from dataclasses import replace

    group = KeyGroup("Database")
    url = replace(URL_KEY, dependents=("table.whitelist", "table.blacklist"))
    group.add(url, "JDBC URL", Width.LONG)
    group.add(USER_KEY, "JDBC User", Width.LONG)
    group.add(PASSWORD_KEY, "JDBC Password", Width.SHORT)
    group.add(CREDENTIALS_KEY, "JDBC Credentials Provider Class", Width.LONG)
    group.add(ATTEMPTS_KEY, "JDBC connection attempts", Width.SHORT)
    group.add(BACKOFF_KEY, "JDBC connection backoff in milliseconds", Width.SHORT)
    for name, display, doc, validator in (
        ("table.whitelist", "Table Whitelist", "The tables to copy, by name.", None),
        ("table.blacklist", "Table Blacklist", "The tables not to copy, by name.", None),
        ("table.include.list", "Tables Included (Regex)",
         "Regular expressions of the fully qualified names of the tables to copy.", _Expressions()),
        ("table.exclude.list", "Tables Excluded (Regex)",
         "Regular expressions of tables that are not copied although table.include.list matches them.",
         _Expressions()),
    ):  # fmt: skip
        group.add(ConfigKey(name, _LIST, "", validator, _MEDIUM, doc), display, Width.LONG)
    group.add(
        ConfigKey("catalog.pattern", _STRING, None, None, _MEDIUM,
                  "The catalogs to look for tables in, with % and _. In MySQL, a catalog is a database."),
        "Schema pattern", Width.SHORT,
    )  # fmt: skip
    group.add(
        ConfigKey("schema.pattern", _STRING, None, None, _HIGH,
                  "The schemas to look for tables in, with % and _."),
        "Schema pattern", Width.SHORT,
    )  # fmt: skip
    group.add(
        ConfigKey("numeric.precision.mapping", ConfigType.BOOLEAN, "false", None, _LOW,
                  "The older form of numeric.mapping=precision_only."),
        "Map Numeric Values By Precision (deprecated)", Width.SHORT,
    )  # fmt: skip
    group.add(
        ConfigKey("numeric.mapping", _STRING, None, _NUMERIC, _LOW,
                  "How a NUMERIC column becomes a field: always a Decimal (none); an integer if it has no"
                  " fraction (precision_only); an integer or a float64 if that loses no digits (best_fit); also a"
                  " float64 if digits are lost (best_fit_eager_double).", recommender=_NUMERIC),
        "Map Numeric Values, Integral or Decimal, By Precision and Scale", Width.SHORT,
    )  # fmt: skip
    group.add(DIALECT_KEY, "Database Dialect", Width.LONG)
    group.add(
        ConfigKey("date.calendar.system", _STRING, CALENDARS[0], OneOf(CALENDARS), _LOW,
                  "The calendar of dates before 15 October 1582: with LEGACY, the Julian calendar."),
        "Date Calendar System",
    )  # fmt: skip
    return group.keys


def _mode_keys() -> list[ConfigKey]:
    group = KeyGroup("Mode")
    column_keys = (
        "incrementing.column.name", "timestamp.column.name", "incrementing.column.mapping",
        "timestamp.columns.mapping", "validate.non.null",
    )  # fmt: skip
    group.add(
        ConfigKey("mode", _STRING, "", OneOf(("", BULK, TIMESTAMP, INCREMENTING, BOTH)), _HIGH,
                  "How the connector finds rows: all rows at each poll (bulk), rows with a larger number"
                  " (incrementing), with a later timestamp, or both.", dependents=column_keys),
        "Table Loading Mode",
    )  # fmt: skip
    group.add(
        ConfigKey("incrementing.column.name", _STRING, "", None, _MEDIUM,
                  "A column whose value is larger in each new row. An empty text stands for the column that"
                  " the database numbers automatically.", recommender=_MODE),
        "Incrementing Column Name",
    )  # fmt: skip
    group.add(
        ConfigKey("timestamp.column.name", _LIST, "", None, _MEDIUM,
                  "The columns with the time of the last change. The first one that is not null counts.",
                  recommender=_MODE),
        "Timestamp Column Name",
    )  # fmt: skip
    group.add(
        ConfigKey("timestamp.columns.mapping", _LIST, "", _ColumnMapping(several=True), _MEDIUM,
                  "For each table, its timestamp columns: regex:[column|column].", recommender=_MODE),
        "Table to timestamp columns mappings", Width.LONG,
    )  # fmt: skip
    group.add(
        ConfigKey("incrementing.column.mapping", _LIST, "", _ColumnMapping(several=False), _MEDIUM,
                  "For each table, its incrementing column: regex:column.", recommender=_MODE),
        "Table to incrementing column mappings", Width.LONG,
    )  # fmt: skip
    group.add(
        ConfigKey("timestamp.initial", _LONG, None, None, _LOW,
                  "Where to begin without a stored offset, in milliseconds since 1970. -1 is the present time.",
                  recommender=_MODE),
        "Unix time value of initial timestamp",
    )  # fmt: skip
    group.add(
        ConfigKey("validate.non.null", ConfigType.BOOLEAN, "true", None, _LOW,
                  "Whether the task fails if the columns of the mode may be null.", recommender=_MODE),
        "Validate Non Null", Width.SHORT,
    )  # fmt: skip
    _add_query_keys(group)
    return group.keys


def _add_query_keys(group: KeyGroup) -> None:
    group.add(
        ConfigKey("query", _STRING, "", None, _MEDIUM,
                  "A SELECT statement to copy in place of tables. Except in bulk mode, the connector adds a"
                  " WHERE clause to it."),
        "Query", Width.SHORT,
    )  # fmt: skip
    group.add(
        ConfigKey("query.masked", ConfigType.PASSWORD, "", None, _MEDIUM,
                  "As query, for a statement that must not appear in logs and answers.", recommender=_Hidden()),
        "Query (Masked)", Width.SHORT,
    )  # fmt: skip
    group.add(QUOTE_KEY, "Quote Identifiers")
    group.add(
        ConfigKey("query.suffix", _STRING, "", None, _LOW, "A text that is added to each SELECT statement."),
        "Query suffix",
    )  # fmt: skip
    group.add(
        ConfigKey("transaction.isolation.mode", _STRING, "DEFAULT", _ISOLATION, _LOW,
                  "The isolation of the transactions that read.", recommender=_ISOLATION),
        "Transaction Isolation Mode",
    )  # fmt: skip
    group.add(
        ConfigKey("query.retry.attempts", _INT, "-1", None, _LOW,
                  "How often a statement with an error is tried again before the task fails. -1 has no limit."),
        "Query Retry Attempts",
    )  # fmt: skip


def _connector_keys() -> list[ConfigKey]:
    group = KeyGroup("Connector")
    group.add(
        ConfigKey("table.types", _LIST, "TABLE", None, _LOW,
                  "The types of tables to copy, such as TABLE, VIEW and PARTITIONED TABLE."),
        "Table Types",
    )  # fmt: skip
    for name, kind, default, importance, display, doc, validator in (
        ("poll.interval.ms", _INT, "5000", _HIGH, "Poll Interval (ms)",
         "The pause between two reads of a table.", None),
        ("batch.max.rows", _INT, "1000", _LOW, "Max Rows Per Batch",
         "The most rows that one poll returns.", Range(low=1)),
        ("max.buffer.size", _INT, "0", _LOW, "Maximum Buffer Size",
         "The most rows that the driver reads ahead. With 0, this is the size of a batch.", Range(low=0)),
        ("poll.linger.ms", _LONG, "5000", _LOW, "Poll Linger Milliseconds",
         "The longest wait of a poll for the first row, up to a second.", None),
        ("table.poll.interval.ms", _LONG, "60000", _LOW, "Metadata Change Monitoring Interval (ms)",
         "The pause between two looks for new tables and changed columns.", None),
    ):  # fmt: skip
        group.add(ConfigKey(name, kind, default, validator, importance, doc), display, Width.SHORT)
    group.add(
        ConfigKey("topic.prefix", _STRING, "", _TopicPrefix(), _HIGH,
                  "The begin of the names of topics, before the name of the table. With a query, the topic."),
        "Topic Prefix",
    )  # fmt: skip
    group.add(
        ConfigKey("timestamp.delay.interval.ms", _LONG, "0", None, _HIGH,
                  "How long to leave out a row after its timestamp, so that transactions with an earlier"
                  " timestamp can end."),
        "Delay Interval (ms)",
    )  # fmt: skip
    group.add(TIME_ZONE_KEY, "DB time zone")
    group.add(
        ConfigKey("timestamp.granularity", _STRING, "connect_logical", _GRANULARITY, _LOW,
                  "The form of a timestamp in a record.", recommender=_GRANULARITY),
        "Timestamp granularity for timestamp columns",
    )  # fmt: skip
    return group.keys


_FIRST_TABLES_KEY = ConfigKey(
    "table.monitoring.startup.polling.limit.ms", _LONG, "10000", None, _LOW,
    "How long the connector waits for the first list of tables.", internal=True,
)  # fmt: skip
SOURCE_KEYS = ConfigDef([*_database_keys(), *_mode_keys(), *_connector_keys(), _FIRST_TABLES_KEY])


@dataclass(frozen=True, slots=True)
class SourceSettings:
    connection: ConnectionSettings
    values: Mapping[str, ConfigValue]
    mode: str
    query: str | None
    query_masked: bool
    suffix: str
    zone: Zone
    granularity: str
    numeric_mapping: str
    topic_prefix: str
    batch_rows: int
    poll_interval_s: float
    table_poll_interval_s: float
    first_tables_s: float

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SourceSettings:
        """Parses a configuration. Raises ConfigError."""
        values = SOURCE_KEYS.parse(config)
        zone = time_zone(text(values, "db.timezone"))
        assert zone is not None, "the validator has checked it"
        masked, plain = text(values, "query.masked"), text(values, "query")
        older = "PRECISION_ONLY" if values["numeric.precision.mapping"] else "NONE"
        return cls(
            connection=connection_settings(SOURCE_KEYS, values, config),
            values=values,
            mode=text(values, "mode"),
            query=masked or plain or None,
            query_masked=bool(masked),
            suffix=trim(text(values, "query.suffix")),
            zone=Zone(zone, legacy=values["date.calendar.system"] == CALENDARS[0]),
            granularity=text(values, "timestamp.granularity").lower(),
            numeric_mapping=(text(values, "numeric.mapping") or older).upper(),
            topic_prefix=trim(text(values, "topic.prefix")),
            batch_rows=number(values, "batch.max.rows"),
            poll_interval_s=number(values, "poll.interval.ms") / 1000,
            table_poll_interval_s=number(values, "table.poll.interval.ms") / 1000,
            first_tables_s=number(values, _FIRST_TABLES_KEY.name) / 1000,
        )

    @property
    def by_timestamp(self) -> bool:
        return self.mode in (TIMESTAMP, BOTH)

    @property
    def by_number(self) -> bool:
        return self.mode in (INCREMENTING, BOTH)

    def names(self, key: str) -> tuple[str, ...]:
        return names(self.values, key)
