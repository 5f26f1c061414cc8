"""Which partition of an internal topic coordinates a key: Java's `String.hashCode`, because every broker must agree."""

from __future__ import annotations

import struct

MIN_INT32 = -(2**31)


def java_hash(text: str) -> int:
    """`String.hashCode` of text: 31-ary over its UTF-16 code units, as a signed 32-bit integer."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(key: str, partition_count: int) -> int:
    """The partition that holds key's state; Java's absolute value of the smallest int is taken as 0."""
    value = java_hash(key)
    return (0 if value == MIN_INT32 else abs(value)) % partition_count
