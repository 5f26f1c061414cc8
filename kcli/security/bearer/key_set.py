"""The public keys of the server that issues tokens. The server publishes them as a JSON Web Key Set (RFC 7517).

Only keys for signatures are used. The type of a key decides its algorithms. So a token with the algorithm "none" is
refused, and so is a token that uses a public key as the secret of HS256.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.security.bearer.claims import json_object
from kcli.security.mechanisms.oauthbearer import TokenRefused

KEY_SET_BYTES_MAX = 1_048_576
"""The largest key set that is read. Usual key sets have a few kilobytes."""
KEYS_MAX = 1000
"""The most keys of a set. Servers publish two or three."""

RSA_BITS_MIN, RSA_BITS_MAX = 2048, 16384
"""The accepted sizes of RSA keys. RFC 7518 requires at least 2048 bits. The upper limit exists because the check of a
signature takes longer with a larger key."""
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS = (*_RSA, *_BY_CURVE.values())


class KeySetError(ValueError):
    """Raised for a key set that cannot be used."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key. `key` is the key object of the library `cryptography`."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """The public keys of a token server."""

    keys: tuple[VerificationKey, ...] = ()

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """The key with this id for this algorithm, or None. Without an id, returns the key for this algorithm if the
        set has exactly one.
        """
        usable = [key for key in self.keys if algorithm in key.algorithms]
        if key_id is None:
            return usable[0] if len(usable) == 1 else None
        return next((candidate for candidate in usable if candidate.key_id == key_id), None)


def parse_key_set(content: bytes) -> KeySet:
    """Parses a key set, and leaves out keys that are not for signatures. Raises KeySetError if no key is left, or if
    the set is invalid.
    """
    if len(content) > KEY_SET_BYTES_MAX:
        raise KeySetError(f"the key set has more than {KEY_SET_BYTES_MAX} bytes")
    try:
        listed = json_object(content, "key set").get("keys")
    except TokenRefused as error:
        raise KeySetError(str(error)) from None
    if not isinstance(listed, list):
        raise KeySetError('the key set has no list "keys"')
    if len(listed) > KEYS_MAX:
        raise KeySetError(f"the key set has more than {KEYS_MAX} keys")
    keys = tuple(key for entry in listed if isinstance(entry, dict) and (key := _key(entry)) is not None)
    if not keys:
        raise KeySetError("the key set has no RSA or EC key for signatures")
    return KeySet(keys)


def _key(listed: Mapping[str, object]) -> VerificationKey | None:
    algorithms = _algorithms(listed)
    key_id = listed.get("kid")
    if not algorithms or not (key_id is None or isinstance(key_id, str)):
        return None
    import jwt  # imported late, because few nodes need these slow libraries
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        # A private key must not be in a key set. Only the public numbers are read.
        public = {name: value for name, value in listed.items() if name in ("kty", "n", "e", "crv", "x", "y")}
        key: object = jwt.PyJWK(public, algorithm=algorithms[0]).key
    except (jwt.PyJWTError, UnsupportedAlgorithm, ValueError, TypeError):
        return None
    bits = getattr(key, "key_size", 0)
    if listed["kty"] == "RSA" and not RSA_BITS_MIN <= bits <= RSA_BITS_MAX:
        return None
    return VerificationKey(key_id, algorithms, key)


def _algorithms(listed: Mapping[str, object]) -> tuple[str, ...]:
    operations = listed.get("key_ops", ["verify"])
    if listed.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return ()
    allowed: tuple[str, ...] = ()
    if listed.get("kty") == "RSA":
        allowed = _RSA
    elif listed.get("kty") == "EC" and listed.get("crv") in _BY_CURVE:
        allowed = (_BY_CURVE[str(listed["crv"])],)
    algorithm = listed.get("alg")
    return (
        allowed if algorithm is None else tuple(candidate for candidate in allowed if candidate == algorithm)
    )
