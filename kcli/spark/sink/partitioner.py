"""Kafka's default partitioner (murmur2) over a whole column of keys.

Every key has the same hash as in the Java client.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.batches.columns import Spans
from kcli.protocol.batches.record_starts import Ints

_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_SEED = np.uint32(0x9747B28C)
"""The seed that all of Kafka's clients use. _M and _R are the constants of MurmurHash2."""


def partitions_for_keys(buffer: bytes, keys: Spans, count: int) -> Ints:
    """Returns the partition of each key, if the topic has `count` partitions. The caller must ignore the result for a
    null key.
    """
    positive = murmur2(buffer, keys) & np.uint32(0x7FFF_FFFF)
    return (positive % np.uint32(count)).astype(np.int64)


def murmur2(buffer: bytes, keys: Spans) -> NDArray[np.uint32]:
    """Returns the 32-bit hash of each key. Each step hashes one word (4 bytes) of all keys that are long enough."""
    lengths = np.maximum(keys.lengths, 0)
    # The longest keys come first. So the keys that have more words to hash are always a prefix of the array.
    order = np.argsort(-lengths, kind="stable")
    sizes, starts = lengths[order], keys.starts[order]
    source = np.frombuffer(buffer, np.uint8)
    state = _SEED ^ sizes.astype(np.uint32)
    words = sizes // 4
    for nth in range(int(words[0]) if len(words) else 0):
        active = int(np.searchsorted(-words, -nth, side="left"))
        word = _word(source, starts[:active] + 4 * nth, 4)
        word *= _M
        word ^= word >> _R
        word *= _M
        state[:active] *= _M
        state[:active] ^= word
    rest = sizes % 4
    for left in (1, 2, 3):
        rows = np.flatnonzero(rest == left)
        if len(rows):
            state[rows] ^= _word(source, starts[rows] + 4 * words[rows], left)
            state[rows] *= _M
    state ^= state >> np.uint32(13)
    state *= _M
    state ^= state >> np.uint32(15)
    hashes = np.empty_like(state)
    hashes[order] = state
    return hashes


def _word(source: NDArray[np.uint8], at: Ints, size: int) -> NDArray[np.uint32]:
    """Returns the number in the `size` bytes at each position, little-endian."""
    word = source.take(at).astype(np.uint32)
    for nth in range(1, size):
        word |= source.take(at + nth).astype(np.uint32) << np.uint32(8 * nth)
    return word
