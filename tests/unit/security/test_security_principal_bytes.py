"""The principal in an Envelope: Kafka's bytes, and the refusal of all other bytes."""

from __future__ import annotations

import pytest

from kcli.errors import PrincipalDeserializationException
from kcli.security.principal import ANONYMOUS, Principal
from kcli.security.principal_bytes import decode_principal, encode_principal

ALICE = Principal("User", "alice")
# int16 version, compact type, compact name, tokenAuthenticated, no tagged fields (DefaultPrincipalData.json).
ALICE_BYTES = b"\x00\x00\x05User\x06alice\x00\x00"


def test_a_principal_has_kafkas_bytes() -> None:
    assert encode_principal(ALICE) == ALICE_BYTES
    assert decode_principal(ALICE_BYTES) == ALICE
    assert decode_principal(encode_principal(ANONYMOUS)) == ANONYMOUS


def test_a_login_by_token_and_unknown_tags_are_accepted() -> None:
    assert decode_principal(b"\x00\x00\x05User\x06alice\x01\x01\x09\x02xy") == ALICE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        ALICE_BYTES[:-1],
        ALICE_BYTES[:-2],
        ALICE_BYTES + b"\x00",
        b"\x00\x01" + ALICE_BYTES[2:],
        b"\x00\x00\x00\x06alice\x00\x00",
    ],
)
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(PrincipalDeserializationException):
        decode_principal(content)
