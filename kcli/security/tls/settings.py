"""Reads the ssl.* keys of stores, which brokers and clients share, into one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

PEM = "PEM"
STORE_TYPES = ("JKS", "PKCS12", PEM)

LookUp = Callable[[str], str | None]
"""Returns the value of an ssl.* key without a prefix, or None if the key has no value."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The ssl.* keys of a key store and a trust store, with the values of the properties. None means that a key is not
    set.
    """

    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    keystore_chain: str | None = None
    key_password: str | None = field(default=None, repr=False)
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = None

    @property
    def has_key_store(self) -> bool:
        return self.keystore_location is not None or self.keystore_key is not None

    @property
    def has_trust_store(self) -> bool:
        return self.truststore_location is not None or self.truststore_certificates is not None

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the store files that are set."""
        return tuple(filter(None, (self.keystore_location, self.truststore_location)))


def store_settings(text: LookUp) -> StoreSettings:
    """Reads the ssl.* keys of the stores."""

    def setting(name: str) -> str | None:
        # An empty text is no value for Kafka, except that a password may be empty.
        return text(name) or None

    return StoreSettings(
        keystore_type=_type(setting("ssl.keystore.type")),
        keystore_location=setting("ssl.keystore.location"),
        keystore_password=text("ssl.keystore.password"),
        keystore_key=setting("ssl.keystore.key"),
        keystore_chain=setting("ssl.keystore.certificate.chain"),
        key_password=text("ssl.key.password"),
        truststore_type=_type(setting("ssl.truststore.type")),
        truststore_location=setting("ssl.truststore.location"),
        truststore_password=text("ssl.truststore.password"),
        truststore_certificates=setting("ssl.truststore.certificates"),
    )


def _type(text: str | None) -> str:
    return (text or "JKS").upper()
