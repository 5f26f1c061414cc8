from __future__ import annotations

import pytest

from kcli.protocol.wire.varint import (
    VarintError,
    encode_uvarint,
    encode_varint,
    read_uvarint,
    read_varint,
    read_varlong,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_zig_zag_integers_have_kafkas_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 1_760_000_000_000])
def test_varlongs_take_up_to_ten_bytes(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert read_varlong(encoded, 0) == (value, len(encoded))


def test_an_unsigned_integer_is_read_back() -> None:
    assert encode_uvarint(300) == b"\xac\x02"
    assert read_uvarint(b"\x00\xac\x02\x05", 1) == (300, 3)


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(VarintError, match="longer than 5 bytes"):
        read_varint(b"\xff" * 6, 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff", 0)
