"""Session keys, and the signatures that they make (KIP-507)."""

from __future__ import annotations

import dataclasses

import pytest

from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.decisions.session import (
    DIGESTS,
    SessionSettings,
    check_signature,
    key_expires_ms,
    must_replace_key,
    sign,
)
from kcli.connect.errors import RestError
from kcli.connect.model import InternalSignature

SETTINGS = SessionSettings()
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1_000)
BODY = b"[]"


def signature(algorithm: str = "HmacSHA256", key: SessionKey = KEY) -> InternalSignature:
    return InternalSignature(algorithm, sign(key, algorithm, BODY), BODY)


def test_a_request_that_the_key_has_signed_passes() -> None:
    check_signature(signature(), KEY, SETTINGS)


def test_the_signature_is_that_of_java() -> None:
    key = SessionKey(b"key", "HmacSHA256", 0)
    text = b"The quick brown fox jumps over the lazy dog"
    expected = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
    assert sign(key, "HmacSHA256", text).hex() == expected


@pytest.mark.parametrize(
    ("sent", "key", "status", "message"),
    [
        (None, KEY, 400, "Internal request missing required signature"),
        (InternalSignature("HmacFoo", b"", BODY), KEY, 400, "Algorithm HmacFoo not available"),
        (
            signature("HmacSHA1"),
            KEY,
            400,
            "This worker does not support the 'HmacSHA1' key signing algorithm",
        ),
        (signature(), None, 503, "This worker is still starting up"),
        (
            InternalSignature("HmacSHA256", b"x", BODY),
            KEY,
            403,
            "Internal request contained invalid signature.",
        ),
    ],
)
def test_any_other_request_is_refused(
    sent: InternalSignature | None, key: SessionKey | None, status: int, message: str
) -> None:
    with pytest.raises(RestError) as refused:
        check_signature(sent, key, SETTINGS)
    assert (refused.value.status, str(refused.value)[: len(message)]) == (status, message)


def test_the_leader_replaces_a_key_that_is_missing_old_or_of_other_settings() -> None:
    assert must_replace_key(None, SETTINGS, 0)
    expires_ms = key_expires_ms(KEY, SETTINGS)
    assert expires_ms == 3_601_000
    assert not must_replace_key(KEY, SETTINGS, expires_ms - 1)
    assert must_replace_key(KEY, SETTINGS, expires_ms)
    assert must_replace_key(KEY, dataclasses.replace(SETTINGS, key_algorithm="HmacSHA512"), 0)
    assert must_replace_key(KEY, dataclasses.replace(SETTINGS, key_size_bits=512), 0)
    assert not must_replace_key(KEY, dataclasses.replace(SETTINGS, key_ttl_ms=0), 1 << 60)


@pytest.mark.parametrize("algorithm", sorted(DIGESTS))
def test_each_algorithm_has_a_size_of_keys(algorithm: str) -> None:
    assert dataclasses.replace(SETTINGS, key_algorithm=algorithm).key_size_bytes >= 28
    assert len(sign(KEY, algorithm, BODY)) >= 16
