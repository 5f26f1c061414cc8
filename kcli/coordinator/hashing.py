"""Computes hash codes as Java does, because Java brokers and kcli must choose the same partition for the same key."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

MIN_INT32 = -(2**31)
REMEMBERED_HASHES = 20_000
"""The number of texts whose hash codes stay in the cache, about 3 MB. Each request to a group needs the hash code of
the group id. When a member joins a consumer group, the hash codes of all member ids are needed. Computing a hash code
takes 2 µs."""


@lru_cache(REMEMBERED_HASHES)
def java_hash(text: str) -> int:
    """Returns Java's `String.hashCode` of a text, as a signed 32-bit integer."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(key: str, partition_count: int) -> int:
    """Returns the partition of a coordinator's topic that stores the state of a key, such as a group id. If the hash
    code is the smallest 32-bit integer, its absolute value counts as 0, as in Kafka."""
    value = java_hash(key)
    return (0 if value == MIN_INT32 else abs(value)) % partition_count


def uuid_hash(value: uuid.UUID) -> int:
    """Returns the hash code of Kafka's class Uuid."""
    folded = (value.int >> 64) ^ (value.int & 0xFFFFFFFFFFFFFFFF)
    return (folded >> 32) ^ (folded & 0xFFFFFFFF)


def in_hash_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """Returns the distinct `items` in the order of a Java HashMap or HashSet. Assignments depend on this order."""
    distinct = list(dict.fromkeys(items))
    table = 16
    while len(distinct) > table * 3 // 4:
        table *= 2

    def bucket(item: T) -> int:
        value = hash_of(item) & 0xFFFFFFFF
        return (value ^ value >> 16) & (table - 1)

    return sorted(distinct, key=bucket)
