"""The keys of the HTTP connectors."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

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
    invalid_value,
)
from kcli.model.java_text import natural, trim

NO_LOGIN, BASIC, BEARER = "none", "basic", "bearer"
IGNORE, DELETE, FAIL = "ignore", "delete", "fail"
JSON, STRING = "json", "string"
_STATUS_MAX = 599
_HEADERS_END = "|"
_HEADER_CHARACTER_MAX = "\xff"
_STRING_TYPE, _INT, _PASSWORD = ConfigType.STRING, ConfigType.INT, ConfigType.PASSWORD
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True)
class _HttpUrl:
    def check(self, key: str, value: ConfigValue) -> None:
        try:
            parts = urlsplit(str(value))
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise invalid_value(key, "[hidden]", "expected a URL such as https://host/path")
        if parts.username is not None:
            raise invalid_value(key, "[hidden]", "expected no login in the URL: set auth.type=basic")

    def __str__(self) -> str:
        return "an http or https URL"


def is_header(text: str) -> bool:
    """Whether a request may have a header with this text. HTTP has one byte for each character of a header."""
    return text.isprintable() and max(text, default="") <= _HEADER_CHARACTER_MAX


@dataclass(frozen=True, slots=True)
class _Headers:
    def check(self, key: str, value: ConfigValue) -> None:
        for item in str(value or "").split(_HEADERS_END):
            name, separator, text = item.partition(":")
            if item and (not separator or not trim(name) or not is_header(f"{name}{text}")):
                # The value of a header may be a secret.
                raise invalid_value(key, "[hidden]", "expected Name:value, with | between two headers")

    def __str__(self) -> str:
        return "Name:value|Name:value"


@dataclass(frozen=True, slots=True)
class _StatusCodes:
    def check(self, key: str, value: ConfigValue) -> None:
        try:
            status_codes(str(value or ""))
        except ValueError:
            raise invalid_value(key, value, "expected status codes such as 429,500-599 or 500-") from None

    def __str__(self) -> str:
        return "status codes such as 429,500-"


def status_codes(text: str) -> frozenset[int]:
    """The codes of a list of codes and ranges. Raises ValueError."""
    codes: set[int] = set()
    for item in filter(None, map(trim, text.split(","))):
        first, separator, last = item.partition("-")
        least = natural(first)
        most = natural(last) if last else _STATUS_MAX if separator else least
        if least is None or most is None or not 100 <= least <= most <= _STATUS_MAX:
            raise ValueError(item)
        codes.update(range(least, most + 1))
    return frozenset(codes)


def _common(url_key: str, url_documentation: str) -> list[ConfigKey]:
    return [
        ConfigKey(url_key, _STRING_TYPE, None, _HttpUrl(), _HIGH, url_documentation, required=True),
        ConfigKey("headers", _STRING_TYPE, "", _Headers(), _MEDIUM,
                  "Headers of each request, as Name:value, with | between two headers."),
        ConfigKey("auth.type", _STRING_TYPE, NO_LOGIN, OneOf((NO_LOGIN, BASIC, BEARER)), _MEDIUM,
                  "How requests are authenticated."),
        ConfigKey("connection.user", _STRING_TYPE, None, None, _MEDIUM, "The user of auth.type=basic."),
        ConfigKey("connection.password", _PASSWORD, None, None, _MEDIUM, "The password of auth.type=basic."),
        ConfigKey("bearer.token", _PASSWORD, None, None, _MEDIUM, "The token of auth.type=bearer."),
        ConfigKey("ssl.ca.location", _STRING_TYPE, None, None, _LOW,
                  "A PEM file with the certificates that sign the server's certificate."),
        ConfigKey("request.timeout.ms", _INT, "30000", Range(low=1), _LOW,
                  "The longest wait for a connection, and for each part of an answer."),
        ConfigKey("max.retries", _INT, "10", Range(low=0), _MEDIUM,
                  "How often a request is tried again after an error."),
        ConfigKey("retry.backoff.ms", _INT, "3000", Range(low=0), _MEDIUM,
                  "The first pause before a request is tried again. Each further pause is twice as long."),
        ConfigKey("retry.backoff.max.ms", _INT, "60000", Range(low=0), _LOW, "The longest such pause."),
        ConfigKey("retry.on.status.codes", _STRING_TYPE, "429,500-", _StatusCodes(), _MEDIUM,
                  "The status codes after which a request is tried again."),
    ]  # fmt: skip


SINK_KEYS = ConfigDef(
    [
        *_common("http.api.url", "Where records are sent. ${topic} and ${key} stand for those of the record."),
        ConfigKey("request.method", _STRING_TYPE, "POST", OneOf(("POST", "PUT", "PATCH")), _HIGH,
                  "The method of the requests."),
        ConfigKey("request.body.format", _STRING_TYPE, JSON, OneOf((JSON, STRING)), _MEDIUM,
                  "Whether a value is sent as JSON, or a string and bytes as they are."),
        ConfigKey("batch.max.size", _INT, "1", Range(low=1), _HIGH,
                  "The most records of one request. With 1, the body is the value alone."),
        ConfigKey("batch.prefix", _STRING_TYPE, "[", None, _LOW, "The text before the values of a batch."),
        ConfigKey("batch.suffix", _STRING_TYPE, "]", None, _LOW, "The text after the values of a batch."),
        ConfigKey("batch.separator", _STRING_TYPE, ",", None, _LOW, "The text between two values of a batch."),
        ConfigKey("behavior.on.null.values", _STRING_TYPE, IGNORE, OneOf((IGNORE, DELETE, FAIL)), _LOW,
                  "A record without a value is skipped, becomes a DELETE request, or fails."),
    ]
)  # fmt: skip

SOURCE_KEYS = ConfigDef(
    [
        *_common("http.url", "What to poll. ${offset} stands for the offset of the last record."),
        ConfigKey("topic", _STRING_TYPE, None, NonEmpty(), _HIGH, "The topic of the records.", required=True),
        ConfigKey("poll.interval.ms", _INT, "60000", Range(low=1), _HIGH, "The pause between two polls."),
        ConfigKey("records.pointer", _STRING_TYPE, "", None, _HIGH,
                  "The JSON pointer (RFC 6901) to the list of records in an answer. An empty text is the whole"
                  " answer."),
        ConfigKey("offset.pointer", _STRING_TYPE, None, None, _HIGH,
                  "The JSON pointer to the offset in each record. Without it, each poll reads all records."),
        ConfigKey("offset.initial", _STRING_TYPE, "", None, _MEDIUM, "The ${offset} of the first poll."),
        ConfigKey("key.pointer", _STRING_TYPE, None, None, _MEDIUM,
                  "The JSON pointer to the key in each record, which becomes a string."),
        ConfigKey("next.pointer", _STRING_TYPE, None, None, _MEDIUM,
                  "The JSON pointer to the URL of the next page in an answer."),
        ConfigKey("response.max.bytes", _INT, "16777216", Range(low=1), _LOW, "The longest answer to accept."),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What all requests have in common."""

    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    ca_location: str | None
    max_retries: int
    backoff_ms: int
    backoff_max_ms: int
    retried: frozenset[int]

    @classmethod
    def of(cls, values: Mapping[str, ConfigValue]) -> RequestSettings:
        """Raises ConfigError if the keys of the login are missing."""
        headers = {}
        for item in filter(None, text(values, "headers").split(_HEADERS_END)):
            name, _, value = item.partition(":")
            headers[trim(name)] = trim(value)
        login = _login(values)
        if login is not None:
            headers["Authorization"] = login
        return cls(
            headers=headers,
            timeout_s=number(values, "request.timeout.ms") / 1000,
            ca_location=text(values, "ssl.ca.location") or None,
            max_retries=number(values, "max.retries"),
            backoff_ms=number(values, "retry.backoff.ms"),
            backoff_max_ms=number(values, "retry.backoff.max.ms"),
            retried=status_codes(text(values, "retry.on.status.codes")),
        )


