"""The keys of the sink connector (io.confluent.connect.jdbc.sink.JdbcSinkConfig)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    Width,
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
from kcli.connectors.jdbc.dialects import TIMESTAMP_FIELD
from kcli.connectors.jdbc.moments import Zone
from kcli.connectors.keys import KeyGroup, names, number, text
from kcli.model.java_dates.zone_ids import time_zone
from kcli.model.java_text import trim

INSERT, UPSERT, UPDATE = "insert", "upsert", "update"
NO_KEY, KAFKA, RECORD_KEY, RECORD_VALUE = "none", "kafka", "record_key", "record_value"
KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")
_KEY_MODES = (NO_KEY, KAFKA, RECORD_KEY, RECORD_VALUE)
_TABLE_TYPES = Enumerator(("TABLE", "PARTITIONED TABLE", "VIEW"))
_DATE_ZONES = Enumerator(("DB_TIMEZONE", "UTC"))
_PRECISIONS = Enumerator(("MICROSECONDS", "NANOSECONDS"))
_BOOLEAN, _STRING, _LIST, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.INT
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True)
class _KeyModes:
    """Recommends only record_key if deletes are enabled."""

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return [RECORD_KEY] if values.get("delete.enabled") else list(_KEY_MODES)

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Deletes:
    """Shows delete.enabled only with pk.mode=record_key."""

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return [True, False] if self.visible(key, values) else [False]

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return str(values.get("pk.mode")).lower() == RECORD_KEY


def _connection_keys() -> list[ConfigKey]:
    group = KeyGroup("Connection")
    group.add(replace(URL_KEY, default=None, required=True), "JDBC URL", Width.LONG)
    group.add(USER_KEY, "JDBC User")
    group.add(PASSWORD_KEY, "JDBC Password")
    group.add(CREDENTIALS_KEY, "JDBC Credentials Provider Class", Width.LONG)
    group.add(DIALECT_KEY, "Database Dialect", Width.LONG)
    group.add(ATTEMPTS_KEY, "JDBC connection attempts", Width.SHORT)
    group.add(BACKOFF_KEY, "JDBC connection backoff in milliseconds", Width.SHORT)
    return group.keys


def _write_keys() -> list[ConfigKey]:
    group = KeyGroup("Writes")
    group.add(
        ConfigKey("insert.mode", _STRING, INSERT, Enumerator((INSERT, UPSERT, UPDATE)), _HIGH,
                  "How a record is written: as a new row, as a new or changed row, or as a changed row."),
        "Insert Mode",
    )  # fmt: skip
    group.add(
        ConfigKey("batch.size", _INT, "3000", Range(low=0), _MEDIUM, "The most records of one statement."),
        "Batch Size", Width.SHORT,
    )  # fmt: skip
    group.add(
        ConfigKey("delete.enabled", _BOOLEAN, "false", None, _MEDIUM,
                  "Whether a record without a value deletes the row of its key. Needs pk.mode=record_key.",
                  recommender=_Deletes()),
        "Enable deletes", Width.SHORT,
    )  # fmt: skip
    group.add(
        ConfigKey("table.types", _LIST, "TABLE", _TABLE_TYPES, _LOW,
                  "The types of tables that the connector writes to."),
        "Table Types",
    )  # fmt: skip
    group.add(
        ConfigKey("replace.null.with.default", _BOOLEAN, "true", None, _LOW,
                  "Whether a field without a value is written with the default of its schema."),
        "Replace null value with default value",
    )  # fmt: skip
    return group.keys


def _mapping_keys() -> list[ConfigKey]:
    group = KeyGroup("Data Mapping")
    group.add(
        ConfigKey("table.name.format", _STRING, "${topic}", NonEmpty(), _MEDIUM,
                  "The name of the table. ${topic} stands for the topic."),
        "Table Name Format", Width.LONG,
    )  # fmt: skip
    group.add(
        ConfigKey("pk.mode", _STRING, NO_KEY, Enumerator(_KEY_MODES), _HIGH,
                  "The primary key: none, the place of the record in Kafka, fields of the record's key, or"
                  " fields of its value.", recommender=_KeyModes()),
        "Primary Key Mode",
    )  # fmt: skip
    group.add(
        ConfigKey("pk.fields", _LIST, "", None, _MEDIUM,
                  "The fields of the primary key. An empty list stands for all fields. With pk.mode=kafka, the"
                  " names of three columns."),
        "Primary Key Fields", Width.LONG,
    )  # fmt: skip
    group.add(
        ConfigKey("fields.whitelist", _LIST, "", None, _MEDIUM,
                  "The fields of the value to write. An empty list stands for all fields."),
        "Fields Whitelist", Width.LONG,
    )  # fmt: skip
    group.add(TIME_ZONE_KEY, "DB Time Zone")
    group.add(
        ConfigKey("date.timezone", _STRING, "DB_TIMEZONE", _DATE_ZONES, _LOW,
                  "The time zone of dates without a time.", recommender=_DATE_ZONES),
        "Time Zone used for Date",
    )  # fmt: skip
    group.add(
        ConfigKey("timestamp.fields.list", _LIST, "", None, _MEDIUM,
                  "Fields with a number or a text of microseconds or nanoseconds, which become timestamps."),
        "Timestamp Fields Whitelist",
    )  # fmt: skip
    group.add(
        ConfigKey("timestamp.precision.mode", _STRING, "MICROSECONDS", _PRECISIONS, _LOW,
                  "The unit of the fields in timestamp.fields.list.", recommender=_PRECISIONS),
        "Sink Timestamp Precision mode",
    )  # fmt: skip
    group.add(
        ConfigKey("date.calendar.system", _STRING, CALENDARS[0], OneOf(CALENDARS), _LOW,
                  "The calendar of dates before 15 October 1582: with LEGACY, the Julian calendar."),
        "Date Calendar System",
    )  # fmt: skip
    group.add(
        ConfigKey("string.output.value.column.name", _STRING, "record_value", NonEmpty(), _LOW,
                  "The column for a value that is a string and no struct."),
        "String Value Column Name",
    )  # fmt: skip
    return group.keys


def _other_keys() -> list[ConfigKey]:
    tables, statements, retries = KeyGroup("DDL Support"), KeyGroup("DML Support"), KeyGroup("Retries")
    for name, doc, display in (
        ("auto.create", "Whether the connector creates a missing table.", "Auto-Create"),
        ("auto.evolve", "Whether the connector adds missing columns to a table.", "Auto-Evolve"),
    ):
        tables.add(ConfigKey(name, _BOOLEAN, "false", None, _MEDIUM, doc), display, Width.SHORT)
    tables.add(QUOTE_KEY, "Quote Identifiers")
    statements.add(
        ConfigKey("mssql.use.merge.holdlock", _BOOLEAN, "true", None, _LOW,
                  "Whether an upsert of SQL Server holds its lock until the end of the transaction."),
        "SQL Server - Use HOLDLOCK in MERGE",
    )  # fmt: skip
    for name, default, doc, display in (
        ("max.retries", "10", "How often a batch is tried again after an error.", "Maximum Retries"),
        ("retry.backoff.ms", "3000", "The pause before a batch is tried again.", "Retry Backoff (millis)"),
    ):
        retries.add(ConfigKey(name, _INT, default, Range(low=0), _MEDIUM, doc), display, Width.SHORT)
    hidden = ConfigKey(
        "trim.sensitive.log", _BOOLEAN, "false", None, _LOW,
        "Whether errors are without the texts of the database, which may contain values.", internal=True,
    )  # fmt: skip
    return [*tables.keys, *statements.keys, *retries.keys, hidden]


SINK_KEYS = ConfigDef([*_connection_keys(), *_write_keys(), *_mapping_keys(), *_other_keys()])


@dataclass(frozen=True, slots=True)
class SinkSettings:
    name: str
    connection: ConnectionSettings
    insert_mode: str
    key_mode: str
    key_fields: tuple[str, ...]
    whitelist: frozenset[str]
    deletes: bool
    table_format: str
    table_types: frozenset[str]
    auto_create: bool
    auto_evolve: bool
    batch_size: int
    max_retries: int
    backoff_ms: int
    zone: Zone
    date_zone: Zone
    timestamp_fields: frozenset[str]
    timestamp_units_per_micro: int
    string_column: str
    nulls_become_defaults: bool
    holds_lock: bool
    trims_errors: bool

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SinkSettings:
        """Parses a configuration. Raises ConfigError."""
        values = SINK_KEYS.parse(config)
        zone, legacy = time_zone(text(values, "db.timezone")), values["date.calendar.system"] == CALENDARS[0]
        utc = time_zone("UTC")
        assert zone is not None and utc is not None, "the validator has checked it"
        date_zone = utc if text(values, "date.timezone").upper() == "UTC" else zone
        key_mode = text(values, "pk.mode").lower()
        if values["delete.enabled"] and key_mode != RECORD_KEY:
            raise ConfigError("Primary key mode must be 'record_key' when delete support is enabled")
        return cls(
            name=config.get("name", ""),
            connection=connection_settings(SINK_KEYS, values, config),
            insert_mode=text(values, "insert.mode").lower(),
            key_mode=key_mode,
            key_fields=names(values, "pk.fields"),
            whitelist=frozenset(names(values, "fields.whitelist")),
            deletes=bool(values["delete.enabled"]),
            table_format=trim(text(values, "table.name.format")),
            table_types=frozenset(name.upper() for name in names(values, "table.types")),
            auto_create=bool(values["auto.create"]),
            auto_evolve=bool(values["auto.evolve"]),
            batch_size=max(1, number(values, "batch.size")),
            max_retries=number(values, "max.retries"),
            backoff_ms=number(values, "retry.backoff.ms"),
            zone=Zone(zone, legacy),
            date_zone=Zone(date_zone, legacy),
            timestamp_fields=frozenset(names(values, TIMESTAMP_FIELD)),
            timestamp_units_per_micro=1
            if text(values, "timestamp.precision.mode").lower() == "microseconds"
            else 1000,
            string_column=text(values, "string.output.value.column.name"),
            nulls_become_defaults=bool(values["replace.null.with.default"]),
            holds_lock=bool(values["mssql.use.merge.holdlock"]),
            trims_errors=bool(values["trim.sensitive.log"]),
        )
