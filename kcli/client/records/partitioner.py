"""Chooses the partition of a key as Java's producer does, so that all records with the same key are in one
partition."""

from __future__ import annotations

_M, _R, _SEED = 0x5BD1E995, 24, 0x9747B28C
_MASK = 0xFFFF_FFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Returns the partition of a key among `partitions` (BuiltInPartitioner of Java's producer)."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def murmur2(key: bytes) -> int:
    """The 32-bit MurmurHash2 with the seed of Kafka's clients."""
    state = _SEED ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> _R) * _M & _MASK
        state = (state * _M & _MASK) ^ word
    if rest := key[whole:]:
        state = (state ^ int.from_bytes(rest, "little")) * _M & _MASK
    state = (state ^ state >> 13) * _M & _MASK
    return state ^ state >> 15
