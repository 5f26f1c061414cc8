"""The TLS of a running listener, whose certificates can change without a restart.

If AlterConfigs changes the keys of a store, or if a file of a store changes, the listener makes a new TLS context. New
connections use the new context, and open connections are not affected. If the new stores are invalid, the listener
keeps its context and logs an error. Kafka reads files again only after AlterConfigs; here a changed file is enough.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import suppress

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.config.security_keys import STORE_KEYS
from kcli.security.tls.checks import (
    check_names,
    check_presence,
    failed_change,
    fixed_key,
)
from kcli.security.tls.contexts import (
    ClientTls,
    ServerStores,
    ignores_client_auth,
    server_context,
    server_stores,
)
from kcli.security.tls.files import file_stamps, is_readable_by_all
from kcli.security.tls.self_check import check_handshake
from kcli.security.tls.settings import store_settings
from kcli.security.tls.stores import load_key_store
from kcli.server.network.tls_transport import ServerTls

_log = logging.getLogger("kcli.server.ListenerSecurity")

_FIXED_KEYS = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.provider",
    "ssl.secure.random.implementation",
)
_JAVA_ONLY = ("ssl.engine.factory.class", "ssl.provider")
_WITHOUT_EFFECT = (
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
)


class ListenerTls:
    """The TLS of one listener. `served` has the context for new connections."""

    def __init__(self, config: ListenerConfig) -> None:
        """Loads the stores. Raises ConfigError if the configuration has a mistake."""
        for line in _warnings(config):
            _log.warning("%s", line)
        self._config = self._latest = config
        # The stamps are older than the content, so a change in between is found by the next look.
        self._stamps = file_stamps(store_settings(config.text).files)
        self._stores = server_stores(config)
        context = server_context(config, self._stores)
        if self._is_inter_broker:
            self._check_connects(self._stores, context, self._stores, context)
        self.served = ServerTls(context)

    @property
    def _is_inter_broker(self) -> bool:
        return self._config.listener == self._config.config.inter_broker_listener_name

    def check(self, after: BrokerConfig) -> None:
        """Raises ConfigError with Kafka's text if the listener cannot use the configuration."""
        config = ListenerConfig(after, self._config.listener)
        if any(config.value(name) != self._config.value(name) for name in _FIXED_KEYS):
            raise fixed_key(config.listener)
        if _differs(config, self._config):
            try:
                self._made(config)
            except ConfigError as error:
                raise failed_change(error) from error

    def change(self, after: BrokerConfig) -> None:
        """Applies the configuration. If its stores are invalid, logs an error and keeps the present TLS context."""
        config = ListenerConfig(after, self._config.listener)
        if _differs(config, self._latest):
            self._replace(config)

    def prepare(self) -> None:
        """Loads the key store if one of its files has changed, and keeps the result for `look` (see stores.py). Runs in
        a thread.
        """
        settings = store_settings(self._latest.text)
        if file_stamps(settings.files) != self._stamps:
            with suppress(ConfigError):  # `look` reports the error
                load_key_store(settings)

    def prepare_change(self, after: BrokerConfig) -> None:
        """Loads the key store of the configuration if its keys have changed. Runs in a thread, before `check`."""
        config = ListenerConfig(after, self._config.listener)
        with suppress(ConfigError):  # `check` reports the error
            if _differs(config, self._latest):
                load_key_store(store_settings(config.text))

    def look(self) -> None:
        """Loads the stores again if one of their files has changed. If the last change of the configuration has failed,
        this method checks the files of the new configuration.
        """
        if file_stamps(store_settings(self._latest.text).files) != self._stamps:
            self._replace(self._latest)

    def certificates(self) -> Iterator[tuple[str, float]]:
        """Yields the subject and the expiry time (in seconds since 1970) of each certificate."""
        for names, entry in zip(self._stores.keys.names, self._stores.keys.entries, strict=True):
            yield names.distinguished_name, entry.chain[0].not_valid_after_utc.timestamp()

    def _replace(self, config: ListenerConfig) -> None:
        # The stamps are older than the content, so a change in between is found by the next look. After an error, the
        # same files are not tried again.
        self._latest, self._stamps = config, file_stamps(store_settings(config.text).files)
        try:
            stores, context = self._made(config)
        except ConfigError as error:
            _log.error(
                "The listener %s keeps its certificates, because the new ones cannot be used: %s",
                config.listener,
                error.message,
            )
            return
        self._config, self._stores = config, stores
        self.served.context = context
        _log.info(
            "The listener %s uses new certificates for new connections: %s",
            config.listener,
            ", ".join(
                f"{names.distinguished_name} until {entry.chain[0].not_valid_after_utc:%Y-%m-%d}"
                for names, entry in zip(stores.keys.names, stores.keys.entries, strict=True)
            ),
        )

    def _made(self, config: ListenerConfig) -> tuple[ServerStores, ssl.SSLContext]:
        """Loads the stores, and checks that the running listener may use them. Raises ConfigError."""
        settings, old = store_settings(config.text), self._stores
        check_presence(had=True, has=settings.has_key_store, store="keystore")
        check_presence(had=old.trusted is not None, has=settings.has_trust_store, store="truststore")
        new = server_stores(config)
        check_names(
            old.keys.names,
            new.keys.names,
            allow_dn=config.value("ssl.allow.dn.changes") is True,
            allow_san=config.value("ssl.allow.san.changes") is True,
        )
        context = server_context(config, new)
        if self._is_inter_broker:
            self._check_connects(old, self.served.context, new, context)
        return new, context

    def _check_connects(
        self, old: ServerStores, old_context: ssl.SSLContext, new: ServerStores, context: ssl.SSLContext
    ) -> None:
        """Raises HandshakeError if nodes with the old and the new stores cannot connect to each other."""
        check_handshake(_client_context(new), old_context)
        check_handshake(_client_context(old), context)


