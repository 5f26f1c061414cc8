"""The keys of the connector, with the names of Debezium's PostgreSQL connector (PostgresConnectorConfig)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcli import VERSION
from kcli.config.definition import (
    ConfigDef,
    ConfigError,
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
from kcli.connectors.cdc.column_rules import parse_rules
from kcli.connectors.cdc.events import EventSettings
from kcli.connectors.cdc.expressions import any_matches, expression
from kcli.connectors.cdc.messages import MessageForm
from kcli.connectors.cdc.tables import TableChoice
from kcli.connectors.cdc.value_types import Modes
from kcli.model.java_regex import JavaRegexError
from kcli.model.java_text import split_list, trim

_STRING, _INT, _LONG, _LIST = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.LIST
_BOOLEAN = ConfigType.BOOLEAN
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
NO_DATA = ("no_data", "never")
SNAPSHOT_MODES = ("always", "initial", "initial_only", *NO_DATA, "when_needed")
_OPERATIONS = ("c", "u", "d", "t", "none")
_SLOT_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_SLOT_NAME_MAX = 63
_SSL_KEYS = ("sslmode", "sslcert", "sslkey", "sslrootcert", "sslpassword")
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


@dataclass(frozen=True, slots=True)
class Settings:
    """The parsed configuration of the connector, and of its only task."""

    values: Mapping[str, ConfigValue]
    connection: Mapping[str, str] = field(repr=False)
    """The parameters of libpq."""
    choice: TableChoice
    events: EventSettings

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Settings:
        """Parses a configuration. Raises ConfigError."""
        values = KEYS.parse(config)
        _check_pairs(values)
        prefix = _text(values, "topic.prefix")
        key_columns = parse_key_columns(_text(values, "message.key.columns"))
        modes = Modes(
            decimal_handling=_text(values, "decimal.handling.mode"),
            time_precision=_text(values, "time.precision.mode"),
            binary_handling=_text(values, "binary.handling.mode"),
            interval_handling=_text(values, "interval.handling.mode"),
            hstore_handling=_text(values, "hstore.handling.mode"),
            placeholder=_text(values, "unavailable.value.placeholder"),
        )
        return cls(
            values,
            _connection(values),
            TableChoice(
                topic_prefix=prefix,
                captures=_table_filter(values),
                includes=_filter(values, "column"),
                key_columns=lambda table: next(
                    (columns for matches, columns in key_columns if matches(table)), None
                ),
                rules=parse_rules(config),
                modes=modes,
            ),
            EventSettings(
                topic_prefix=prefix,
                database=_text(values, "database.dbname"),
                version=VERSION,
                tombstones=bool(values["tombstones.on.delete"]),
                skipped=frozenset(_items(values, "skipped.operations")),
                heartbeat_topic=f"{_text(values, 'topic.heartbeat.prefix')}.{prefix}",
                message_topic=f"{prefix}.message",
                captures_message=_filter(values, "message.prefix"),
                message_form=MessageForm(modes),
                has_context_headers=bool(values["extended.headers.enabled"]),
                transaction_topic=(
                    f"{prefix}.{_text(values, 'topic.transaction')}"
                    if values["provide.transaction.metadata"]
                    else None
                ),
            ),
        )

    @property
    def snapshot_mode(self) -> str:
        return self.text("snapshot.mode").lower()

    def text(self, key: str) -> str:
        return _text(self.values, key)

    def number(self, key: str) -> int:
        value = self.values[key]
        assert isinstance(value, int), key
        return value

    def seconds(self, key: str) -> float:
        return self.number(key) / 1000


def _check_pairs(values: Mapping[str, ConfigValue]) -> None:
    for what in ("schema", "table", "column", "message.prefix"):
        include, exclude = f"{what}.include.list", f"{what}.exclude.list"
        if values[include] and values[exclude]:
            raise ConfigError(f"{include} and {exclude} cannot be set at the same time", key=exclude)
    skipped = _items(values, "skipped.operations")
    if "none" in skipped and len(skipped) > 1:
        raise invalid_value("skipped.operations", values["skipped.operations"], "none stands alone")


def _connection(values: Mapping[str, ConfigValue]) -> Mapping[str, str]:
    parameters = {
        "host": _text(values, "database.hostname"),
        "port": str(values["database.port"]),
        "user": _text(values, "database.user"),
        "dbname": _text(values, "database.dbname"),
        "keepalives": "1" if values["database.tcpKeepAlive"] else "0",
    }
    optional = {"password": "database.password", **{name: f"database.{name}" for name in _SSL_KEYS}}
    return parameters | {name: _text(values, key) for name, key in optional.items() if values[key]}


def _table_filter(values: Mapping[str, ConfigValue]) -> Callable[[str, str], bool]:
    of_schema, of_table = _filter(values, "schema"), _filter(values, "table")
    return lambda schema, table: of_schema(schema) and of_table(f"{schema}.{table}")


def _filter(values: Mapping[str, ConfigValue], what: str) -> Callable[[str], bool]:
    """Whether a name is included and not excluded. As in Debezium, an expression fits the whole name in any case."""
    included, excluded = (
        any_matches(_items(values, f"{what}.{side}.list")) for side in ("include", "exclude")
    )
    if _items(values, f"{what}.include.list"):
        return included
    return lambda name: not excluded(name)


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


def _items(values: Mapping[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = values[key]
    assert isinstance(value, tuple), key
    return tuple(item for item in value if item)


def _text(values: Mapping[str, ConfigValue], key: str) -> str:
    value = values[key]
    assert value is None or isinstance(value, str), key
    return value or ""
