"""The settings of a registry's client, under the names that Confluent's clients give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, OneOf, Range
from kcli.formats.registry import unused_keys
from kcli.formats.registry.unused_keys import refuse
from kcli.model.java_text import trim

if TYPE_CHECKING:
    from kcli.security.tls.contexts import ClientTls
    from kcli.security.token_source import TokenSource

URL = "schema.registry.url"
TLS_PREFIX = "schema.registry."
"""The prefix of Kafka's ssl.* keys in the properties of a registry's client."""

HEADER_PREFIX = "request.header."
"""The prefix of keys whose values are sent as headers with each request."""

_LOGIN, _LOGIN_SOURCE = "basic.auth.user.info", "basic.auth.credentials.source"
_TOKEN, _TOKEN_SOURCE = "bearer.auth.token", "bearer.auth.credentials.source"
URLS_MAX = 100

_STRING, _INT, _SECRET = ConfigType.STRING, ConfigType.INT, ConfigType.PASSWORD
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

CLIENT_KEYS = ConfigDef(
    [
        ConfigKey(URL, ConfigType.LIST, None, None, _HIGH,
                  "The URLs of the schema registry, separated by commas. If one does not answer, the next is"
                  " tried. A URL may have user:password@ before its host.", required=True),
        ConfigKey(_LOGIN_SOURCE, _STRING, None, OneOf(("URL", "USER_INFO", "SASL_INHERIT")), _MEDIUM,
                  "The source of the user and the password: the URL, basic.auth.user.info, or"
                  " sasl.jaas.config. Default: basic.auth.user.info if it is set, otherwise the URL."),
        ConfigKey(_LOGIN, _SECRET, "", None, _MEDIUM, "The user and the password, as user:password."),
        ConfigKey(_TOKEN_SOURCE, _STRING, None,
                  OneOf(("STATIC_TOKEN", "OAUTHBEARER", "SASL_OAUTHBEARER_INHERIT")), _MEDIUM,
                  "The source of a bearer token: bearer.auth.token, the endpoint of bearer.auth.issuer."
                  "endpoint.url, or the sasl.* keys."),
        ConfigKey(_TOKEN, _SECRET, None, None, _MEDIUM, "The bearer token."),
        ConfigKey("bearer.auth.issuer.endpoint.url", _STRING, None, None, _MEDIUM, "The token endpoint."),
        ConfigKey("bearer.auth.client.id", _STRING, None, None, _MEDIUM, "The client at the token endpoint."),
        ConfigKey("bearer.auth.client.secret", _SECRET, None, None, _MEDIUM, "The secret of this client."),
        ConfigKey("bearer.auth.scope", _STRING, None, None, _MEDIUM, "The scope of the token."),
        ConfigKey("bearer.auth.logical.cluster", _STRING, None, None, _LOW,
                  "The registry behind a shared address (header target-sr-cluster)."),
        ConfigKey("bearer.auth.identity.pool.id", _STRING, None, None, _LOW,
                  "The identity pool (header Confluent-Identity-Pool-Id)."),
        ConfigKey("http.connect.timeout.ms", _INT, "60000", Range(low=1), _LOW,
                  "The longest wait for a connection."),
        ConfigKey("http.read.timeout.ms", _INT, "60000", Range(low=1), _LOW,
                  "The longest wait for the answer after that."),
        ConfigKey("max.retries", _INT, "3", Range(low=0, high=100), _LOW,
                  "How often a request is tried again if no URL answers, or after status 408, 429 or 5xx."),
        ConfigKey("retries.wait.ms", _INT, "1000", Range(low=0), _LOW,
                  "The longest pause before the first repetition. Each further pause may be twice as long."),
        ConfigKey("retries.max.wait.ms", _INT, "20000", Range(low=0), _LOW, "The longest pause."),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RegistryUrl:
    """The URL of a registry without its login and without a slash at its end."""

    url: str
    login: str | None = field(default=None, repr=False)
    """user:password, if the URL contains them."""

    @classmethod
    def read(cls, text: str) -> RegistryUrl:
        """Parses http(s)://[user:password@]host[:port][/path]. Raises ConfigError, whose text has no login."""
        try:
            parts = urlsplit(trim(text))
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid or parts.query or parts.fragment:
            shown = text.rpartition("@")[2]
            raise ConfigError(
                f"{shown}: expected the URL of a schema registry, such as http://localhost:8081"
            )
        login = None
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        host = parts.netloc.rpartition("@")[2]
        return cls(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), login)

    @property
    def is_https(self) -> bool:
        return self.url.startswith("https:")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """How a client reaches a registry. The settings can be pickled, so that Spark can send them to its workers."""

    urls: tuple[RegistryUrl, ...]
    login: str | None = field(default=None, repr=False)
    """user:password for every URL. None: the login of the URL counts."""
    tokens: TokenSource | None = field(default=None, repr=False)
    tls: ClientTls | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    request_seconds: float = 120.0
    retries_max: int = 3
    retry_wait_ms: int = 1_000
    retry_wait_max_ms: int = 20_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RegistrySettings:
        """Reads the properties of a client. Other keys are left alone. Raises ConfigError."""
        refuse(unused_keys.CLIENT, properties, TLS_PREFIX)
        texts = {
            name: properties.get(f"{TLS_PREFIX}{name}", properties.get(name))
            for name in CLIENT_KEYS
            if name != URL
        }
        texts[URL] = properties.get(URL)
        values = CLIENT_KEYS.parse({name: text for name, text in texts.items() if text is not None})
        listed = values[URL]
        assert isinstance(listed, tuple)
        if not 0 < len(listed) <= URLS_MAX:
            raise ConfigError(f"{URL}: expected 1 to {URLS_MAX} URLs of a schema registry", key=URL)
        urls = tuple(map(RegistryUrl.read, listed))
        return cls(
            urls=urls,
            login=_login(properties, values),
            tokens=_tokens(properties, values),
            tls=_tls(properties) if any(url.is_https for url in urls) else None,
            headers=_headers(properties, values),
            # One limit for both parts, because a request has only one.
            request_seconds=(
                _number(values, "http.connect.timeout.ms") + _number(values, "http.read.timeout.ms")
            )
            / 1000,
            retries_max=_number(values, "max.retries"),
            retry_wait_ms=_number(values, "retries.wait.ms"),
            retry_wait_max_ms=_number(values, "retries.max.wait.ms"),
        )

    @property
    def shown(self) -> str:
        """The URLs without logins, for messages."""
        return ", ".join(url.url for url in self.urls)


