"""The errors of ssl.* keys, with Kafka's texts, and the rules for keys that do not fit together."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.config.definition import ConfigError
from kcli.security.tls.settings import PEM, STORE_TYPES, StoreSettings


class StoreError(ConfigError):
    """A key store or trust store cannot be loaded. `summary` and `cause` are the texts of Kafka's exception and of its
    cause. They contain no secret."""

    def __init__(self, summary: str, cause: str, *, key: str) -> None:
        super().__init__(f"{summary}: {cause}", key=key)
        self.summary = summary
        self.cause = cause


def check_key_store(stores: StoreSettings) -> None:
    """Raises ConfigError if the keys of the key store do not fit together."""
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
    """Raises ConfigError if the keys of the trust store do not fit together."""
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


def check_names(old: StoreNames, new: StoreNames, *, allow_dn: bool, allow_san: bool) -> None:
    """Raises ConfigError if a changed key store has other names than the key store before (ssl.allow.dn.changes,
    ssl.allow.san.changes)."""
    if len(old) != len(new) and not (allow_dn and allow_san):
        raise _refused(
            f"Keystore entries do not match, existing store has {len(old)} entries, "
            f"new store has {len(new)} entries",
            "ssl.keystore.location",
        )
    for (old_name, old_hosts), (new_name, new_hosts) in zip(old, new, strict=False):
        if old_name != new_name and not allow_dn:
            raise _refused(
                f"Keystore DistinguishedName does not match: existing={{name={old_name}}}, "
                f"new={{name={new_name}}}",
                "ssl.keystore.location",
            )
        if not set(new_hosts) >= set(old_hosts) and not allow_san:
            raise _refused(
                f"Keystore SubjectAltNames do not match: existing={{{_listed(old_hosts)}}}, "
                f"new={{{_listed(new_hosts)}}}",
                "ssl.keystore.location",
            )


StoreNames = Sequence[tuple[str, tuple[str, ...]]]
"""The distinguished name and the subject alternative names of each entry of a key store."""


def check_presence(*, had: bool, has: bool, store: str) -> None:
    """Raises ConfigError if a change adds the first store of a running listener, or removes its store. `store` is
    keystore or truststore."""
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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names))


def _check_type(kind: str, key: str) -> None:
    if kind not in STORE_TYPES:
        raise _refused(
            f"Invalid value {kind} for configuration {key}: {', '.join(STORE_TYPES)} are known", key
        )


def _refused(message: str, key: str) -> ConfigError:
    return ConfigError(message, key=key)
