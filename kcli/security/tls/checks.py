"""Checks the ssl.* keys, and makes their errors with Kafka's texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigError, invalid_change
from kcli.security.tls.settings import PEM, STORE_TYPES, StoreSettings


class StoreError(ConfigError):
    """Raised if a key store or trust store cannot be loaded. `summary` and `cause` are the texts of Kafka's exception
    and of its cause. They contain no secret."""

    def __init__(self, summary: str, cause: str, *, key: str) -> None:
        super().__init__(f"{summary}: {cause}", key=key)
        self.summary = summary
        self.cause = cause


class HandshakeError(ConfigError):
    """Raised if a client with the stores of a listener cannot connect to this listener."""


_CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"


def check_key_store(stores: StoreSettings) -> None:
    """Raises ConfigError if the keys of the key store contradict each other."""
    kind = stores.keystore_type
    has_key, has_chain = stores.keystore_key is not None, stores.keystore_chain is not None
    if has_key and not has_chain:
        raise _refused(
            "SSL private key is specified, but certificate chain is not specified.",
            "ssl.keystore.certificate.chain",
        )
    if has_chain and not has_key:
        raise _refused(
            "SSL certificate chain is specified, but private key is not specified", "ssl.keystore.key"
        )
    if has_key:
        if kind != PEM:
            raise _refused(
                f"SSL key and certificate chain can be specified only for PEM, but key store type is {kind}.",
                "ssl.keystore.type",
            )
        if stores.keystore_location is not None:
            raise _refused(
                "Both SSL key store location and separate private key are specified.", "ssl.keystore.location"
            )
    if kind == PEM and stores.keystore_password is not None:
        raise _refused(
            "SSL key store password cannot be specified with PEM format, only key password may be specified",
            "ssl.keystore.password",
        )
    if kind != PEM and stores.keystore_location is None and stores.keystore_password is not None:
        raise _refused(
            "SSL key store is not specified, but key store password is specified.", "ssl.keystore.location"
        )
    if kind != PEM and stores.keystore_location is not None and stores.keystore_password is None:
        raise _refused(
            "SSL key store is specified, but key store password is not specified.", "ssl.keystore.password"
        )
    _check_type(kind, "ssl.keystore.type")


def check_trust_store(stores: StoreSettings) -> None:
    """Raises ConfigError if the keys of the trust store contradict each other."""
    kind = stores.truststore_type
    if stores.truststore_certificates is not None:
        if kind != PEM:
            raise _refused(
                f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.",
                "ssl.truststore.type",
            )
        if stores.truststore_location is not None:
            raise _refused(
                "Both SSL trust store location and separate trust certificates are specified.",
                "ssl.truststore.location",
            )
    if kind == PEM and stores.truststore_password is not None:
        raise _refused(
            "SSL trust store password cannot be specified for PEM format.", "ssl.truststore.password"
        )
    if (
        stores.truststore_location is None
        and stores.truststore_certificates is None
        and stores.truststore_password is not None
    ):
        raise _refused(
            "SSL trust store is not specified, but trust store password is specified.",
            "ssl.truststore.location",
        )
    _check_type(kind, "ssl.truststore.type")


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The names of an entry of a key store: its alias, its distinguished name, and its subject alternative names."""

    alias: str
    distinguished_name: str
    alternative_names: tuple[str, ...]


def check_names(
    old: Sequence[EntryNames], new: Sequence[EntryNames], *, allow_dn: bool, allow_san: bool
) -> None:
    """Raises ConfigError if a changed key store has another distinguished name, or lacks an alternative name that it
    had before. ssl.allow.dn.changes and ssl.allow.san.changes permit these changes.
    """
    if len(old) != len(new) and not (allow_dn and allow_san):
        raise _refused("Keystore entries do not match", "ssl.keystore.location")
    for before, after in zip(old, new, strict=False):
        if before.distinguished_name != after.distinguished_name and not allow_dn:
            raise _refused(
                "Keystore DistinguishedName does not match:  "
                f"existing={{alias={before.alias}, DN={before.distinguished_name}}}, "
                f"new={{alias={after.alias}, DN={after.distinguished_name}}}",
                "ssl.keystore.location",
            )
        if not set(after.alternative_names) >= set(before.alternative_names) and not allow_san:
            raise _refused(
                "Keystore SubjectAltNames do not match:  "
                f"existing={{alias={before.alias}, SAN=[{', '.join(before.alternative_names)}]}}, "
                f"new={{alias={after.alias}, SAN=[{', '.join(after.alternative_names)}]}}",
                "ssl.keystore.location",
            )


def check_presence(*, had: bool, has: bool, store: str) -> None:
    """Raises ConfigError if a change adds a store to a running listener that had none, or removes the store of the
    listener. `store` is keystore or truststore."""
    if had and not has:
        raise _refused(
            f"Cannot remove the SSL {store} from an existing listener for which a {store} was configured.",
            f"ssl.{store}.location",
        )
    if has and not had:
        raise _refused(
            f"Cannot add SSL {store} to an existing listener for which no {store} was configured.",
            f"ssl.{store}.location",
        )


def failed_change(error: ConfigError) -> ConfigError:
    """Makes the error for a change of stores that a running listener cannot apply, with Kafka's text."""
    if isinstance(error, StoreError):
        cause = f"org.apache.kafka.common.errors.InvalidConfigurationException: {error.summary}"
    elif isinstance(error, HandshakeError):
        cause = f"javax.net.ssl.SSLHandshakeException: {error.message}"
    else:
        cause = f"{_CONFIG_EXCEPTION}: {error.message}"
    return invalid_change(f"Validation of dynamic config update of SSLFactory failed: {cause}")


def fixed_key(listener: str) -> ConfigError:
    """Makes the error for a change of a key that can be changed only with a restart or a new listener."""
    return invalid_change(
        f"Configs cannot be updated dynamically for existing listener ListenerName({listener}), restart broker or "
        "create a new listener for update"
    )


def _check_type(kind: str, key: str) -> None:
    if kind not in STORE_TYPES:
        raise _refused(
            f"Invalid value {kind} for configuration {key}: {', '.join(STORE_TYPES)} are known", key
        )


def _refused(message: str, key: str) -> ConfigError:
    return ConfigError(message, key=key)
