"""SCRAM's arithmetic against the example exchanges of RFC 5802's successors."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from kcli.errors import SaslAuthenticationException
from kcli.security.mechanisms.scram import (
    BY_NUMBER,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramClient,
    ServerKeys,
    new_salt,
    salted_password,
    server_keys,
)

# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
AUTH_MESSAGE = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)
CLIENT_PROOF = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SERVER_SIGNATURE = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_the_keys_prove_what_the_rfc_s_example_proves() -> None:
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    keys = server_keys(mechanism, salted_password(mechanism, b"pencil", SALT, 4096))
    assert hmac.digest(keys.server_key, AUTH_MESSAGE, "sha256") == SERVER_SIGNATURE
    signature = hmac.digest(keys.stored_key, AUTH_MESSAGE, "sha256")
    client_key = bytes(a ^ b for a, b in zip(CLIENT_PROOF, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == keys.stored_key


@pytest.mark.parametrize(("name", "size"), [("SCRAM-SHA-256", 32), ("SCRAM-SHA-512", 64)])
def test_keys_are_as_long_as_the_hash(name: str, size: int) -> None:
    mechanism = MECHANISMS[name]
    salted = salted_password(mechanism, "pässwörd".encode(), b"salt", 4096)
    keys = server_keys(mechanism, salted)
    assert (len(salted), len(keys.stored_key), len(keys.server_key)) == (size, size, size)
    assert BY_NUMBER[mechanism.number] is mechanism
    assert mechanism.java_name == name.replace("-", "_")


def test_salts_differ_and_nothing_shows_a_key() -> None:
    assert len({new_salt() for _ in range(100)}) == 100
    assert new_salt().isalnum() and len(new_salt()) <= 26, "as Kafka's tools make them"
    assert repr(ServerKeys(b"stored", b"server")) == "ServerKeys()"


@pytest.mark.parametrize("iterations", [-1, 0, 1, MIN_ITERATIONS - 1])
def test_a_client_gives_no_proof_for_few_iterations(iterations: int) -> None:
    client = ScramClient(MECHANISMS["SCRAM-SHA-256"], "user", "pencil", "nonce")
    client.respond(b"")
    with pytest.raises(SaslAuthenticationException, match=f"{iterations} iterations .minimum 4096"):
        client.respond(f"r=nonce-and-more,s=c2FsdA==,i={iterations}".encode())


def test_a_client_gives_a_proof_for_the_fewest_iterations() -> None:
    client = ScramClient(MECHANISMS["SCRAM-SHA-256"], "user", "pencil", "nonce")
    client.respond(b"")
    proof = client.respond(f"r=nonce-and-more,s=c2FsdA==,i={MIN_ITERATIONS}".encode())
    assert proof is not None
    assert b",p=" in proof
    with pytest.raises(SaslAuthenticationException):
        client.respond(b"v=c2lnbmF0dXJl")
