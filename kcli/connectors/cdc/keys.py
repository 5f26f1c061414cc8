"""The keys of the connector, with the names of Debezium's PostgreSQL connector (PostgresConnectorConfig)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kcli.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Matching,
    NonEmpty,
    OneOf,
    Range,
    Validator,
    invalid_value,
)
from kcli.connectors.avro_names import ADJUSTMENTS
from kcli.connectors.cdc.connection import quoted
from kcli.connectors.cdc.expressions import expression
from kcli.model.java_regex import JavaRegexError
from kcli.model.java_text import split_list, trim

_STRING, _INT, _LONG, _LIST = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.LIST
_BOOLEAN = ConfigType.BOOLEAN
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
NO_DATA = ("no_data", "never")
CONFIGURATION_BASED = "configuration_based"
SNAPSHOT_MODES = ("always", "initial", "initial_only", *NO_DATA, "when_needed", CONFIGURATION_BASED)
OVERRIDES = "snapshot.select.statement.overrides"
_OPERATIONS = ("c", "u", "d", "t", "none")
_IDENTITIES = ("DEFAULT", "FULL", "NOTHING", "INDEX")
_SLOT_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_SLOT_NAME_MAX = 63
SSL_KEYS = ("sslmode", "sslcert", "sslkey", "sslrootcert", "sslpassword")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(frozen=True, slots=True)
class Expressions:
    """A list of regular expressions of Java."""

    def check(self, key: str, value: ConfigValue) -> None:
        assert value is None or isinstance(value, tuple)
        for item in value or ():
            try:
                expression(item)
            except JavaRegexError as error:
                raise invalid_value(key, item, f"Invalid regex: {error}") from None

    def __str__(self) -> str:
        return "list of regular expressions"


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The text of message.key.columns."""

    def check(self, key: str, value: ConfigValue) -> None:
        try:
            parse_key_columns(value if isinstance(value, str) else "")
        except (JavaRegexError, ValueError) as error:
            raise invalid_value(key, value, f"expected schema.table:column,column;… ({error})") from None

    def __str__(self) -> str:
        return "schema.table:column,column;…"


def _is_slot_name(value: ConfigValue) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _SLOT_NAME_MAX and set(value) <= _SLOT_CHARACTERS


_SLOT_NAME = Matching(
    _is_slot_name, "a name has up to 63 lower-case letters, digits and _", "name of a replication slot"
)
_TOPIC_PREFIX = Matching(
    lambda value: isinstance(value, str) and bool(value) and set(value) <= _WORD,
    "a prefix has letters, digits, ., _ and -",
    "beginning of the name of a topic",
)
_POSITIVE, _NOT_NEGATIVE = Range(low=1), Range(low=0)


def _key(
    name: str,
    kind: ConfigType,
    default: str | None,
    validator: Validator | None,
    importance: Importance,
    text: str,
) -> ConfigKey:
    return ConfigKey(name, kind, default, validator, importance, text, group="Postgres")


def _required(name: str, validator: Validator, text: str) -> ConfigKey:
    return replace(_key(name, _STRING, None, validator, _HIGH, text), required=True)


