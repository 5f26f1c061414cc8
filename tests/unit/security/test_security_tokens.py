"""Delegation tokens: the HMAC, who may renew and describe, and the SCRAM credential of a token."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from kcli.metadata.image import DelegationToken
from kcli.security import tokens as module
from kcli.security.mechanisms.scram import MECHANISMS, Mechanism, salted_password, server_keys
from kcli.security.principal import Principal
from kcli.security.tokens import (
    TokenCredentials,
    TokenFinder,
    has_expired,
    may_renew,
    parties,
    token_hmac,
    token_password,
)

SECRET = "gölden-secret"
SHA_256, SHA_512 = MECHANISMS["SCRAM-SHA-256"], MECHANISMS["SCRAM-SHA-512"]


def token(token_id: str = "t1", expires: int = 2_000, max_ms: int = 5_000) -> DelegationToken:
    return DelegationToken(
        token_id=token_id,
        owner="User:alice",
        requester="User:admin",
        renewers=("User:bob",),
        issue_timestamp_ms=1_000,
        max_timestamp_ms=max_ms,
        expiration_timestamp_ms=expires,
    )


def test_the_hmac_is_sha_512_of_the_token_id_with_the_secret_key() -> None:
    expected = hmac.new(SECRET.encode("utf-8"), b"t1", hashlib.sha512).digest()
    assert token_hmac(SECRET, "t1") == expected
    assert token_password(SECRET, "t1") == base64.b64encode(expected).decode()


@pytest.mark.parametrize(
    ("name", "renews", "describes"),
    [("alice", True, True), ("bob", True, True), ("admin", False, True), ("carol", False, False)],
)
def test_owner_and_renewers_renew_and_the_requester_only_describes(
    name: str, renews: bool, describes: bool
) -> None:
    assert may_renew(token(), Principal("User", name)) is renews
    assert (f"User:{name}" in parties(token())) is describes


def test_a_token_expires_after_its_expiry_or_its_maximal_life() -> None:
    assert not has_expired(token(), 2_000)
    assert has_expired(token(), 2_001)
    assert has_expired(token(expires=9_000), 5_001)


def test_a_token_is_found_by_its_hmac_until_it_is_removed() -> None:
    finder = TokenFinder(SECRET)
    one, two = {"t1": token()}, {"t1": token(), "t2": token("t2")}
    assert finder.find(one, token_hmac(SECRET, "t2")) is None
    assert finder.find(two, token_hmac(SECRET, "t2")) == token("t2")
    assert finder.find(two, token_hmac("other", "t2")) is None
    assert finder.find({"t2": token("t2")}, token_hmac(SECRET, "t1")) is None
    assert finder.find({"t2": token("t2")}, b"") is None


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512], ids=lambda each: each.name)
def test_the_password_of_a_credential_is_the_base64_text_of_the_hmac(mechanism: Mechanism) -> None:
    found = TokenCredentials(SECRET, lambda: {"t1": token()}).credential_of("t1", mechanism)
    assert found is not None
    salted = salted_password(mechanism, token_password(SECRET, "t1").encode(), found.scram.salt, 4096)
    keys = server_keys(mechanism, salted)
    assert (found.scram.stored_key, found.scram.server_key) == (keys.stored_key, keys.server_key)
    assert (found.owner, found.owner.token_authenticated) == (Principal("User", "alice"), True)
    assert found.expires_at_ms == 2_000
    assert base64.b64encode(keys.stored_key).decode() not in repr(found)


def test_a_credential_is_computed_once_and_follows_the_image() -> None:
    image = {"t1": token()}
    credentials = TokenCredentials(SECRET, lambda: image)
    assert not credentials.is_cached("t1", SHA_256)
    first = credentials.credential_of("t1", SHA_256)
    assert credentials.is_cached("t1", SHA_256) and not credentials.is_cached("t1", SHA_512)
    image["t1"] = token(expires=3_000)
    renewed = credentials.credential_of("t1", SHA_256)
    assert first is not None and renewed is not None
    assert renewed.scram is first.scram and renewed.expires_at_ms == 3_000
    image.clear()
    assert credentials.credential_of("t1", SHA_256) is None
    assert credentials.is_cached("t1", SHA_256), "a token that does not exist costs nothing"


def test_a_node_without_a_secret_key_knows_no_token() -> None:
    credentials = TokenCredentials(None, lambda: {"t1": token()})
    assert credentials.is_cached("t1", SHA_256)
    assert credentials.credential_of("t1", SHA_256) is None


def test_the_number_of_kept_credentials_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED_CREDENTIALS", 2)
    image = {name: token(name) for name in ("a", "b", "c")}
    credentials = TokenCredentials(SECRET, lambda: image)
    for name in image:
        credentials.credential_of(name, SHA_256)
    assert [credentials.is_cached(name, SHA_256) for name in image] == [False, False, True]
