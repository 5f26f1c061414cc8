"""The security of each listener: its TLS, and how its connections log in.

A node checks the security settings of all listeners at its start, and does not start if a setting is invalid. The code
of TLS and SASL is imported late, so that a node with PLAINTEXT listeners starts faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.config.listeners import Listener
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.security.principal import Session
from kcli.server.network.connection import Authenticate, Connection, anonymous
from kcli.server.network.phase import Phase
from kcli.server.network.tls_transport import ServerTls
from kcli.server.requests.dispatch import Dispatch

if TYPE_CHECKING:
    from kcli.server.logins.listener_tls import ListenerTls
    from kcli.server.logins.sasl_logins import SaslLogins


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
        self._clock = clock
        self._image = image
        self._logins: SaslLogins | None = None
        self._tls: dict[str, ListenerTls] = {}

    def of(self, listener: Listener, dispatch: Dispatch) -> ListenerSecurity:
        """The security of a listener whose requests `dispatch` serves.

        Raises ConfigError if the configuration has a mistake.
        """
        config, protocol = ListenerConfig(self._config, listener.name), listener.security_protocol
        tls = self.tls_of(config) if protocol.endswith("SSL") else None
        if protocol.startswith("SASL_"):
            return ListenerSecurity(self._sasl_logins().of(config, dispatch), tls)
        if tls is None:
            return ListenerSecurity(_named(config, anonymous))
        from kcli.server.logins.certificate_login import certificate_login

        return ListenerSecurity(_named(config, certificate_login(config)), tls)

    def _sasl_logins(self) -> SaslLogins:
        if self._logins is None:
            from kcli.server.logins.sasl_logins import SaslLogins

            self._logins = SaslLogins(self._config, self._clock, self._image)
        return self._logins

    def load_stores(self) -> None:
        """Loads the TLS stores of all listeners. Raises ConfigError if the configuration has a mistake."""
        for listener in self._config.listeners:
            if listener.security_protocol.endswith("SSL"):
                self.tls_of(ListenerConfig(self._config, listener.name))

    def tls_of(self, config: ListenerConfig) -> ServerTls:
        """The TLS of a listener, which follows changes of its keys and its files. Raises ConfigError."""
        from kcli.server.logins.listener_tls import ListenerTls

        made = self._tls.get(config.listener)
        if made is None:
            try:
                made = self._tls[config.listener] = ListenerTls(config)
            except ConfigError as error:
                raise config.blamed(error) from None
        return made.served

    def prepare_change(self, after: BrokerConfig) -> None:
        """Loads changed key stores in a thread, because this may take 0.3 s. `check_change` then uses the loaded
        stores.
        """
        for tls in tuple(self._tls.values()):
            tls.prepare_change(after)

    def check_change(self, after: BrokerConfig) -> None:
        """Raises ConfigError if a running listener cannot use the changed keys (KIP-226)."""
        for tls in self._tls.values():
            tls.check(after)

    def change(self, after: BrokerConfig) -> None:
        """Applies changed keys of the TLS stores."""
        for tls in self._tls.values():
            tls.change(after)

    def prepare_files(self) -> None:
        """Loads changed key stores in a thread, because this may take 0.3 s. `look_at_files` then uses the loaded
        stores.
        """
        for tls in tuple(self._tls.values()):
            tls.prepare()

    def look_at_files(self) -> None:
        """Checks the files of the TLS stores, and loads each store whose file has changed."""
        for tls in self._tls.values():
            tls.look()

    def certificates(self) -> Iterator[tuple[str, str, float]]:
        """Yields the listener, the subject and the expiry time (in seconds since 1970) of each certificate of this
        node.
        """
        for listener, tls in self._tls.items():
            for subject, not_after_s in tls.certificates():
                yield listener, subject, not_after_s

    def close(self) -> None:
        if self._logins is not None:
            self._logins.close()


def _named(config: ListenerConfig, authenticate: Authenticate) -> Authenticate:
    """Returns a login without SASL whose principals come from the class of `principal.builder.class`. If the key is not
    set, returns `authenticate`."""
    if config.key_of("principal.builder.class") is None:
        return authenticate
    from kcli.security.callbacks import principal_builder
    from kcli.server.logins.sasl_logins import logged_in

    builder = principal_builder(config)
    if builder is None:
        return authenticate

    def begin(connection: Connection) -> Session | Phase:
        session = authenticate(connection)
        assert isinstance(session, Session), "a login without SASL has no phase"
        return Session(builder.build(logged_in(connection, None, session.principal.name)))

    return begin
