"""The client's side of SASL logins: PLAIN, and SCRAM against the example exchange of RFC 7677."""

from __future__ import annotations

import pytest

from kcli.errors import SaslAuthenticationException
from kcli.security.mechanisms.client import PASSWORD_MECHANISMS, Credentials, client_exchange
from kcli.security.mechanisms.plain import PlainClient
from kcli.security.mechanisms.scram import CHALLENGE_ITERATIONS_MAX, MECHANISMS, ScramClient

# RFC 7677, section 3: user "user", password "pencil".
NONCE = "rOprNGfwEbeRWgbNEkqO"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(username: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient(MECHANISMS["SCRAM-SHA-256"], username, password, NONCE)


def test_plain_sends_one_message() -> None:
    exchange = PlainClient("älice", "p=,w")
    assert exchange.respond(b"") == "\0älice\0p=,w".encode()
    assert exchange.respond(b"") is None


def test_scram_says_what_the_rfc_says() -> None:
    exchange = scram()
    assert exchange.respond(b"") == CLIENT_FIRST
    assert exchange.respond(SERVER_FIRST) == CLIENT_FINAL
    assert exchange.respond(SERVER_FINAL) is None


def test_scram_escapes_what_separates_in_a_user_name() -> None:
    assert scram("a,b=c").respond(b"") == b"n,,n=a=2Cb=3Dc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"", "is not one of SCRAM"),
        (b"\xff\xfe", "is not one of SCRAM"),
        (b"r=x,i=4096", "is not one of SCRAM"),
        (SERVER_FIRST.replace(b"4096", b"many"), "is not one of SCRAM"),
        (SERVER_FIRST.replace(b"gQ==", b"g"), "is not one of SCRAM"),
        (SERVER_FIRST.replace(b"rOpr", b"rXpr"), "does not answer ours"),
        (SERVER_FIRST.replace(b"4096", b"0"), "has 0 iterations"),
        (SERVER_FIRST.replace(b"4096", str(CHALLENGE_ITERATIONS_MAX + 1).encode()), "does not answer ours"),
    ],
)
def test_scram_refuses_a_wrong_challenge(challenge: bytes, why: str) -> None:
    exchange = scram()
    exchange.respond(b"")
    with pytest.raises(SaslAuthenticationException, match=f"SCRAM-SHA-256 as user: the server's .*{why}"):
        exchange.respond(challenge)


@pytest.mark.parametrize("answer", [b"", b"\xff", b"e=invalid-proof", SERVER_FINAL.replace(b"6rri", b"7rri")])
def test_scram_refuses_a_server_that_does_not_know_the_password(answer: bytes) -> None:
    exchange = scram()
    exchange.respond(b"")
    exchange.respond(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationException, match="cannot prove that it knows the password"):
        exchange.respond(answer)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_a_login_begins_by_the_name_of_its_mechanism(mechanism: str) -> None:
    first = client_exchange(Credentials(mechanism, "user", "secret")).respond(b"")
    assert first is not None
    assert b"user" in first


def test_each_scram_login_has_a_new_nonce() -> None:
    credentials = Credentials("SCRAM-SHA-512", "user", "secret")
    assert len({client_exchange(credentials).respond(b"") for _ in range(50)}) == 50


def test_credentials_do_not_show_the_password() -> None:
    assert "secret" not in repr(Credentials("PLAIN", "user", "secret"))