_CONNECTION_KEYS = (
    _required("database.hostname", NonEmpty(), "The host name or the address of the server."),
    _key("database.port", _INT, "5432", Range(0, 65535), _HIGH, "The port of the server."),
    _required("database.user", NonEmpty(), "A user with the attribute REPLICATION."),
    _key("database.password", ConfigType.PASSWORD, None, None, _HIGH, "The password of the user."),
    _required("database.dbname", NonEmpty(), "The database whose changes are captured."),
    _key("database.sslmode", _STRING, "prefer",
         OneOf(("disable", "allow", "prefer", "require", "verify-ca", "verify-full")), _MEDIUM,
         "Whether the connection is encrypted, and the certificate of the server is checked."),
    _key("database.sslcert", _STRING, None, None, _MEDIUM, "The file of the client's certificate."),
    _key("database.sslkey", _STRING, None, None, _MEDIUM, "The file of the client's private key."),
    _key("database.sslpassword", ConfigType.PASSWORD, None, None, _MEDIUM, "The password of database.sslkey."),
    _key("database.sslrootcert", _STRING, None, None, _MEDIUM,
         "The file of the certificates that sign the server's certificate."),
    _key("database.initial.statements", _STRING, None, None, _LOW,
         "Statements that set up a connection, with semicolons between them. Two semicolons stand for one."),
    _key("database.tcpKeepAlive", _BOOLEAN, "true", None, _MEDIUM, "Whether TCP looks for a lost connection."),
)  # fmt: skip
_STREAM_KEYS = (
    _required("topic.prefix", _TOPIC_PREFIX, "The beginning of the names of topics, and the name in events."),
    _key("plugin.name", _STRING, "pgoutput", OneOf(("pgoutput",)), _MEDIUM, "The output plugin of the slot."),
    _key("slot.name", _STRING, "debezium", _SLOT_NAME, _MEDIUM,
         "The replication slot. Each connector needs its own. The connector creates a missing slot."),
    _key("slot.drop.on.stop", _BOOLEAN, "false", None, _MEDIUM,
         "Whether the slot is removed when the task stops. The changes until the next start are then lost."),
    _key("slot.max.retries", _INT, "6", _NOT_NEGATIVE, _LOW,
         "How often the task tries again if another connection uses the slot."),
    _key("slot.retry.delay.ms", _LONG, "10000", _NOT_NEGATIVE, _LOW, "The pause before the slot is tried again."),
    _key("publication.name", _STRING, "dbz_publication", NonEmpty(), _MEDIUM,
         "The publication that the task reads."),
    _key("publication.autocreate.mode", _STRING, "all_tables",
         OneOf(("disabled", "all_tables", "filtered", "no_tables")), _MEDIUM,
         "Whether a missing publication is created: for all tables, for the captured tables, or for none."),
    _key("replica.identity.autoset.values", _STRING, "", Matching(
             lambda value: _parses(parse_identities, value), "expected schema.table:FULL,…", "schema.table:FULL,…"),
         _MEDIUM, "Tables whose replica identity the task sets: FULL, DEFAULT, NOTHING or INDEX name."),
    _key("guardrail.collections.max", _INT, "0", _NOT_NEGATIVE, _MEDIUM,
         "The most tables that the connector may capture. 0 has no limit."),
    _key("guardrail.collections.limit.action", _STRING, "warn", OneOf(("warn", "fail")), _MEDIUM,
         "Whether more tables are logged, or fail the task."),
    _key("publish.via.partition.root", _BOOLEAN, "false", None, _LOW,
         "Whether changes of partitions are events of the partitioned table. For a new publication."),
    _key("status.update.interval.ms", _INT, "10000", _POSITIVE, _LOW,
         "How often the task reports its position to the server."),
    _key("retriable.restart.connector.wait.ms", _LONG, "10000", _NOT_NEGATIVE, _LOW,
         "The pause after a lost connection."),
    _key("errors.max.retries", _INT, "-1", Range(low=-1), _LOW,
         "How often in a row the task connects again after an error. -1 has no limit."),
)  # fmt: skip
_FILTER_KEYS = tuple(
    _key(f"{what}.{side}.list", _LIST, "", Expressions(), _MEDIUM,
         f"The {nouns} to {action}: regular expressions of {form}.")
    for what, nouns, form in (
        ("schema", "schemas", "names"),
        ("table", "tables", "schema.table"),
        ("column", "columns", "schema.table.column"),
        ("message.prefix", "logical decoding messages", "their prefixes"),
    )
    for side, action in (("include", "capture"), ("exclude", "leave out"))
)  # fmt: skip
_EVENT_KEYS = (
    _key("snapshot.mode", _STRING, "initial", OneOf(SNAPSHOT_MODES, ignore_case=True), _HIGH,
         "When the rows that exist are read: once (initial), never (no_data), at each start (always), once and then"
         " nothing else (initial_only), or also after the loss of the slot (when_needed)."),
    *(_key(f"snapshot.mode.configuration.based.{name}", _BOOLEAN, "false", None, _LOW,
           f"With snapshot.mode={CONFIGURATION_BASED}: {text}.")
      for name, text in (
          ("snapshot.data", "whether the rows that exist are read"),
          ("start.stream", "whether changes are read"),
          ("snapshot.on.data.error", "whether a snapshot is read again after the loss of the slot"),
      )),
    _key("snapshot.include.collection.list", _LIST, "", Expressions(), _MEDIUM,
         "The tables whose rows a snapshot reads: regular expressions of schema.table. An empty list means all."),
    _key(OVERRIDES, _LIST, "", None, _MEDIUM,
         f"The tables whose rows a snapshot reads with a statement of its own, which is in {OVERRIDES}.SCHEMA.TABLE."),
    _key("snapshot.delay.ms", _LONG, "0", _NOT_NEGATIVE, _LOW, "The wait before a snapshot."),
    _key("streaming.delay.ms", _LONG, "0", _NOT_NEGATIVE, _LOW, "The wait between a snapshot and the stream."),
    _key("snapshot.fetch.size", _INT, "10240", _POSITIVE, _LOW, "The rows of one read in a snapshot."),
    _key("tombstones.on.delete", _BOOLEAN, "true", None, _MEDIUM,
         "Whether a record without a value follows the event of a delete."),
    _key("skipped.operations", _LIST, "t", OneOf(_OPERATIONS), _LOW,
         "Operations without events: c, u, d and t (truncate), or none."),
    _key("message.key.columns", _STRING, "", KeyColumns(), _MEDIUM,
         "The columns of keys in place of the primary key: schema.table:column,column;…"),
    _key("decimal.handling.mode", _STRING, "precise", OneOf(("precise", "double", "string")), _MEDIUM,
         "The form of NUMERIC and MONEY."),
    _key("time.precision.mode", _STRING, "adaptive",
         OneOf(("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")),
         _MEDIUM, "The form of dates and times."),
    _key("binary.handling.mode", _STRING, "bytes",
         OneOf(("bytes", "base64", "base64-url-safe", "hex")), _LOW, "The form of BYTEA."),
    _key("interval.handling.mode", _STRING, "numeric", OneOf(("numeric", "string")), _LOW,
         "The form of INTERVAL: microseconds, or ISO 8601."),
    _key("hstore.handling.mode", _STRING, "json", OneOf(("json", "map")), _LOW,
         "The form of HSTORE: a text of JSON, or a map."),
    _key("unavailable.value.placeholder", _STRING, "__debezium_unavailable_value", NonEmpty(), _MEDIUM,
         "The value of a large column that an update did not change, and that the server does not send."),
    _key("topic.delimiter", _STRING, ".", _TOPIC_PREFIX, _LOW, "The text between the parts of the names of topics."),
    _key("schema.name.adjustment.mode", _STRING, "none", OneOf(ADJUSTMENTS), _LOW,
         "Whether other characters than those of Avro's names are replaced in the names of schemas: by _ or a number."),
    _key("field.name.adjustment.mode", _STRING, "none", OneOf(ADJUSTMENTS), _LOW,
         "Whether other characters than those of Avro's names are replaced in the names of fields: by _ or a number."),
    _key("heartbeat.interval.ms", _INT, "0", _NOT_NEGATIVE, _MEDIUM,
         "How often a record is sent to the topic of heartbeats. 0 sends none."),
    _key("topic.heartbeat.prefix", _STRING, "__debezium-heartbeat", _TOPIC_PREFIX, _LOW,
         "The beginning of the name of the topic of heartbeats."),
    _key("heartbeat.action.query", _STRING, None, None, _LOW, "A statement that runs at each heartbeat."),
    _key("provide.transaction.metadata", _BOOLEAN, "false", None, _LOW,
         "Whether records announce the beginning and the end of each transaction, and events have a place in it."),
    _key("topic.transaction", _STRING, "transaction", _TOPIC_PREFIX, _LOW,
         "The end of the name of the topic of transactions, after topic.prefix."),
    _key("extended.headers.enabled", _BOOLEAN, "true", None, _LOW,
         "Whether headers of each record of a table name the connector and its task."),
    _key("max.batch.size", _INT, "2048", _POSITIVE, _MEDIUM, "The most changes of one poll."),
    _key("poll.interval.ms", _LONG, "500", _POSITIVE, _MEDIUM, "The longest wait for a change in one poll."),
)  # fmt: skip
KEYS = ConfigDef([*_CONNECTION_KEYS, *_STREAM_KEYS, *_FILTER_KEYS, *_EVENT_KEYS])


