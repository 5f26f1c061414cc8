"""murmur2 over a column equals Kafka's, and places keys as the Java client does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.batches.columns import Spans
from kcli.spark.sink.partitioner import murmur2, partitions_for_keys

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
}
"""Hashes that Apache Kafka's own tests state for its murmur2."""


def spans_of(keys: list[bytes]) -> tuple[bytes, Spans]:
    lengths = np.array([len(key) for key in keys], np.int64)
    return b"".join(keys), Spans(np.cumsum(lengths) - lengths, lengths)


def one_by_one(key: bytes) -> int:
    """The hash as its definition reads, in unbounded integers."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    state = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        state = (state * factor & mask) ^ word
    if len(key) > whole:
        state = (state ^ int.from_bytes(key[whole:], "little")) * factor & mask
    state = (state ^ state >> 13) * factor & mask
    return state ^ state >> 15


def test_hashes_that_kafka_states() -> None:
    assert murmur2(*spans_of(list(KNOWN))).view(np.int32).tolist() == list(KNOWN.values())


@given(keys=st.lists(st.binary(max_size=40), max_size=50))
def test_equals_the_definition(keys: list[bytes]) -> None:
    assert murmur2(*spans_of(keys)).tolist() == [one_by_one(key) for key in keys]


@given(keys=st.lists(st.binary(max_size=20), max_size=20), count=st.integers(1, 100))
def test_partitions_are_of_the_positive_hash(keys: list[bytes], count: int) -> None:
    partitions = partitions_for_keys(*spans_of(keys), count)
    assert partitions.tolist() == [(one_by_one(key) & 0x7FFFFFFF) % count for key in keys]
