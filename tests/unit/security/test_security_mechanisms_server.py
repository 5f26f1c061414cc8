"""The server's side of PLAIN and SCRAM: the exchange of RFC 7677, and every message that must be refused."""

from __future__ import annotations

import base64
import hmac
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import SaslAuthenticationException
from kcli.metadata.image import ScramCredential
from kcli.security.mechanisms.plain import Passwords, PlainServer
from kcli.security.mechanisms.scram import (
    MECHANISMS,
    MESSAGE_BYTES_MAX,
    Mechanism,
    ScramClient,
    ScramServer,
    ScramUsers,
    salted_password,
    server_keys,
)
from kcli.security.mechanisms.server import Challenge, InThread, LoginRefused, Success
from kcli.security.principal import Principal

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
WITHOUT_PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FINAL = WITHOUT_PROOF + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(password: str, mechanism: Mechanism = SHA_256, iterations: int = 4096) -> ScramCredential:
    keys = server_keys(mechanism, salted_password(mechanism, password.encode(), SALT, iterations))
    return ScramCredential(SALT, keys.stored_key, keys.server_key, iterations)


KNOWN = {
    "user": credential("pencil"),
    "a,b=c": credential("pencil"),
    "weak": credential("pencil", iterations=4095),
}
USERS = ScramUsers(lambda name, _mechanism: KNOWN.get(name), secret=b"secret")


def server(users: ScramUsers = USERS) -> ScramServer:
    return ScramServer(SHA_256, users, SERVER_NONCE)


def challenged(first: bytes = CLIENT_FIRST) -> ScramServer:
    begun = server()
    assert isinstance(begun.step(first), Challenge)
    return begun


def test_scram_answers_as_the_rfc_shows() -> None:
    exchange = server()
    assert exchange.step(CLIENT_FIRST) == Challenge(SERVER_FIRST)
    assert exchange.step(CLIENT_FINAL) == Success("user", SERVER_FINAL)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=x",
        b"n,,n=us=2cer,r=x",
        "n,,n=üser,r=x".encode(),
        b"n,,n=user,r=x y",
        b"n,,n=user,r=x,1=2",
        b"n,,n=user,r=x,",
        b"n,,n=user,r=x\n",
        b"\xff",
    ],
)
def test_scram_refuses_an_invalid_first_message(first: bytes) -> None:
    with pytest.raises(LoginRefused):
        server().step(first)


def test_a_user_with_too_few_iterations_is_refused_as_an_unknown_user_is() -> None:
    exchange, client = server(), ScramClient(SHA_256, "weak", "pencil", "nonce")
    challenge = exchange.step(client.respond(b"")).token
    assert b"i=4096" in challenge, "another answer would show that the user exists"
    with pytest.raises(LoginRefused, match="4095 is less than the minimum"):
        exchange.step(client.respond(challenge))


@pytest.mark.parametrize(
    "final",
    [
        b"",
        WITHOUT_PROOF,
        WITHOUT_PROOF + b",p=",
        WITHOUT_PROOF + b",p=AAAA",
        CLIENT_FINAL.replace(b"p=dHzb", b"p=eHzb"),
        CLIENT_FINAL.replace(b"$k0", b"$k1"),
        CLIENT_FINAL.replace(b"r=rOpr", b"r=rOpp"),
        CLIENT_FINAL.replace(SERVER_NONCE.encode(), b""),
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"c=biws", b"c=biw"),
        CLIENT_FINAL + b",x=y",
        b"\xff" + CLIENT_FINAL,
    ],
)
def test_scram_refuses_an_invalid_final_message(final: bytes) -> None:
    if final == CLIENT_FINAL:
        pytest.fail("the case changes nothing")
    with pytest.raises(LoginRefused):
        challenged().step(final)


def test_scram_refuses_a_long_message_before_it_keeps_a_part_of_it() -> None:
    long = CLIENT_FIRST + b",x=" + b"y" * MESSAGE_BYTES_MAX
    with pytest.raises(LoginRefused, match=f"more than {MESSAGE_BYTES_MAX} bytes"):
        server().step(long)
    assert isinstance(server().step(long[:MESSAGE_BYTES_MAX]), Challenge)


