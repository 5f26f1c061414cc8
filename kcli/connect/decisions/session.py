"""Signatures of requests between workers, and the session key that makes them (KIP-507).

The leader writes the key to the config topic, and replaces it when it is old. Only workers that can read the config
topic know the key.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.errors import BadRequest, RestError
from kcli.connect.model import InternalSignature

DIGESTS: Mapping[str, str] = {
    "HmacMD5": "md5",
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
}
"""The algorithms of signatures and keys, under Java's names, with Python's names of their hash functions."""

_KEY_BYTES: Mapping[str, int] = {
    "HmacMD5": 64,
    "HmacSHA1": 64,
    "HmacSHA224": 28,
    "HmacSHA256": 32,
    "HmacSHA384": 48,
    "HmacSHA512": 64,
}
"""The sizes of the keys that Java's generators make if the configuration has no size."""

_LOWER_CASE = {name.lower(): name for name in DIGESTS}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The keys `inter.worker.*` of a worker. `key_size_bits` is None for the default size of the algorithm.

    With a `key_ttl_ms` of 0, a key is never too old.
    """

    key_algorithm: str = "HmacSHA256"
    key_size_bits: int | None = None
    key_ttl_ms: int = 3_600_000
    signature_algorithm: str = "HmacSHA256"
    verification_algorithms: Sequence[str] = ("HmacSHA256",)

    @property
    def key_size_bytes(self) -> int:
        if self.key_size_bits is None:
            return _KEY_BYTES[known_algorithm(self.key_algorithm) or self.key_algorithm]
        return (self.key_size_bits + 7) // 8


def known_algorithm(name: str) -> str | None:
    """The usual spelling of an algorithm's name, in which Java ignores case. Returns None for an unknown one."""
    return _LOWER_CASE.get(name.lower())


def must_replace_key(key: SessionKey | None, settings: SessionSettings, now_ms: int) -> bool:
    """Whether the leader must write a new key: the key is missing or too old, or has other settings."""
    if key is None:
        return True
    expires_ms = key_expires_ms(key, settings)
    return (
        (expires_ms is not None and now_ms >= expires_ms)
        or key.algorithm != settings.key_algorithm
        or len(key.key) != settings.key_size_bytes
    )


def key_expires_ms(key: SessionKey, settings: SessionSettings) -> int | None:
    """The time at which the leader must replace the key, or None if keys are not replaced because of their age."""
    return key.created_ms + settings.key_ttl_ms if settings.key_ttl_ms else None


def sign(key: SessionKey, algorithm: str, body: bytes) -> bytes:
    """The signature of the body of a request. Raises KeyError for an unknown algorithm."""
    return hmac.digest(key.key, body, DIGESTS[known_algorithm(algorithm) or algorithm])


def check_signature(
    signature: InternalSignature | None, key: SessionKey | None, settings: SessionSettings
) -> None:
    """Raises RestError, with Java's status and message, if a request is not signed by a worker of this group."""
    if signature is None:
        raise BadRequest("Internal request missing required signature")
    if known_algorithm(signature.algorithm) is None:
        raise BadRequest(f"Algorithm {signature.algorithm} not available")
    if signature.algorithm not in settings.verification_algorithms:
        raise BadRequest(
            f"This worker does not support the '{signature.algorithm}' key signing algorithm used by other workers. "
            f"This worker is currently configured to use: [{', '.join(settings.verification_algorithms)}]. "
            "Check that all workers' configuration files permit the same set of signature algorithms, "
            "and correct any misconfigured worker and restart it."
        )
    if key is None:
        raise RestError(
            "This worker is still starting up and has not been able to read a session key from the config topic yet",
            503,
        )
    if not hmac.compare_digest(sign(key, signature.algorithm, signature.body), signature.signature):
        raise RestError("Internal request contained invalid signature.", 403)
