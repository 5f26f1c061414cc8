"""Bearer tokens of tests: unsecured ones, signed ones, and the key set of their keys."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def unsecured(header: Any = None, signature: str = "", **claims: Any) -> str:
    head = {"alg": "none"} if header is None else header
    return f"{encoded(json.dumps(head).encode())}.{encoded(json.dumps(claims).encode())}.{signature}"


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    """A key that is made once. Keys with other numbers differ."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key(curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


def public_jwk(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, key_id: str | None, **fields: Any
) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        found = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        found = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    found.pop("key_ops", None)
    return found | ({} if key_id is None else {"kid": key_id}) | fields


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def signed(key: Any, key_id: str | None = "one", algorithm: str = "RS256", **claims: Any) -> str:
    return jwt.encode(claims, key, algorithm, headers=None if key_id is None else {"kid": key_id})
