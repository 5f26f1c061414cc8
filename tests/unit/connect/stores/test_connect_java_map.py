"""Java's serialised map of byte arrays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.connect.stores.java_map import InvalidMap, TruncatedMap, decode_map, encode_map

ONE = (
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72"
    "4900097468726573686f6c6478703f4000000000000c770800000010000000017572000"
    "25b42acf317f8060854e00200007870000000016b7571007e0002000000017678"
)

ARRAYS = st.one_of(st.none(), st.binary(max_size=20))


def test_the_bytes_are_those_of_java() -> None:
    assert encode_map({b"k": b"v"}).hex() == ONE
    assert decode_map(bytes.fromhex(ONE)) == {b"k": b"v"}


@given(st.dictionaries(ARRAYS, ARRAYS, max_size=30))
def test_a_map_is_read_back(entries: dict[bytes | None, bytes | None]) -> None:
    assert decode_map(encode_map(entries)) == entries


def test_the_capacity_grows_as_in_java() -> None:
    def capacity(count: int) -> int:
        encoded = encode_map({b"%d" % number: None for number in range(count)})
        at = encoded.index(b"\x77\x08") + 2
        return int.from_bytes(encoded[at : at + 4], "big")

    assert [capacity(count) for count in (0, 12, 13, 24, 25)] == [16, 16, 32, 32, 64]


def test_a_reference_to_an_array_is_read() -> None:
    raw = bytes.fromhex(ONE)
    shared = raw[: raw.index(bytes.fromhex("7571007e0002"))] + bytes.fromhex("71007e000378")
    assert decode_map(shared) == {b"k": b"k"}
    with pytest.raises(InvalidMap, match="reference"):
        decode_map(shared.replace(bytes.fromhex("71007e0003"), bytes.fromhex("71007e0004")))


@given(st.integers(0, len(ONE) // 2 - 1))
def test_a_file_that_ends_too_early_is_truncated(size: int) -> None:
    with pytest.raises(TruncatedMap):
        decode_map(bytes.fromhex(ONE)[:size])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for raw in (content, bytes.fromhex(ONE)[:90] + content):
        try:
            decode_map(raw)
        except InvalidMap:
            continue


def test_other_streams_are_refused() -> None:
    with pytest.raises(
        InvalidMap, match=r"java\.io\.StreamCorruptedException: invalid stream header: 67617262"
    ):
        decode_map(b"garbage")
    with pytest.raises(InvalidMap, match="another object at byte 4"):
        decode_map(bytes.fromhex(ONE).replace(b"HashMap", b"HashSet"))
    with pytest.raises(InvalidMap, match="-1 bytes"):
        decode_map(bytes.fromhex(ONE.replace("000000016b", "ffffffff6b")))
    with pytest.raises(InvalidMap, match="the content of the map"):
        decode_map(bytes.fromhex(ONE.replace("0000001000000001", "00000010ffffffff")))
