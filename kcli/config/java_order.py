"""The order in which a Java HashMap with String keys lists them.

Some of Kafka's files and listings come out in that order (meta.properties, the directories of `format`, the configs of
a topic), and text compared byte for byte must follow it. Buckets are filled in insertion order; a bucket only turns
into a tree from eight colliding keys on, which the few keys sorted here do not reach.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

DEFAULT_TABLE = 16
_LOAD_FACTOR = 0.75


def string_hash(text: str) -> int:
    """Java's `String.hashCode` as an unsigned 32-bit number, over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    return value


def hash_order(names: Iterable[str], *, table: int = DEFAULT_TABLE) -> list[str]:
    """`names`, without repetitions, as a HashMap that grew from `table` buckets iterates over them."""
    distinct = list(dict.fromkeys(names))
    while len(distinct) > table * _LOAD_FACTOR:
        table *= 2
    return sorted(distinct, key=lambda name: _spread(string_hash(name)) & (table - 1))


def copied_hash_order(names: Collection[str]) -> list[str]:
    """`names` as a HashMap made as the copy of another map lists them: its table is as small as it can be."""
    return hash_order(names, table=1 << math.ceil(math.log2(max(1.0, len(names) / _LOAD_FACTOR + 1))))


def _spread(value: int) -> int:
    return value ^ (value >> 16)
