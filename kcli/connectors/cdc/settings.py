"""The parsed configuration of the PostgreSQL source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kcli import VERSION
from kcli.config.definition import ConfigError, ConfigValue, invalid_value
from kcli.connectors.cdc.column_rules import parse_rules
from kcli.connectors.cdc.events import EventSettings
from kcli.connectors.cdc.expressions import any_matches
from kcli.connectors.cdc.keys import (
    CONFIGURATION_BASED,
    KEYS,
    NO_DATA,
    OVERRIDES,
    SSL_KEYS,
    parse_key_columns,
)
from kcli.connectors.cdc.messages import MessageForm
from kcli.connectors.cdc.naming import Naming
from kcli.connectors.cdc.tables import TableChoice
from kcli.connectors.cdc.value_types import Modes
from kcli.model.java_text import trim


@dataclass(frozen=True, slots=True)
class Settings:
    """The parsed configuration of the connector, and of its only task."""

    values: Mapping[str, ConfigValue]
    connection: Mapping[str, str] = field(repr=False)
    """The parameters of libpq."""
    choice: TableChoice
    events: EventSettings
    in_snapshot: Callable[[str], bool]
    """Whether a snapshot reads the rows of `schema.table`."""
    statements: Mapping[str, str]
    """The statements that select the rows of tables in a snapshot, by `schema.table`."""

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Settings:
        """Parses a configuration. Raises ConfigError."""
        values = KEYS.parse(config)
        _check_pairs(values)
        prefix = _text(values, "topic.prefix")
        key_columns = parse_key_columns(_text(values, "message.key.columns"))
        naming = Naming(
            prefix,
            _text(values, "topic.delimiter"),
            schema_adjustment=_text(values, "schema.name.adjustment.mode"),
            field_adjustment=_text(values, "field.name.adjustment.mode"),
        )
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
                naming=naming,
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
                heartbeat_topic=naming.delimiter.join((_text(values, "topic.heartbeat.prefix"), prefix)),
                message_topic=f"{prefix}.message",
                captures_message=_filter(values, "message.prefix"),
                message_form=MessageForm(modes),
                has_context_headers=bool(values["extended.headers.enabled"]),
                transaction_topic=(
                    naming.delimiter.join((prefix, _text(values, "topic.transaction")))
                    if values["provide.transaction.metadata"]
                    else None
                ),
            ),
            in_snapshot=any_matches(_items(values, "snapshot.include.collection.list") or (".*",)),
            statements={table: _statement(config, table) for table in _items(values, OVERRIDES)},
        )

    @property
    def snapshot_mode(self) -> str:
        mode = self.text("snapshot.mode").lower()
        return _configured_mode(self.values) if mode == CONFIGURATION_BASED else mode

    def text(self, key: str) -> str:
        return _text(self.values, key)

    def number(self, key: str) -> int:
        value = self.values[key]
        assert isinstance(value, int), key
        return value

    def seconds(self, key: str) -> float:
        return self.number(key) / 1000


def _configured_mode(values: Mapping[str, ConfigValue]) -> str:
    """The mode that the single keys of configuration_based stand for."""
    reads, streams, repeats = (
        values[f"snapshot.mode.configuration.based.{name}"] is True
        for name in ("snapshot.data", "start.stream", "snapshot.on.data.error")
    )
    if not reads and not streams:
        raise ConfigError(
            f"snapshot.mode={CONFIGURATION_BASED} needs snapshot.data or start.stream", key="snapshot.mode"
        )
    if not streams:
        return "initial_only"
    if not reads:
        return NO_DATA[0]
    return "when_needed" if repeats else "initial"


def _statement(config: Mapping[str, str], table: str) -> str:
    key = f"{OVERRIDES}.{table}"
    statement = trim(config.get(key) or "").rstrip(";")
    if not statement:
        raise ConfigError(f"{OVERRIDES} names {table}, and {key} is missing", key=OVERRIDES)
    return statement


def _check_pairs(values: Mapping[str, ConfigValue]) -> None:
    for what in ("schema", "table", "column", "message.prefix"):
        include, exclude = f"{what}.include.list", f"{what}.exclude.list"
        if values[include] and values[exclude]:
            raise ConfigError(f"{include} and {exclude} cannot be set at the same time", key=exclude)
    if _text(values, "snapshot.mode").lower() == CONFIGURATION_BASED:
        _configured_mode(values)
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
    optional = {"password": "database.password", **{name: f"database.{name}" for name in SSL_KEYS}}
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


def parse_statements(text: str) -> list[str]:
    """The statements of database.initial.statements, between semicolons. Two semicolons stand for one."""
    parts = (part.replace("\0", ";") for part in text.replace(";;", "\0").split(";"))
    return [part for part in map(trim, parts) if part]


def _items(values: Mapping[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = values[key]
    assert isinstance(value, tuple), key
    return tuple(item for item in value if item)


def _text(values: Mapping[str, ConfigValue], key: str) -> str:
    value = values[key]
    assert value is None or isinstance(value, str), key
    return value or ""
