"""The order in which a Java HashMap with String keys lists them.

Some of Kafka's files and listings come out in that order (meta.properties, the directories of `format`, the configs of
a topic), and text compared byte for byte must follow it. Buckets are filled in insertion order; a bucket only turns
into a tree from eight colliding keys on, which the few keys sorted here do not reach.
"""

from __future__ import annotations

from collections.abc import Iterable

_MINIMUM_TABLE = 16
_LOAD_FACTOR = 0.75


def string_hash(text: str) -> int:
    """Java's `String.hashCode` as an unsigned 32-bit number, over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    return value


def hash_order(names: Iterable[str]) -> list[str]:
    """`names`, without repetitions, as a HashMap that grew from its default size iterates over them."""
    distinct = list(dict.fromkeys(names))
    table = _MINIMUM_TABLE
    while len(distinct) > table * _LOAD_FACTOR:
        table *= 2
    return sorted(distinct, key=lambda name: _spread(string_hash(name)) & (table - 1))


def _spread(value: int) -> int:
    return value ^ (value >> 16)
