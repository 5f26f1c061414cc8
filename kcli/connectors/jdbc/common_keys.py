"""The keys that the source and the sink share, and their validators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcli.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Range,
    invalid_value,
)
from kcli.connectors.jdbc.dialects import DIALECTS
from kcli.connectors.keys import number, optional_text, text
from kcli.model.java_dates.zone_ids import time_zone

CALENDARS = ("LEGACY", "PROLEPTIC_GREGORIAN")
_PREFIX = "connection."
_CREDENTIALS_PROVIDER = "io.confluent.connect.jdbc.util.DefaultJdbcCredentialsProvider"


@dataclass(frozen=True, slots=True)
class Enumerator:
    """A value, or a list of values, that is written in upper or in lower case. It recommends its values to forms."""

    values: tuple[str, ...]

    def check(self, key: str, value: ConfigValue) -> None:
        valid = {form for name in self.values for form in (name.lower(), name.upper())}
        for item in value if isinstance(value, tuple) else (value,):
            if item is not None and item not in valid:
                raise invalid_value(key, item, "Invalid enumerator")
        if value == ():
            reason = f"At least one value must be specified. Valid values are: {self}"
            raise invalid_value(key, value, reason)

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return [value.lower() for value in self.values]

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return True

    def __str__(self) -> str:
        return f"[{', '.join(value.lower() for value in self.values)}]"


@dataclass(frozen=True, slots=True)
class DialectName:
    """The name of a dialect, or an empty text, which stands for the dialect of the URL."""

    def check(self, key: str, value: ConfigValue) -> None:
        if value is not None and value not in self._names:
            raise invalid_value(key, value, "Invalid enumerator")

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return self._names

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return True

    @property
    def _names(self) -> list[ConfigValue]:
        return ["", *(dialect.java_name for dialect in DIALECTS.values())]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self._names))}]"


@dataclass(frozen=True, slots=True)
class TimeZoneName:
    def check(self, key: str, value: ConfigValue) -> None:
        if isinstance(value, str) and time_zone(value) is None:
            link = "https://docs.oracle.com/javase/8/docs/api/java/time/ZoneId.html#shortIds"
            raise invalid_value(key, value, f"Invalid time zone. See the list of valid time zones at {link}")

    def __str__(self) -> str:
        return "Any valid JDK time zone"


@dataclass(frozen=True, slots=True)
class _OnlyDefaultProvider:
    """Refuses a class of Java that gets passwords, such as a vault. A config provider does this in kcli."""

    def check(self, key: str, value: ConfigValue) -> None:
        if value != _CREDENTIALS_PROVIDER:
            reason = (
                "classes of Java are not supported. Use a config provider for the password, such as ${file:…}"
            )
            raise invalid_value(key, value, reason)

    def __str__(self) -> str:
        return _CREDENTIALS_PROVIDER


URL_KEY = ConfigKey(
    "connection.url", ConfigType.STRING, "", importance=Importance.HIGH,
    documentation="The URL of the database, such as jdbc:postgresql://host:5432/db, jdbc:mysql://host/db,"
    " jdbc:mariadb://host/db or jdbc:sqlite:/path/file.db. A URL of SQLAlchemy is also accepted.",
)  # fmt: skip
USER_KEY = ConfigKey(
    "connection.user", ConfigType.STRING, None, importance=Importance.HIGH,
    documentation="The user of the database.",
)  # fmt: skip
PASSWORD_KEY = ConfigKey(
    "connection.password", ConfigType.PASSWORD, None, importance=Importance.HIGH,
    documentation="The password of the user.",
)  # fmt: skip
CREDENTIALS_KEY = ConfigKey(
    "jdbc.credentials.provider.class", ConfigType.CLASS, _CREDENTIALS_PROVIDER, _OnlyDefaultProvider(), Importance.LOW,
    "Accepted only with its default: connection.user and connection.password are the login.",
)  # fmt: skip
ATTEMPTS_KEY = ConfigKey(
    "connection.attempts", ConfigType.INT, "3", Range(low=1), Importance.LOW,
    "How often the connector tries to connect before it fails.",
)  # fmt: skip
BACKOFF_KEY = ConfigKey(
    "connection.backoff.ms", ConfigType.LONG, "10000", None, Importance.LOW,
    "The pause between two attempts to connect.",
)  # fmt: skip
DIALECT_KEY = ConfigKey(
    "dialect.name", ConfigType.STRING, "", DialectName(), Importance.LOW,
    "The dialect of SQL. By default, the URL decides.", recommender=DialectName(),
)  # fmt: skip
QUOTE_KEY = ConfigKey(
    "quote.sql.identifiers", ConfigType.STRING, "ALWAYS", Enumerator(("ALWAYS", "NEVER")), Importance.MEDIUM,
    "Whether statements quote the names of tables and columns.", recommender=Enumerator(("ALWAYS", "NEVER")),
)  # fmt: skip
TIME_ZONE_KEY = ConfigKey(
    "db.timezone", ConfigType.STRING, "UTC", TimeZoneName(), Importance.MEDIUM,
    "The time zone of times that the database stores without a time zone.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a database."""

    url: str
    user: str | None
    password: str | None = field(repr=False)
    attempts: int
    backoff_ms: int
    dialect_name: str
    quotes_always: bool
    properties: Mapping[str, str] = field(repr=False)
    """Keys `connection.…` for the driver, without their prefix."""
    isolation: str = "DEFAULT"


def connection_settings(
    definition: ConfigDef, values: Mapping[str, ConfigValue], config: Mapping[str, str]
) -> ConnectionSettings:
    return ConnectionSettings(
        url=text(values, "connection.url"),
        user=optional_text(values, "connection.user"),
        password=optional_text(values, "connection.password"),
        attempts=number(values, "connection.attempts"),
        backoff_ms=number(values, "connection.backoff.ms"),
        dialect_name=text(values, "dialect.name"),
        quotes_always=text(values, "quote.sql.identifiers").upper() == "ALWAYS",
        properties={
            key.removeprefix(_PREFIX): value
            for key, value in config.items()
            if key.startswith(_PREFIX) and key not in definition
        },
        isolation=optional_text(values, "transaction.isolation.mode") or "DEFAULT",
    )
