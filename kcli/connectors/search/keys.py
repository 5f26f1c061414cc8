"""The keys of the sink (io.confluent.connect.elasticsearch.ElasticsearchSinkConnectorConfig)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    OneOf,
    Range,
    invalid_value,
)
from kcli.connectors.http.keys import RequestSettings
from kcli.connectors.keys import number, text

INSERT, UPSERT = "insert", "upsert"
IGNORE, DELETE, FAIL, WARN = "ignore", "delete", "fail", "warn"
_RETRIED = frozenset((429, *range(500, 600)))
_BACKOFF_MS_MAX = 10_000
_STRING, _INT, _LONG, _LIST = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.LIST
_BOOLEAN, _PASSWORD = ConfigType.BOOLEAN, ConfigType.PASSWORD
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True)
class _Urls:
    def check(self, key: str, value: ConfigValue) -> None:
        if not value or not isinstance(value, tuple):
            raise invalid_value(key, value, "expected a list of URLs such as http://host:9200")
        for url in value:
            try:
                parts = urlsplit(url)
                is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            except ValueError:
                is_valid = False
            if not is_valid:
                raise invalid_value(key, "[hidden]", "expected a list of URLs such as http://host:9200")
            if parts.username is not None:
                raise invalid_value(key, "[hidden]", "expected no login in a URL: set connection.username")

    def __str__(self) -> str:
        return "http or https URLs"


SEARCH_KEYS = ConfigDef(
    [
        ConfigKey("connection.url", _LIST, None, _Urls(), _HIGH,
                  "The URLs of some nodes. The connector takes the next one if a node does not answer.", required=True),
        ConfigKey("connection.username", _STRING, None, None, _MEDIUM, "The user."),
        ConfigKey("connection.password", _PASSWORD, None, None, _MEDIUM, "The password of the user."),
        ConfigKey("ssl.ca.location", _STRING, None, None, _LOW,
                  "A PEM file with the certificates that sign the server's certificate."),
        ConfigKey("read.timeout.ms", _INT, "3000", Range(low=1), _LOW,
                  "The longest wait for a connection, and for each part of an answer."),
        ConfigKey("max.retries", _INT, "5", Range(low=0), _LOW,
                  "How often documents are sent again after an error that may pass."),
        ConfigKey("retry.backoff.ms", _LONG, "100", Range(0, _BACKOFF_MS_MAX), _LOW,
                  "The first pause before they are sent again. Each further pause is twice as long."),
        ConfigKey("batch.size", _INT, "2000", Range(1, 1_000_000), _MEDIUM, "The most documents of one request."),
        ConfigKey("bulk.size.bytes", _LONG, "5242880", Range(low=1), _LOW, "The bytes after which a request is sent."),
        ConfigKey("linger.ms", _LONG, "1", Range(0, 604_800_000), _LOW,
                  "How long documents wait for others, so that one request has more of them."),
        ConfigKey("key.ignore", _BOOLEAN, "false", None, _HIGH,
                  "Whether the id of a document is topic+partition+offset in place of the record's key."),
        ConfigKey("schema.ignore", _BOOLEAN, "false", None, _LOW,
                  "Whether the search engine decides about the types of fields in place of the record's schema."),
        ConfigKey("write.method", _STRING, INSERT, OneOf((INSERT, UPSERT), ignore_case=True), _LOW,
                  "Whether a record replaces its document, or changes only the fields that it has."),
        ConfigKey("behavior.on.null.values", _STRING, FAIL, OneOf((IGNORE, DELETE, FAIL), ignore_case=True), _LOW,
                  "Whether a record without a value is left out, deletes its document, or is an error."),
        ConfigKey("behavior.on.malformed.documents", _STRING, FAIL, OneOf((IGNORE, WARN, FAIL), ignore_case=True), _LOW,
                  "Whether a document that the search engine refuses is left out, with a warning, or is an error."),
        ConfigKey("drop.invalid.message", _BOOLEAN, "false", None, _LOW,
                  "Whether a record that cannot become a document is left out."),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SearchSettings:
    urls: tuple[str, ...]
    requests: RequestSettings
    batch_size: int
    batch_bytes: int
    linger_ms: int
    ignores_key: bool
    ignores_schema: bool
    upserts: bool
    null_values: str
    malformed: str
    drops_invalid: bool

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SearchSettings:
        """Parses a configuration. Raises ConfigError."""
        values = SEARCH_KEYS.parse(config)
        urls = values["connection.url"]
        assert isinstance(urls, tuple), "the key is a list"
        return cls(
            urls=tuple(url.rstrip("/") for url in urls),
            requests=RequestSettings(
                headers=_login(values),
                timeout_s=number(values, "read.timeout.ms") / 1000,
                ca_location=text(values, "ssl.ca.location") or None,
                max_retries=number(values, "max.retries"),
                backoff_ms=number(values, "retry.backoff.ms"),
                backoff_max_ms=_BACKOFF_MS_MAX,
                retried=_RETRIED,
            ),
            batch_size=number(values, "batch.size"),
            batch_bytes=number(values, "bulk.size.bytes"),
            linger_ms=number(values, "linger.ms"),
            ignores_key=values["key.ignore"] is True,
            ignores_schema=values["schema.ignore"] is True,
            upserts=text(values, "write.method").lower() == UPSERT,
            null_values=text(values, "behavior.on.null.values").lower(),
            malformed=text(values, "behavior.on.malformed.documents").lower(),
            drops_invalid=values["drop.invalid.message"] is True,
        )


def _login(values: Mapping[str, ConfigValue]) -> dict[str, str]:
    user, password = text(values, "connection.username"), text(values, "connection.password")
    if bool(user) != bool(password):
        missing = "connection.password" if user else "connection.username"
        raise ConfigError("Set both connection.username and connection.password, or none", key=missing)
    if not user:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
