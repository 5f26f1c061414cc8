"""The order in which Java's hash maps and hash sets list their keys.

Some of Kafka's files, records and listings come out in that order: meta.properties, the directories of `format`, the
configs of a topic, the partitions that a tool prints. Text compared byte for byte must follow it. A bucket holds its
keys in insertion order; it only becomes a tree from eight colliding keys on, more than the few keys here ever have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

T = TypeVar("T")

DEFAULT_CAPACITY = 16
_LOAD_FACTOR = 0.75
_UINT32 = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Java's `String.hashCode` as an unsigned 32-bit number, over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2], "big")) & _UINT32
    return value


def partition_hash(partition: tuple[str, int]) -> int:
    """Java's hash of a TopicPartition: first of its number, then of its topic."""
    topic, number = partition
    return (31 * ((31 + number) & _UINT32) + string_hash(topic)) & _UINT32


def map_order(keys: Iterable[T], hash_of: Callable[[T], int], *, capacity: int = DEFAULT_CAPACITY) -> list[T]:
    """`keys`, without repetitions, as a HashMap created with room for `capacity` lists them."""
    distinct = list(dict.fromkeys(keys))
    table = 1 << max(0, capacity - 1).bit_length()
    while len(distinct) > table * _LOAD_FACTOR:
        table *= 2
    return sorted(distinct, key=lambda key: _bucket(hash_of(key), table))


def hash_order(names: Iterable[str]) -> list[str]:
    """`names`, without repetitions, as a HashMap of Java's default size lists them."""
    return map_order(names, string_hash)


def copied_hash_order(names: Collection[str]) -> list[str]:
    """`names` as a HashMap that copies another map lists them: its table is as small as possible."""
    table = 1 << math.ceil(math.log2(max(1.0, len(names) / _LOAD_FACTOR + 1)))
    return map_order(names, string_hash, capacity=table)


def _bucket(value: int, table: int) -> int:
    return (value ^ (value >> 16)) & (table - 1)
