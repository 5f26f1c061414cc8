"""The order in which Java's maps and sets list their keys.

Some of Kafka's files, records and outputs have this order, for example meta.properties and the configs of a topic. The
files and outputs of kcli must be equal byte for byte. The keys of a bucket keep the order of insertion. (Java uses a
tree for a bucket with more than eight keys. The maps here never have such a bucket.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from kcli.model.pace import Pace

T = TypeVar("T")

DEFAULT_CAPACITY = 16
_LOAD_FACTOR = 0.75
_UINT32 = 0xFFFFFFFF


def text_order(text: str) -> bytes:
    """The key by which Java sorts texts: by UTF-16 code units, so U+1F600 comes before U+FF01."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """Java's `String.hashCode` as an unsigned 32-bit number, over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (31 * value + unit) & _UINT32
    return value


def partition_hash(partition: tuple[str, int]) -> int:
    """Java's `TopicPartition.hashCode` as an unsigned 32-bit number."""
    topic, number = partition
    return (31 * ((31 + number) & _UINT32) + string_hash(topic)) & _UINT32


def map_order(keys: Iterable[T], hash_of: Callable[[T], int], *, capacity: int = DEFAULT_CAPACITY) -> list[T]:
    """`keys` without repetitions, in the order of a Java HashMap that was created with this initial capacity."""
    distinct = list(dict.fromkeys(keys))
    table = _table_size(len(distinct), capacity)
    return sorted(distinct, key=lambda key: _bucket(hash_of(key), table))


async def hash_order_in_slices(
    names: Iterable[str], pace: Pace, cost: int, *, capacity: int = DEFAULT_CAPACITY
) -> list[str]:
    """Does the work of `map_order` for names, so that a request with many names does not delay other clients. `cost` is
    the cost of a name."""
    distinct = list(dict.fromkeys(names))
    table = _table_size(len(distinct), capacity)
    buckets = {}
    for name in distinct:
        await pace(cost)
        buckets[name] = _bucket(string_hash(name), table)
    return sorted(distinct, key=buckets.__getitem__)


def hash_order(names: Iterable[str]) -> list[str]:
    """`names` without repetitions, in the order of a Java HashMap with the default initial capacity."""
    return map_order(names, string_hash)


def copied_hash_order(names: Collection[str]) -> list[str]:
    """`names` in the order of a Java HashMap that was copied from another map.

    The order depends on the size of the map's table. A copy has the smallest table that is large enough for its keys.
    """
    table = 1 << math.ceil(math.log2(max(1.0, len(names) / _LOAD_FACTOR + 1)))
    return map_order(names, string_hash, capacity=table)


def _table_size(count: int, capacity: int) -> int:
    table = 1 << max(0, capacity - 1).bit_length()
    while count > table * _LOAD_FACTOR:
        table *= 2
    return table


def _bucket(value: int, table: int) -> int:
    return (value ^ (value >> 16)) & (table - 1)
