"""The security of each listener: how its connections log in.

A node makes the security of all listeners at its start, and does not start if one of them has a mistake.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.listener_config import ListenerConfig
from kcli.config.listeners import Listener
from kcli.metadata.image import MetadataImage, ScramCredential, ScramKey
from kcli.runtime.clock import Clock
from kcli.security.mechanisms.scram import Mechanism, ScramUsers
from kcli.security.server_mechanisms import server_mechanisms
from kcli.security.tokens import TokenCredentials
from kcli.server.certificate_login import certificate_login, server_tls
from kcli.server.network.connection import Authenticate, anonymous
from kcli.server.network.failed_logins import FailedLogins
from kcli.server.network.tls_transport import ServerTls
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.login import LoginSettings, user_principal
from kcli.server.requests.quotas import ClientQuotas

LOGIN_THREADS = 4
"""The threads for steps of logins that take long or wait for another server. There are few, because such a step uses
the CPU of the node before its client is known."""

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener. `authenticate` begins the login of each new connection. `tls` is None on a listener
    without TLS."""

    authenticate: Authenticate = anonymous
    tls: ServerTls | None = None


class NodeSecurity:
    """The parts that the logins on all listeners of a node share."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], MetadataImage]) -> None:
        """`image` returns the current metadata, which has the users of SCRAM."""
        self._config = config
        self._clock = clock
        self._image = image
        self._failures = FailedLogins()
        self._threads = ThreadPoolExecutor(LOGIN_THREADS, "kcli-login")
        tokens = TokenCredentials(
            config.text("delegation.token.secret.key") or None, lambda: image().delegation_tokens
        )
        self._users = ScramUsers(
            self._credential_of, tokens.credential_of, secret=secrets.token_bytes(_SECRET_BYTES)
        )

    def of(self, listener: Listener, dispatch: Dispatch) -> ListenerSecurity:
        """The security of a listener whose requests `dispatch` serves.

        Raises ConfigError if the configuration has a mistake.
        """
        config, protocol = ListenerConfig(self._config, listener.name), listener.security_protocol
        tls = server_tls(config) if protocol.endswith("SSL") else None
        if protocol.startswith("SASL_"):
            return ListenerSecurity(self._login(config, dispatch), tls)
        return ListenerSecurity(anonymous if tls is None else certificate_login(config), tls)

    def _login(self, config: ListenerConfig, dispatch: Dispatch) -> LoginSettings:
        mechanisms = server_mechanisms(config, self._users)
        return LoginSettings(
            mechanisms=mechanisms,
            max_reauth_ms={name: config.integer("connections.max.reauth.ms", name) for name in mechanisms},
            frame_size_max_bytes=config.integer("sasl.server.max.receive.size"),
            failure_delay_seconds=self._config.integer("connection.failed.authentication.delay.ms") / 1000,
            # Quotas do not apply before the login.
            serve_versions=dispatch.versions_only(ClientQuotas(self._config, self._clock)),
            refuse=dispatch.refuse,
            principal_of=user_principal,
            clock=self._clock,
            failures=self._failures,
            executor=self._threads,
        )

    def _credential_of(self, name: str, mechanism: Mechanism) -> ScramCredential | None:
        return self._image().scram.get(ScramKey(name, mechanism.number))

    def close(self) -> None:
        """Ends the threads, without waiting for their work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