def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values[name]
    return value if isinstance(value, str) and value else None


def _number(values: Mapping[str, object], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def _login(properties: Mapping[str, str], values: Mapping[str, object]) -> str | None:
    usual = "USER_INFO" if _text(values, _LOGIN) else "URL"
    match _text(values, _LOGIN_SOURCE) or usual:
        case "USER_INFO":
            login = _text(values, _LOGIN)
            if login is None or ":" not in login:
                raise ConfigError(f"{_LOGIN}: expected user:password", key=_LOGIN)
            return login
        case "SASL_INHERIT":
            from kcli.security.mechanisms.client import Credentials

            credentials = _inherited(properties)
            if not isinstance(credentials, Credentials):
                raise ConfigError(
                    f"{_LOGIN_SOURCE}: sasl.mechanism has no user and password", key=_LOGIN_SOURCE
                )
            return f"{credentials.username}:{credentials.password}"
        case _:
            return None


def _tokens(properties: Mapping[str, str], values: Mapping[str, object]) -> TokenSource | None:
    match _text(values, _TOKEN_SOURCE):
        case "STATIC_TOKEN":
            if (token := _text(values, _TOKEN)) is None:
                raise ConfigError(f"{_TOKEN}: expected a token", key=_TOKEN)
            return StaticToken(token)
        case "OAUTHBEARER":
            return _endpoint(values)
        case "SASL_OAUTHBEARER_INHERIT":
            from kcli.security.mechanisms.client import BearerCredentials

            credentials = _inherited(properties)
            if not isinstance(credentials, BearerCredentials):
                raise ConfigError(f"{_TOKEN_SOURCE}: sasl.mechanism is not OAUTHBEARER", key=_TOKEN_SOURCE)
            return credentials.source
        case _:
            return None


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token that never changes."""

    text: str = field(repr=False)

    def token(self) -> str:
        return self.text


def _endpoint(values: Mapping[str, object]) -> TokenSource:
    from kcli.security.token_endpoint import ClientSecret, Endpoint
    from kcli.security.token_sources import Renewed

    parts = {name: _text(values, f"bearer.auth.{name}") for name in ("client.id", "client.secret")}
    parts["issuer.endpoint.url"] = _text(values, "bearer.auth.issuer.endpoint.url")
    for name, value in parts.items():
        if value is None:
            key = f"bearer.auth.{name}"
            raise ConfigError(f"{key} is not set, and {_TOKEN_SOURCE}=OAUTHBEARER needs it", key=key)
    return Renewed(
        ClientSecret(
            Endpoint(parts["issuer.endpoint.url"] or ""),
            parts["client.id"] or "",
            parts["client.secret"] or "",
            _text(values, "bearer.auth.scope"),
        )
    )


def _inherited(properties: Mapping[str, str]) -> object:
    from kcli.security.client_login import client_credentials

    try:
        return client_credentials(properties, "", None)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _tls(properties: Mapping[str, str]) -> ClientTls:
    from kcli.security.client import client_security

    tls_keys = {name: text for name, text in properties.items() if name.startswith(f"{TLS_PREFIX}ssl.")}
    try:
        tls = client_security({**tls_keys, f"{TLS_PREFIX}security.protocol": "SSL"}, TLS_PREFIX).tls
    except ValueError as error:
        raise ConfigError(str(error)) from None
    assert tls is not None
    return tls


def _headers(properties: Mapping[str, str], values: Mapping[str, object]) -> dict[str, str]:
    headers = {
        name.removeprefix(HEADER_PREFIX): text
        for name, text in properties.items()
        if name.startswith(HEADER_PREFIX)
    }
    for name, text in headers.items():
        if not name or any(ord(sign) < 0x20 for sign in name + text):
            raise ConfigError(f"{HEADER_PREFIX}{name}: expected a header without control characters")
    for key, header in (
        ("bearer.auth.logical.cluster", "target-sr-cluster"),
        ("bearer.auth.identity.pool.id", "Confluent-Identity-Pool-Id"),
    ):
        if (value := _text(values, key)) is not None:
            headers[header] = value
    return headers
