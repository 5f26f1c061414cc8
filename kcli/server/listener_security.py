"""The security of each listener: its TLS, and how its connections log in.

A node makes the security of all listeners at its start, and does not start if one of them has a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.config.listeners import Listener
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.security.callbacks import principal_builder
from kcli.security.principal import Session
from kcli.server.certificate_login import certificate_login
from kcli.server.listener_tls import ListenerTls
from kcli.server.network.connection import Authenticate, Connection, anonymous
from kcli.server.network.phase import Phase
from kcli.server.network.tls_transport import ServerTls
from kcli.server.requests.dispatch import Dispatch
from kcli.server.sasl_logins import SaslLogins, logged_in


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener. `authenticate` begins the login of each new connection. `tls` is None on a listener
    without TLS."""

    authenticate: Authenticate = anonymous
    tls: ServerTls | None = None


class NodeSecurity:
    """The parts that the logins on all listeners of a node share."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], MetadataImage]) -> None:
        """`image` returns the current metadata."""
        self._config = config
        self._logins = SaslLogins(config, clock, image)
        self._tls: dict[str, ListenerTls] = {}

    def of(self, listener: Listener, dispatch: Dispatch) -> ListenerSecurity:
        """The security of a listener whose requests `dispatch` serves.

        Raises ConfigError if the configuration has a mistake.
        """
        config, protocol = ListenerConfig(self._config, listener.name), listener.security_protocol
        tls = self._tls_of(config) if protocol.endswith("SSL") else None
        if protocol.startswith("SASL_"):
            return ListenerSecurity(self._logins.of(config, dispatch), tls)
        return ListenerSecurity(_named(config, anonymous if tls is None else certificate_login(config)), tls)

    def _tls_of(self, config: ListenerConfig) -> ServerTls:
        try:
            made = self._tls[config.listener] = ListenerTls(config)
        except ConfigError as error:
            raise error.at(self._config.texts.where(error.key) if error.key else "") from None
        return made.served

    def check_change(self, after: BrokerConfig) -> None:
        """Raises ConfigError if a running listener cannot take over the changed keys (KIP-226)."""
        for tls in self._tls.values():
            tls.check(after)

    def change(self, after: BrokerConfig) -> None:
        """Takes over changed keys of the TLS stores."""
        for tls in self._tls.values():
            tls.change(after)

    def look_at_files(self) -> None:
        """Loads the TLS stores again whose files have changed."""
        for tls in self._tls.values():
            tls.look()

    def close(self) -> None:
        self._logins.close()


def _named(config: ListenerConfig, authenticate: Authenticate) -> Authenticate:
    """The same logins without SASL, with principals of the builder in `principal.builder.class`."""
    builder = principal_builder(config)
    if builder is None:
        return authenticate

    def begin(connection: Connection) -> Session | Phase:
        session = authenticate(connection)
        assert isinstance(session, Session), "a login without SASL has no phase"
        return Session(builder.build(logged_in(connection, None, session.principal.name)))

    return begin
