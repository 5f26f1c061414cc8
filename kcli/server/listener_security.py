"""The security of each listener: how its connections log in.

A node makes the security of all listeners at its start, and does not start if one of them has a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.listener_config import ListenerConfig
from kcli.config.listeners import Listener
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.server.network.connection import Authenticate, anonymous
from kcli.server.requests.dispatch import Dispatch
from kcli.server.sasl_logins import SaslLogins


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener. `authenticate` begins the login of each new connection."""

    authenticate: Authenticate = anonymous


class NodeSecurity:
    """The parts that the logins on all listeners of a node share."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], MetadataImage]) -> None:
        """`image` returns the current metadata."""
        self._config = config
        self._logins = SaslLogins(config, clock, image)

    def of(self, listener: Listener, dispatch: Dispatch) -> ListenerSecurity:
        """The security of a listener whose requests `dispatch` serves.

        Raises ConfigError if the configuration has a mistake.
        """
        if not listener.security_protocol.startswith("SASL_"):
            return ListenerSecurity()
        return ListenerSecurity(self._logins.of(ListenerConfig(self._config, listener.name), dispatch))

    def close(self) -> None:
        self._logins.close()
