"""Bytes that are not UTF-8, decoded with the same replacement characters as in Java."""

from __future__ import annotations

import pytest

from kcli.model.java_numbers import to_long
from kcli.model.java_utf8 import decode_utf8

R = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        ("Müller €😀".encode(), "Müller €😀"),
        (b"M\xfcller", f"M{R}ller"),
        (b"\xff\x00bin", f"{R}\x00bin"),
        (b"\xc0\x80", R * 2),  # Java's own form of U+0000 is not UTF-8
        (b"\xe2\x82", R),
        (b"\xe2\x82a", f"{R}a"),
        (b"\xe0\x80\x80", R * 3),
        (b"\xf0\x9f\x98", R),
        (b"\xf0\x9f\x98a", f"{R}a"),
        (b"\xf4\x90\x80\x80", R * 4),
        (b"\xf8\x88\x80\x80\x80", R * 5),
        # An encoded surrogate is one character in Java.
        (b"\xed\xa0\x80", R),
        (b"a\xed\xbf\xbfb", f"a{R}b"),
        (b"\xed\xa0\x80\xed\xb0\x80", R * 2),
        (b"\xed\xa0", R),
        (b"\xed\xa0a", f"{R}a"),
        (b"\xed", R),
    ],
)
def test_invalid_bytes_become_the_characters_of_java(raw: bytes, text: str) -> None:
    assert decode_utf8(raw) == text
    assert decode_utf8(memoryview(raw)) == text


def test_every_text_can_be_written_again() -> None:
    for first in range(256):
        for second in range(256):
            decode_utf8(bytes([first, second, 0x80])).encode()


def test_sums_of_longs_wrap_around() -> None:
    assert to_long(2**63 - 1 + 5) == -(2**63) + 4
    assert to_long(-(2**63) - 1) == 2**63 - 1
    assert [to_long(each) for each in (-1, 0, 2**63 - 1)] == [-1, 0, 2**63 - 1]
