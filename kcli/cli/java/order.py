"""The orders in which Java's hash maps list things, where Kafka's output shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kcli.config.java_order import string_hash

T = TypeVar("T")

DEFAULT_CAPACITY = 16
_UINT32 = 0xFFFFFFFF


def map_order(keys: Iterable[T], hash_of: Callable[[T], int], *, capacity: int = DEFAULT_CAPACITY) -> list[T]:
    """`keys` as a HashMap made with room for `capacity` lists them; equal buckets keep the order of insertion."""
    distinct = list(dict.fromkeys(keys))
    table = 1 << max(0, capacity - 1).bit_length()
    while len(distinct) > table * 3 // 4:
        table *= 2
    return sorted(distinct, key=lambda key: _bucket(hash_of(key), table))


def partition_hash(partition: tuple[str, int]) -> int:
    """The hash of a TopicPartition: of its number first, then of its topic."""
    topic, number = partition
    return (31 * ((31 + number) & _UINT32) + string_hash(topic)) & _UINT32


def _bucket(value: int, table: int) -> int:
    return (value ^ (value >> 16)) & (table - 1)


__all__ = ["map_order", "partition_hash", "string_hash"]
