"""The SASL logins of a node: the users, threads, limits and keys that the listeners share."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from heapq import nsmallest

from kcli.config.broker import BrokerConfig
from kcli.config.listener_config import ListenerConfig
from kcli.metadata.image import MetadataImage, ScramCredential, ScramKey
from kcli.runtime.clock import Clock
from kcli.security.bearer.key_set import KeySetError
from kcli.security.bearer.settings import KeySetSettings
from kcli.security.bearer.signed import Keys
from kcli.security.callbacks import LoggedIn, principal_builder
from kcli.security.mechanisms.scram import Mechanism, ScramUsers
from kcli.security.mechanisms.scram_decoys import Decoys, forms_of
from kcli.security.mechanisms.server import Success
from kcli.security.principal import Principal
from kcli.security.server_mechanisms import NodeParts, server_mechanisms
from kcli.security.tokens import TokenCredentials, decoy_secret
from kcli.server.logins.failed_logins import NODES_FACTOR, FailedLogins
from kcli.server.logins.key_source import KeySource, fetch_key_set
from kcli.server.logins.login import LoginSettings, PrincipalOf, user_principal
from kcli.server.logins.login_threads import LoginThreads
from kcli.server.network.connection import Connection
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.quotas import ClientQuotas

_SECRET_BYTES = 32
USERS_IN_SECRET = 3
"""The users whose keys make the secret of unknown users, if no secret is configured. These are the first users by
name, so the secret seldom changes."""


class SaslLogins:
    """The parts that the SASL listeners of a node share."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], MetadataImage]) -> None:
        """`image` returns the current metadata, which has the users of SCRAM and the delegation tokens."""
        self._config = config
        self._clock = clock
        self._image = image
        self._threads = LoginThreads()
        # The keys have their own thread, because logins of strangers may keep the other threads busy.
        self._key_thread = ThreadPoolExecutor(1, "kcli-login-keys")
        self._refreshing: list[asyncio.Task[None]] = []
        shared = config.text("delegation.token.secret.key") or None
        tokens = TokenCredentials(shared, lambda: image().delegation_tokens)
        secret = None if shared is None else decoy_secret(shared)
        users = ScramUsers(
            self._credential_of,
            tokens.credential_of,
            secret=secret or secrets.token_bytes(_SECRET_BYTES),
            decoys_of=UserDecoys(image, secret),
        )
        self._parts = NodeParts(users, clock.now_ms, self._keys_of)

    def of(self, config: ListenerConfig, dispatch: Dispatch) -> LoginSettings:
        """The logins on a listener whose requests `dispatch` serves. Raises ConfigError if the configuration has a
        mistake."""
        mechanisms = server_mechanisms(config, self._parts)
        return LoginSettings(
            mechanisms=mechanisms,
            max_reauth_ms={name: config.integer("connections.max.reauth.ms", name) for name in mechanisms},
            frame_size_max_bytes=config.integer("sasl.server.max.receive.size"),
            failure_delay_seconds=self._config.integer("connection.failed.authentication.delay.ms") / 1000,
            # Quotas do not apply before the login.
            serve_versions=dispatch.versions_only(ClientQuotas(self._config, self._clock)),
            refuse=dispatch.refuse,
            principal_of=_principal_of(config),
            clock=self._clock,
            failures=FailedLogins(factor=NODES_FACTOR if self._serves_nodes(config.listener) else 1),
            threads=self._threads,
        )

    def _serves_nodes(self, listener: str) -> bool:
        config = self._config
        return listener == config.inter_broker_listener_name or listener in config.controller_listener_names

    def _credential_of(self, name: str, mechanism: Mechanism) -> ScramCredential | None:
        return self._image().scram.get(ScramKey(name, mechanism.number))

    def _keys_of(self, config: ListenerConfig, settings: KeySetSettings) -> Keys:
        """A source of keys for bearer tokens, which is refreshed until `close`. If the keys are in a file, the file
        must be readable at the start. A token server may answer later, because it may start after the node.
        """
        source = KeySource(settings, self._key_thread, fetch_key_set)
        if settings.path is not None:
            try:
                source.load()
            except (OSError, KeySetError) as error:
                name = "sasl.oauthbearer.jwks.endpoint.url"
                raise config.refusal(name, f"{name}: {error}", "OAUTHBEARER") from error
        self._refreshing.append(asyncio.get_running_loop().create_task(source.run(), name="refresh-keys"))
        return source

    def close(self) -> None:
        """Ends the threads, without waiting for their work."""
        for task in self._refreshing:
            task.cancel()
        self._threads.close()
        self._key_thread.shutdown(wait=False, cancel_futures=True)


class UserDecoys:
    """The credentials of unknown users. They are the same on all nodes and after a restart, as those of known users
    are.

    Without delegation.token.secret.key, the secret is derived from the keys of a few users, which all nodes have in
    their metadata, and which no client can read.
    """

    def __init__(self, image: Callable[[], MetadataImage], secret: bytes | None) -> None:
        self._image = image
        self._secret = secret
        self._own = secrets.token_bytes(_SECRET_BYTES)
        self._users: Mapping[ScramKey, ScramCredential] | None = None
        self._decoys: dict[int, Decoys] = {}

    def __call__(self, mechanism: Mechanism) -> Decoys:
        users = self._image().scram
        if users is not self._users:  # the image has a new map after each change of a user
            self._users, self._decoys = users, {}
        decoys = self._decoys.get(mechanism.number)
        if decoys is None:
            known = {
                key.user: credential for key, credential in users.items() if key.mechanism == mechanism.number
            }
            secret = self._secret or self._secret_of(known)
            decoys = self._decoys[mechanism.number] = Decoys(secret, forms_of(known.values()))
        return decoys

    def _secret_of(self, known: Mapping[str, ScramCredential]) -> bytes:
        if not known:
            return self._own
        # Several users, because each user can compute the key of its own credential.
        first = nsmallest(USERS_IN_SECRET, known)
        return hashlib.sha256(b"".join(known[name].server_key for name in first)).digest()


def logged_in(connection: Connection, mechanism: str | None, name: str) -> LoggedIn:
    """The client of a connection, for a principal builder."""
    certificate = None
    if connection.transport is not None:
        tls = connection.transport.get_extra_info("ssl_object")
        certificate = None if tls is None else tls.getpeercert(binary_form=True)
    return LoggedIn(connection.listener, connection.peer_host, mechanism, name, certificate)


def _principal_of(config: ListenerConfig) -> PrincipalOf:
    builder = principal_builder(config)
    if builder is None:
        return user_principal

    def build(connection: Connection, mechanism: str, success: Success) -> Principal:
        built = builder.build(logged_in(connection, mechanism, success.authorization_id))
        return Principal(built.type, built.name, token_authenticated=success.by_token)

    return build