def _login(values: Mapping[str, ConfigValue]) -> str | None:
    kind = text(values, "auth.type")
    needed = {BASIC: ("connection.user", "connection.password"), BEARER: ("bearer.token",)}.get(kind, ())
    for key in needed:
        if not text(values, key):
            raise ConfigError(f"auth.type={kind} needs {key}", key=key)
    if kind == BASIC:
        pair = f"{text(values, 'connection.user')}:{text(values, 'connection.password')}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    if kind != BEARER:
        return None
    token = trim(text(values, "bearer.token"))  # a file with a token often ends with a line break
    if not is_header(token):
        raise ConfigError("bearer.token has a character that a header cannot have", key="bearer.token")
    return f"Bearer {token}"


def login_errors(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, list[str]]:
    """The error of a login that lacks a key. The worker reports the errors of single keys itself."""
    try:
        values = definition.parse(config)
    except ConfigError:
        return {}
    try:
        RequestSettings.of(values)
    except ConfigError as error:
        return {error.key or "auth.type": [error.message]}
    return {}


def text(values: Mapping[str, ConfigValue], key: str) -> str:
    value = values[key]
    assert value is None or isinstance(value, str), key
    return value or ""


def number(values: Mapping[str, ConfigValue], key: str) -> int:
    value = values[key]
    assert isinstance(value, int), key
    return value