def _differs(one: ListenerConfig, other: ListenerConfig) -> bool:
    return any(one.value(name) != other.value(name) for name in (*STORE_KEYS, "ssl.client.auth"))


def _client_context(stores: ServerStores) -> ssl.SSLContext:
    """The context of another node that connects with the same stores."""
    return ClientTls(stores.settings, checks_name=False).context_of(stores.keys, stores.trusted)


def _warnings(config: ListenerConfig) -> list[str]:
    """Warnings about keys of a listener that have no effect. Raises ConfigError for an ineffective key on which the
    security may depend.
    """
    for name in _JAVA_ONLY:
        if config.value(name) is not None:
            raise ConfigError(
                f"{name} names a class or provider of Java, which cannot run here. Remove {name} to start without",
                key=config.key_of(name),
            )
    sentences = []
    if ignores_client_auth(config):
        sentences.append(
            f"ssl.client.auth has no effect on the SASL_SSL listener {config.listener}: set "
            f"listener.name.{config.listener.lower()}.ssl.client.auth"
        )
    sentences += [
        f"{config.key_of(name)} does nothing: it chooses a part of Java"
        for name in _WITHOUT_EFFECT
        if config.key_of(name) is not None
    ]
    location = config.text("ssl.keystore.location")
    if location and is_readable_by_all(location):
        sentences.append(
            f"{location} has the private key of the listener {config.listener}, and every user of this machine may "
            f"read it: chmod 600 {location}"
        )
    protocol, enabled = config.text("ssl.protocol"), config.listed("ssl.enabled.protocols")
    if config.key_of("ssl.protocol") is not None and protocol not in ("TLS", max(enabled, default="")):
        sentences.append(
            f"{config.key_of('ssl.protocol')}={protocol} does not limit the versions of TLS: ssl.enabled.protocols "
            f"does, which is {','.join(enabled)}"
        )
    return sentences
