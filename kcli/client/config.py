"""The settings of a client: servers, time-outs, client id. They have the names and defaults of Kafka's admin client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.properties import Properties
from kcli.errors import KcliError
from kcli.model.addresses import MAX_PORT, Address, read_server
from kcli.model.java_text import parse_int, trim
from kcli.security.client import ClientSecurity, client_security


class ClientConfigError(KcliError):
    """Raised for an invalid setting. The message has the name of the setting and the expected value."""


class SecuritySettingsError(ClientConfigError):
    """Raised for an invalid setting of TLS or SASL, or for a store that cannot be loaded. The message has Kafka's
    texts: the text of the exception, and on the next line the text of its cause.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a client, which `client_config` has checked."""

    servers: tuple[Address, ...]
    servers_are_controllers: bool = False
    """Whether the servers are controllers, from bootstrap.controllers.

    Requests then go to the quorum, not to brokers (KIP-919).
    """
    client_id: str | None = None
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    connection_setup_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    security: ClientSecurity | None = None


def parse_address(text: str, setting: str = "bootstrap.servers") -> Address:
    """Parses `host:port` or `[ipv6]:port`. Raises ClientConfigError if it is invalid."""
    address = read_server(trim(text))
    if address is None:
        raise ClientConfigError(
            f"Invalid url in {setting}: {trim(text)} (expected host:port with a port from 1 to {MAX_PORT})"
        )
    return address


def parse_addresses(text: str, setting: str = "bootstrap.servers") -> tuple[Address, ...]:
    """Parses a comma-separated list of addresses. Raises ClientConfigError if it is empty or invalid."""
    addresses = tuple(parse_address(part, setting) for part in text.split(",") if trim(part))
    if not addresses:
        raise ClientConfigError(f"No bootstrap urls given in {setting}")
    return addresses


def client_config(
    properties: Mapping[str, str],
    *,
    bootstrap_servers: str | None = None,
    bootstrap_controllers: str | None = None,
    client_id: str | None = None,
    api_timeout_ms: int | None = None,
) -> ClientConfig:
    """Creates the settings of a client from properties. Raises ClientConfigError for an invalid property.

    An argument takes precedence over the properties, except `client_id`, which is only a default.
    """
    servers = bootstrap_servers or properties.get("bootstrap.servers")
    controllers = bootstrap_controllers or properties.get("bootstrap.controllers")
    if bootstrap_servers is not None:
        controllers = None
    if controllers:
        addresses = parse_addresses(controllers, "bootstrap.controllers")
    elif servers:
        addresses = parse_addresses(servers)
    else:
        raise ClientConfigError("No bootstrap urls given in bootstrap.servers")
    if api_timeout_ms is not None and api_timeout_ms <= 0:
        raise ClientConfigError(f"a timeout of {api_timeout_ms} ms: expected a number greater than 0")
    request_timeout = _integer(properties, "request.timeout.ms", 30_000)
    api_timeout = api_timeout_ms or _integer(
        properties, "default.api.timeout.ms", max(60_000, request_timeout)
    )
    return ClientConfig(
        servers=addresses,
        servers_are_controllers=bool(controllers),
        client_id=properties.get("client.id") or client_id,
        # Kafka refuses an API time-out that is shorter than the request time-out. Here a shorter --timeout also
        # shortens the request time-out.
        request_timeout_ms=min(request_timeout, api_timeout),
        default_api_timeout_ms=api_timeout,
        connection_setup_timeout_ms=_integer(properties, "socket.connection.setup.timeout.ms", 10_000),
        retry_backoff_ms=_integer(properties, "retry.backoff.ms", 100),
        retry_backoff_max_ms=_integer(properties, "retry.backoff.max.ms", 1_000),
        reconnect_backoff_ms=_integer(properties, "reconnect.backoff.ms", 50),
        reconnect_backoff_max_ms=_integer(properties, "reconnect.backoff.max.ms", 1_000),
        security=_security(properties),
    )


def _security(properties: Mapping[str, str]) -> ClientSecurity:
    """Reads the settings of TLS and SASL. Loads the stores once, so that a mistake is found before the client
    connects.
    """
    from kcli.security.tls.checks import StoreError

    try:
        security = client_security(properties)
        if security.tls is not None:
            security.tls.context()
    except StoreError as error:
        raise SecuritySettingsError(f"{error.summary}\nCaused by: {error.cause}") from error
    except (ValueError, OSError) as error:
        raise SecuritySettingsError(str(error)) from error
    return security


def _integer(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    try:
        value = parse_int(trim(text))
    except ValueError:
        raise ClientConfigError(
            f"Invalid value {text} for configuration {key}: Not a number of type INT{_where(properties, key)}"
        ) from None
    if value < 0:
        raise ClientConfigError(
            f"Invalid value {text} for configuration {key}: Value must be at least 0{_where(properties, key)}"
        )
    return value


def _where(properties: Mapping[str, str], key: str) -> str:
    """Returns the file and line of a setting, if known."""
    place = properties.where(key) if isinstance(properties, Properties) else ""
    return f" ({place})" if place else ""