def parse_key_columns(text: str) -> list[tuple[Callable[[str], bool], Sequence[str]]]:
    """Parses message.key.columns. Raises ValueError."""
    parsed: list[tuple[Callable[[str], bool], Sequence[str]]] = []
    for part in filter(None, map(trim, text.split(";"))):
        table, colon, columns = part.rpartition(":")
        names = split_list(columns)
        if not colon or not trim(table) or not all(names):
            raise ValueError(f"{part!r} is no table with columns")
        parsed.append((expression(table), names))
    return parsed


def parse_identities(text: str) -> list[tuple[Callable[[str], bool], str]]:
    """Parses replica.identity.autoset.values: the replica identity in SQL by table. Raises ValueError."""
    parsed: list[tuple[Callable[[str], bool], str]] = []
    for part in filter(None, split_list(text)):
        table, colon, identity = part.rpartition(":")
        kind, _, index = trim(identity).partition(" ")
        if not colon or kind.upper() not in _IDENTITIES or bool(trim(index)) != (kind.upper() == "INDEX"):
            raise ValueError(f"{part!r} is no table with a replica identity")
        sql = f"USING INDEX {quoted(trim(index))}" if index else kind.upper()
        parsed.append((expression(table), sql))
    return parsed


def _parses(parse: Callable[[str], object], value: ConfigValue) -> bool:
    try:
        parse(value if isinstance(value, str) else "")
    except (JavaRegexError, ValueError):
        return False
    return True
