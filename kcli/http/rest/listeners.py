"""The listeners of a REST API: their URLs, and TLS with the keys of Java's servers."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcli.config.broker_keys import BROKER
from kcli.config.definition import ConfigError
from kcli.http.handshakes import Tls
from kcli.model.addresses import read_address
from kcli.security.tls.contexts import client_tls, context_of_server, stores_of
from kcli.security.tls.settings import store_settings


@dataclass(frozen=True, slots=True)
class RestListener:
    """The URL of a listener. An empty `host` means every interface. `port` 0 means any free port."""

    is_https: bool
    host: str
    port: int

    @property
    def scheme(self) -> str:
        return "https" if self.is_https else "http"


@dataclass(frozen=True, slots=True)
class Listener:
    """A place where a server listens. `host` is None for all interfaces."""

    host: str | None
    port: int
    tls: Tls | None = None


def rest_listener(url: str) -> RestListener:
    """Parses a URL such as `https://host:8443`. Raises ConfigError."""
    protocol, separator, host_port = url.rpartition("://")
    address = read_address(host_port)
    if not separator or address is None:
        raise ConfigError(
            "Listener doesn't have the right format (protocol://hostname:port).", key="listeners"
        )
    protocol = protocol.lower()
    if protocol not in ("http", "https"):
        raise ConfigError('Listener protocol must be either "http" or "https".', key="listeners")
    return RestListener(protocol == "https", address.host, address.port)


def ssl_properties(texts: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    """The keys `ssl.*`: those with the prefix if there is any, else those without."""
    scoped = {
        key.removeprefix(prefix): text for key, text in texts.items() if key.startswith(prefix + "ssl.")
    }
    return scoped or {key: text for key, text in texts.items() if key.startswith("ssl.")}


def listening(listener: RestListener, properties: Mapping[str, str]) -> Listener:
    """The place of a listener. `properties` are its keys `ssl.*`. Raises ConfigError or StoreError."""
    host = listener.host or None
    if not listener.is_https:
        return Listener(host, listener.port)
    context = context_of_server(
        stores_of(store_settings(_look_up(properties)), "listeners"),
        client_auth=properties.get("ssl.client.auth", "none"),
        protocols=_listed(properties, "ssl.enabled.protocols"),
        ciphers=_listed(properties, "ssl.cipher.suites"),
    )
    return Listener(host, listener.port, lambda: context)


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """The context for requests to other servers of this kind, which trusts the same certificates."""
    return client_tls(_look_up(properties)).context()


def local_host() -> str:
    """The address of this machine, as Java's `InetAddress.getLocalHost` finds it."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _look_up(properties: Mapping[str, str]) -> Callable[[str], str | None]:
    def look_up(name: str) -> str | None:
        text = properties.get(name)
        value = BROKER[name].parse(text) if text is not None else BROKER.default(name)
        return ",".join(value) if isinstance(value, tuple) else None if value is None else str(value)

    return look_up


def _listed(properties: Mapping[str, str], name: str) -> Sequence[str]:
    text = properties.get(name)
    value = BROKER.default(name) if text is None else BROKER[name].parse(text)
    return value if isinstance(value, tuple) else ()
