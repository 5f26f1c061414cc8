"""Bearer tokens: unsecured and signed, valid and invalid in each way."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from kcli.security.bearer.key_set import KEYS_MAX, KeySet, KeySetError, parse_key_set
from kcli.security.bearer.signed import SignedCheck, SignedTokenSettings
from kcli.security.bearer.unsecured import UnsecuredCheck
from kcli.security.mechanisms.oauthbearer import BearerToken, TokenRefused
from rigs.bearer import ec_key, encoded, key_set, public_jwk, rsa_key, signed, unsecured

NOW_S = 1_000_000
NOW_MS = NOW_S * 1000
VALID: dict[str, Any] = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}


def raw(header: bytes, claims: dict[str, Any]) -> str:
    return f"{encoded(header)}.{encoded(json.dumps(claims).encode())}"


def check(**options: str) -> UnsecuredCheck:
    return UnsecuredCheck(
        {f"unsecuredValidator{name}": value for name, value in options.items()}, lambda: NOW_MS
    )


def test_an_unsecured_token_is_accepted() -> None:
    assert check()(unsecured(**VALID), {}) == BearerToken("alice", NOW_MS + 60_000)
    assert check()(unsecured(sub="a", exp=NOW_S + 0.5), {}) == BearerToken("a", NOW_MS + 500)
    named = check(PrincipalClaimName="user")
    assert named(unsecured(user="bob", exp=NOW_S + 1), {}).principal == "bob"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c.d",
        unsecured(header={}, **VALID),
        unsecured(header={"alg": "None"}, **VALID),
        unsecured(header={"alg": "HS256"}, **VALID),
        unsecured(header=[], **VALID),
        unsecured(signature="x", **VALID),
        unsecured(**VALID | {"sub": ""}),
        unsecured(**VALID | {"sub": " admin"}),
        unsecured(**VALID | {"sub": 5}),
        unsecured(**VALID | {"sub": None}),
        unsecured(**VALID | {"exp": None}),
        unsecured(**VALID | {"exp": "1000060"}),
        unsecured(**VALID | {"exp": True}),
        unsecured(**VALID | {"exp": 10**400}),
        unsecured(**VALID | {"exp": float("inf")}),
        unsecured(**VALID | {"exp": 1e300}),
        unsecured(**VALID | {"exp": NOW_S}),
        unsecured(**VALID | {"iat": NOW_S + 1}),
        unsecured(**VALID | {"iat": "x"}),
        unsecured(sub="a", iat=NOW_S - 5, exp=NOW_S - 5),
        f"{encoded(b'[' * 100_000)}.{encoded(b'{}')}.",
        raw(b'{"alg":"none","alg":"none"}', VALID) + ".",
        raw(b'{"alg":"none"}', VALID).replace(".", "=.") + ".",
    ],
)
def test_an_invalid_unsecured_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused) as raised:
        check()(token, {})
    assert raised.value.client_text == '{"status":"invalid_token"}'


def test_the_clock_skew_is_tolerated() -> None:
    skewed = check(AllowableClockSkewMs="2000")
    assert skewed(unsecured(sub="a", iat=NOW_S + 2, exp=NOW_S + 3), {})
    assert skewed(unsecured(sub="a", exp=NOW_S - 1), {})
    with pytest.raises(TokenRefused):
        skewed(unsecured(sub="a", exp=NOW_S - 2), {})


@pytest.mark.parametrize("skew", ["-1", "x", "1.5", "²"])
def test_an_invalid_skew_is_a_mistake_of_the_configuration(skew: str) -> None:
    with pytest.raises(ValueError, match="AllowableClockSkewMs"):
        check(AllowableClockSkewMs=skew)


@pytest.mark.parametrize("scope", ["a b c", ["b", "a"]])
def test_required_scopes_may_be_a_list_or_a_text(scope: object) -> None:
    assert check(RequiredScope="a b")(unsecured(**VALID, scope=scope), {})


def test_a_missing_scope_is_named() -> None:
    with pytest.raises(TokenRefused) as raised:
        check(RequiredScope="a b")(unsecured(**VALID, scope="a"), {})
    assert raised.value.client_text == '{"status":"insufficient_scope", "scope":"[a, b]"}'
    with pytest.raises(TokenRefused, match="a required scope is missing"):
        check(RequiredScope="a b")(unsecured(**VALID, scope="a\N{NO-BREAK SPACE}b"), {})


class Keys:
    def __init__(self, content: bytes) -> None:
        self.found: KeySet = parse_key_set(content)

    def find(self, key_id: str | None, algorithm: str) -> Any:
        return self.found.find(key_id, algorithm)


SETTINGS = SignedTokenSettings("https://issuer", ("kafka", "other"))
CLAIMS = VALID | {"iss": "https://issuer", "aud": "kafka"}


def signed_check(settings: SignedTokenSettings = SETTINGS, *keys: dict[str, Any]) -> SignedCheck:
    return SignedCheck(settings, Keys(key_set(*(keys or (public_jwk(rsa_key(), "one"),)))), lambda: NOW_MS)


def test_a_signed_token_is_accepted() -> None:
    assert signed_check()(signed(rsa_key(), **CLAIMS), {}) == BearerToken("alice", NOW_MS + 60_000)
    assert signed_check()(signed(rsa_key(), algorithm="PS512", **CLAIMS), {})
    assert signed_check()(signed(rsa_key(), **CLAIMS | {"aud": ["x", "other"]}), {})
    assert signed_check()(signed(rsa_key(), None, **CLAIMS), {}), "the key set has one key only"


@pytest.mark.parametrize(
    ("curve", "algorithm"), [(ec.SECP256R1, "ES256"), (ec.SECP384R1, "ES384"), (ec.SECP521R1, "ES512")]
)
def test_each_curve_has_its_algorithm(curve: type[ec.EllipticCurve], algorithm: str) -> None:
    key = ec_key(curve)
    check = signed_check(SETTINGS, public_jwk(key, "one"))
    assert check(signed(key, algorithm=algorithm, **CLAIMS), {})


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 31},
        {"exp": None},
        {"iat": None},
        {"iat": NOW_S + 31},
        {"nbf": NOW_S + 31},
        {"iss": "https://other"},
        {"iss": None},
        {"iss": ["https://issuer"]},
        {"aud": "someone"},
        {"aud": ["someone"]},
        {"aud": None},
        {"aud": {"kafka": 1}},
        {"sub": ""},
        {"sub": "  "},
        {"sub": "alice "},
        {"sub": ["alice"]},
        {"scope": ["a", "a"]},
        {"scope": [" "]},
        {"scope": 5},
    ],
)
def test_a_signed_token_with_wrong_claims_is_refused(claims: dict[str, Any]) -> None:
    found = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    import jwt

    token = jwt.api_jws.encode(json.dumps(found).encode(), rsa_key(), "RS256", {"kid": "one"})
    with pytest.raises(TokenRefused):
        signed_check()(token, {})


def test_the_skew_of_signed_tokens_is_tolerated() -> None:
    token = signed(rsa_key(), **CLAIMS | {"exp": NOW_S - 29, "nbf": NOW_S + 29, "iat": NOW_S + 29})
    assert signed_check()(token, {})


def test_checks_that_are_turned_off_are_not_made() -> None:
    settings = SignedTokenSettings(subject_claim="user", scope_claim="scp")
    token = signed(rsa_key(), **CLAIMS | {"iss": "other", "aud": "x", "user": "bob", "scp": ["a"]})
    assert signed_check(settings)(token, {}).principal == "bob"


def public_pem() -> bytes:
    public = rsa_key().public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def hs256(secret: bytes) -> str:
    said = raw(b'{"alg":"HS256","kid":"one"}', CLAIMS)
    return f"{said}.{encoded(hmac.digest(secret, said.encode(), 'sha256'))}"


def forged(header: dict[str, Any]) -> str:
    """A valid signature under another header."""
    import jwt

    return jwt.api_jws.encode(json.dumps(CLAIMS).encode(), rsa_key(), "RS256", {"kid": "one"} | header)


@pytest.mark.parametrize(
    "token",
    [
        unsecured(**CLAIMS),
        unsecured(header={"alg": "none", "kid": "one"}, **CLAIMS),
        hs256(public_pem()),
        hs256(b""),
        signed(rsa_key(number=1), **CLAIMS),
        signed(rsa_key(), "two", **CLAIMS),
        signed(ec_key(), algorithm="ES256", **CLAIMS),
        signed(rsa_key(), **CLAIMS)[:-4],
        signed(rsa_key(), **CLAIMS) + ".x",
        signed(rsa_key(), **CLAIMS).rsplit(".", 1)[0] + ".",
        forged({"crit": ["exp"]}),
        forged({"crit": ["b64"], "b64": False}),
        "",
        "..",
        "a.b.c",
    ],
)
def test_a_token_without_a_valid_signature_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused):
        signed_check()(token, {})


def test_a_changed_payload_is_refused() -> None:
    header, _, signature = signed(rsa_key(), **CLAIMS).split(".")
    payload = encoded(json.dumps(CLAIMS | {"sub": "admin"}).encode())
    with pytest.raises(TokenRefused, match="signature"):
        signed_check()(f"{header}.{payload}.{signature}", {})


def test_without_a_key_id_several_keys_are_ambiguous() -> None:
    two = (public_jwk(rsa_key(), "one"), public_jwk(rsa_key(number=1), "two"))
    with pytest.raises(TokenRefused, match="unknown"):
        signed_check(SETTINGS, *two)(signed(rsa_key(), None, **CLAIMS), {})
    assert signed_check(SETTINGS, *two)(signed(rsa_key(), "one", **CLAIMS), {})


def test_keys_that_are_not_for_signatures_are_left_out() -> None:
    usable = public_jwk(rsa_key(), "one", alg="RS256", use="sig", key_ops=["verify"])
    others = [
        public_jwk(rsa_key(), "two", use="enc"),
        public_jwk(rsa_key(), "two", key_ops=["encrypt"]),
        public_jwk(rsa_key(), "two", alg="HS256"),
        public_jwk(rsa_key(), "two", alg="RSA-OAEP"),
        public_jwk(rsa_key(1024), "two"),
        public_jwk(rsa_key(), "two", n="AQAB"),
        public_jwk(rsa_key(), "two", n=5),
        public_jwk(ec_key(), "two", crv="secp256k1"),
        public_jwk(ec_key(), "two", x="AQAB"),
        public_jwk(rsa_key(), "two") | {"kid": 5},
        {"kty": "oct", "kid": "two", "k": "c2VjcmV0"},
        {"kid": "two"},
        "two",
    ]
    found = parse_key_set(json.dumps({"keys": [*others, usable]}).encode())
    assert [(key.key_id, key.algorithms) for key in found.keys] == [("one", ("RS256",))]
    with pytest.raises(KeySetError, match="has no RSA or EC key"):
        parse_key_set(json.dumps({"keys": others}).encode())


TOO_MANY = json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b"\xff",
        b"[" * 100_000,
        TOO_MANY,
    ],
)
def test_an_invalid_key_set_is_refused(content: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_key_set(content)


def test_a_private_key_in_a_key_set_is_used_as_its_public_key() -> None:
    private = public_jwk(rsa_key(), "one") | {"d": base64.urlsafe_b64encode(b"x" * 256).decode()}
    assert signed_check(SETTINGS, private)(signed(rsa_key(), **CLAIMS), {})


@given(st.text(st.characters(codec="ascii"), max_size=200))
def test_any_text_is_refused(token: str) -> None:
    for check_of in (check(), signed_check()):
        with pytest.raises(TokenRefused):
            check_of(token, {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(["sub", "exp", "iat", "nbf", "aud", "iss", "scope"], json_values)
    )
)
def test_any_claims_are_accepted_or_refused(claims: dict[str, Any]) -> None:
    import jwt

    tokens = [unsecured(**claims)]
    tokens.append(jwt.api_jws.encode(json.dumps(claims).encode(), rsa_key(), "RS256", {"kid": "one"}))
    checks: list[Any] = [check(RequiredScope="a"), signed_check()]
    for check_of, token in zip(checks, tokens, strict=True):
        try:
            found = check_of(token, {})
        except TokenRefused:
            continue
        assert isinstance(found, BearerToken)
        assert found.principal == claims["sub"]


def test_a_key_that_the_library_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import jwt
    from cryptography.exceptions import UnsupportedAlgorithm

    read = jwt.PyJWK

    def reads(jwk: dict[str, str], algorithm: str) -> jwt.PyJWK:
        if algorithm == "ES256":
            raise UnsupportedAlgorithm("this curve")
        return read(jwk, algorithm)

    monkeypatch.setattr("jwt.PyJWK", reads)
    unknown = {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "two"}
    found = parse_key_set(key_set(public_jwk(rsa_key(), "one"), unknown))
    assert [each.key_id for each in found.keys] == ["one"]
