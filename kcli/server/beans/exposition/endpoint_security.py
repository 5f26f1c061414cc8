"""TLS and users of the metrics endpoint.

`kcli.metrics.protocol=HTTPS` serves the metrics over TLS, and `kcli.metrics.users` has the users and their passwords.
The key store and the trust store come from the keys `listener.name.metrics.ssl.*`, as for a listener with the name
METRICS. Keys that are not set there come from `ssl.*`.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.http.handshakes import Tls
from kcli.http.logins import Logins
from kcli.model.java_text import split_blanks
from kcli.server.network.tls_transport import ServerTls

_log = logging.getLogger("kcli.server.MetricsEndpoint")

LISTENER = "METRICS"
USERS_KEY = "kcli.metrics.users"
PROTOCOL_KEY = "kcli.metrics.protocol"


@dataclass(frozen=True, slots=True)
class EndpointSecurity:
    """The security of the endpoint. `tls` returns the TLS context. If `tls` is None, the endpoint uses HTTP without
    TLS. `logins` has the users. If `logins` is None, clients need no login.
    """

    tls: Tls | None = None
    logins: Logins | None = None


OPEN = EndpointSecurity()


def endpoint_security(
    config: BrokerConfig, tls_of: Callable[[ListenerConfig], ServerTls]
) -> EndpointSecurity:
    """Reads the security of the endpoint from the configuration. `tls_of` loads the key store and the trust store of a
    listener, and keeps the TLS context up to date.

    Raises ConfigError, without any password in its message.
    """
    logins = _logins(config.text(USERS_KEY))
    if config.text(PROTOCOL_KEY) == "HTTPS":
        tls = tls_of(ListenerConfig(config, LISTENER))
        return EndpointSecurity(lambda: tls.context, logins)
    if logins is not None and not _is_loopback(config):
        _log.warning(
            "%s is set, but passwords can be read on the network, because the endpoint speaks HTTP: set %s=HTTPS",
            USERS_KEY,
            PROTOCOL_KEY,
        )
    return EndpointSecurity(None, logins)


def _logins(text: str) -> Logins | None:
    users: dict[str, str] = {}
    for number, entry in enumerate(split_blanks(text), 1):
        name, colon, password = entry.partition(":")
        if not (name and colon and password):
            raise ConfigError(f"{USERS_KEY}: entry {number} is not name:password", key=USERS_KEY)
        if name in users:
            raise ConfigError(f"{USERS_KEY}: the user {name} occurs twice", key=USERS_KEY)
        users[name] = password
    return Logins(users) if users else None


def _is_loopback(config: BrokerConfig) -> bool:
    address = config.metrics_address
    host = "" if address is None else address.host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