def test_a_binding_must_be_that_of_the_first_message() -> None:
    """The proof is right, but `c=` is the header of another first message."""
    final = signed(b"c=biws", challenged_with=b"n,a=user,n=user,r=rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(LoginRefused, match="channel binding"):
        challenged(b"n,a=user,n=user,r=rOprNGfwEbeRWgbNEkqO").step(final)
    right = b"c=" + base64.b64encode(b"n,a=user,")
    final = signed(right, challenged_with=b"n,a=user,n=user,r=rOprNGfwEbeRWgbNEkqO")
    found = challenged(b"n,a=user,n=user,r=rOprNGfwEbeRWgbNEkqO").step(final)
    assert isinstance(found, Success)


def test_the_nonce_must_be_that_of_the_challenge() -> None:
    """CVE-2024-56128: the proof is right, but it is for the nonce of another login."""
    for ours, theirs in ((b"r=rOpr", b"r=xOpr"), (b"NlF$k0", b"NlF$k1")):
        final = signed(b"c=biws", CLIENT_FIRST, without_proof=WITHOUT_PROOF.replace(ours, theirs))
        with pytest.raises(LoginRefused, match="Invalid client nonce"):
            challenged().step(final)
    assert isinstance(challenged().step(signed(b"c=biws", CLIENT_FIRST)), Success)


def signed(binding: bytes, challenged_with: bytes, *, without_proof: bytes = WITHOUT_PROOF) -> bytes:
    bare = challenged_with[challenged_with.index(b"n=") :]
    without_proof = without_proof.replace(b"c=biws", binding)
    said = b",".join((bare, SERVER_FIRST, without_proof))
    salted = salted_password(SHA_256, b"pencil", SALT, 4096)
    signature = hmac.digest(KNOWN["user"].stored_key, said, "sha256")
    key = hmac.digest(salted, b"Client Key", "sha256")
    proof = bytes(mine ^ other for mine, other in zip(key, signature, strict=True))
    return without_proof + b",p=" + base64.b64encode(proof)


@pytest.mark.parametrize("extra", [b"m=ext,", b""])
def test_the_proof_covers_the_first_message_as_it_was_sent(extra: bytes) -> None:
    first = b"n,," + extra + b"n=user,r=rOprNGfwEbeRWgbNEkqO,b=2,a=1"
    bare = first[3:]
    said = b",".join((bare, SERVER_FIRST, WITHOUT_PROOF))
    signature = hmac.digest(KNOWN["user"].stored_key, said, "sha256")
    key = hmac.digest(salted_password(SHA_256, b"pencil", SALT, 4096), b"Client Key", "sha256")
    proof = bytes(mine ^ other for mine, other in zip(key, signature, strict=True))
    assert isinstance(challenged(first).step(WITHOUT_PROOF + b",p=" + base64.b64encode(proof)), Success)


@pytest.mark.parametrize("user", ["user", "nobody"])
def test_another_authorization_id_is_refused_for_known_and_unknown_users(user: str) -> None:
    with pytest.raises(SaslAuthenticationException, match="different from username"):
        server().step(b"n,a=admin,n=" + user.encode() + b",r=x")


def test_a_name_is_unescaped() -> None:
    exchange, client = server(), ScramClient(SHA_256, "a,b=c", "pencil", "nonce")
    challenge = exchange.step(client.respond(b""))
    success = exchange.step(client.respond(challenge.token))
    assert success.authorization_id == "a,b=c"
    assert client.respond(success.token) is None


def test_an_unknown_user_is_challenged_with_a_salt_of_its_name() -> None:
    def challenge(name: bytes, users: ScramUsers = USERS) -> bytes:
        return server(users).step(b"n,,n=" + name + b",r=x").token

    assert challenge(b"nobody") == challenge(b"nobody")
    assert challenge(b"nobody") != challenge(b"nobody2")
    assert challenge(b"nobody") != challenge(b"nobody", ScramUsers(USERS.credential_of, secret=b"other"))
    client = ScramClient(SHA_256, "nobody", "pencil", "nonce")
    exchange = server()
    first = exchange.step(client.respond(b""))
    with pytest.raises(LoginRefused, match="Invalid client credentials"):
        exchange.step(client.respond(first.token))


def test_a_login_ends_after_its_second_message() -> None:
    for final in (CLIENT_FINAL, b"garbage"):
        exchange = challenged()
        try:
            exchange.step(final)
        except LoginRefused:
            assert final != CLIENT_FINAL
        with pytest.raises(LoginRefused):
            exchange.step(CLIENT_FINAL)


def test_a_token_logs_in_as_its_owner() -> None:
    owner = Principal("User", "alice", token_authenticated=True)
    token = SimpleNamespace(owner=owner, expires_at_ms=1234, scram=credential("hmac"))
    users = ScramUsers(lambda _n, _m: None, lambda name, _m: token if name == "id" else None, b"secret")
    for name, is_known in (("id", True), ("other", False)):
        client = ScramClient(SHA_256, name, "hmac", "nonce", is_token=True)
        exchange = server(users)
        look_up = exchange.step(client.respond(b""))
        assert isinstance(look_up, InThread)
        final = client.respond(look_up.work().token)
        if not is_known:
            with pytest.raises(LoginRefused):
                exchange.step(final)
            continue
        success = exchange.step(final)
        assert (success.authorization_id, success.expires_at_ms, success.by_token) == ("alice", 1234, True)
    # Without tokenauth, the name is that of a user.
    assert isinstance(server(users).step(b"n,,n=id,r=x"), Challenge)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_scram_refuses_any_bytes_or_continues(first: bytes, second: bytes) -> None:
    exchange = server()
    for message in (first, second):
        try:
            assert isinstance(exchange.step(message), Challenge)
        except (LoginRefused, SaslAuthenticationException):
            return


@given(st.from_regex(r"n,,n=[a-z]{1,8},r=[!-+]{1,8}(,[a-z]=[a-z]{1,4}){0,3}", fullmatch=True), st.binary())
def test_scram_accepts_each_message_of_its_grammar(first: str, second: bytes) -> None:
    exchange = server()
    answer = exchange.step(first.encode())
    assert isinstance(answer, Challenge | InThread)
    with pytest.raises(LoginRefused):
        exchange.step(second)


PASSWORDS = Passwords({"user_alice": "secret", "user_": "nameless", "username": "me", "password": "mine"})


def test_plain_takes_only_the_options_of_users() -> None:
    assert PASSWORDS("alice", "secret")
    assert not PASSWORDS("alice", "secre")
    assert not PASSWORDS("me", "mine")
    assert not PASSWORDS("nobody", "secret")


def test_plain_passes_a_failed_check_on_without_its_reason() -> None:
    def check(_user: str, _password: str) -> bool:
        raise OSError("ldap://admin:secret@host does not answer")

    with pytest.raises(SaslAuthenticationException) as raised:
        PlainServer(check).step(b"\0alice\0secret")
    assert raised.value.message == "Authentication failed: credentials for user could not be verified"


def test_a_check_of_another_server_runs_in_a_thread() -> None:
    step = PlainServer(PASSWORDS, in_thread=True).step(b"\0alice\0secret")
    assert isinstance(step, InThread)
    assert step.work() == Success("alice")


@given(st.binary(max_size=100))
def test_plain_refuses_any_bytes(token: bytes) -> None:
    with pytest.raises((SaslAuthenticationException, LoginRefused)):
        PlainServer(PASSWORDS).step(token)


def test_secrets_are_not_shown() -> None:
    shown = repr((Challenge(b"s3cret"), Success("alice", b"s3cret"), USERS, InThread(lambda: Success("x"))))
    assert "s3cret" not in shown


def test_an_unknown_user_costs_as_much_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    digest = hmac.digest

    def counted(key: bytes, said: bytes, name: str) -> bytes:
        calls.append(name)
        return digest(key, said, name)

    work = []
    for user in ("user", "nobody"):
        client, exchange = ScramClient(SHA_256, user, "wrong", "nonce"), server()
        first = client.respond(b"")
        with monkeypatch.context() as patched:
            patched.setattr(hmac, "digest", counted)
            challenge = exchange.step(first)
        final = client.respond(challenge.token)
        with (
            monkeypatch.context() as patched,
            pytest.raises(LoginRefused, match="Invalid client credentials"),
        ):
            patched.setattr(hmac, "digest", counted)
            exchange.step(final)
        work.append(calls.copy())
        calls.clear()
    assert work[0] == work[1] != []
