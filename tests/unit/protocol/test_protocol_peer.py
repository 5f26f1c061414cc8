"""Recognition of TLS peers by their first bytes."""

from __future__ import annotations

import struct

import pytest

from kcli.protocol.wire.peer import speaks_tls


@pytest.mark.parametrize(
    "record", [b"\x15\x03\x01\x00\x02\x02\x16", b"\x15\x03\x03\x00", b"\x16\x03\x01\x02"]
)
def test_an_alert_and_a_handshake_of_any_version_are_tls(record: bytes) -> None:
    assert speaks_tls(record)


@pytest.mark.parametrize(
    "first", [b"", b"\x15", b"HTTP", b"GET ", b"\x15\x02\x00\x00", b"\x17\x03\x03\x00", b"\x00\x00\x15\x03"]
)
def test_other_bytes_are_not_tls(first: bytes) -> None:
    assert not speaks_tls(first)


def test_a_frame_of_the_largest_accepted_size_is_not_taken_for_tls() -> None:
    assert not speaks_tls(struct.pack(">i", 100 * 1024 * 1024))
