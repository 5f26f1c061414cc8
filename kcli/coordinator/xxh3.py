"""XXH3, 64 bits, seed 0: the hash by which Kafka 4.1 notices that a group's topics have changed (KIP-1101).

Written from the specification of xxHash (doc/xxhash_spec.md of Cyan4973/xxHash, 0.8). Inputs are short (a topic's
description is 4 bytes a partition), so plain integers do: 1 ms for a topic of ten thousand partitions.
"""

from __future__ import annotations

import struct

_MASK = 0xFFFFFFFFFFFFFFFF
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PRIME_MX1, _PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25

# The default secret of the specification.
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE_BYTES = 64
_SECRET_STEP = 8
_STRIPES_PER_BLOCK = (len(_SECRET) - _STRIPE_BYTES) // _SECRET_STEP
_LAST_STRIPE_SECRET = len(_SECRET) - _STRIPE_BYTES - 7
_MERGE_SECRET = 11
_SHORT_BYTES, _MIDDLE_BYTES, _LONG_BYTES = 16, 128, 240
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_LANES = struct.Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The hash as an unsigned integer."""
    length = len(data)
    if length <= _SHORT_BYTES:
        return _hash_short(data, length)
    if length <= _MIDDLE_BYTES:
        return _hash_middle(data, length)
    if length <= _LONG_BYTES:
        return _hash_upper_middle(data, length)
    return _hash_long(data, length)


def _hash_short(data: bytes, length: int) -> int:
    if length > 8:
        low = _secret(24) ^ _secret(32) ^ _u64(data, 0)
        high = _secret(40) ^ _secret(48) ^ _u64(data, length - 8)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(length + swapped + high + _fold(low, high))
    if length >= 4:
        keyed = _u32(data, length - 4) + (_u32(data, 0) << 32)
        keyed ^= _secret(8) ^ _secret(16)
        return _rrmxmx(keyed, length)
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
        return _avalanche_64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_64(_secret(56) ^ _secret(64))


def _hash_middle(data: bytes, length: int) -> int:
    accumulator = length * _PRIME64_1
    for nth in range((length - 1) // 32, -1, -1):
        accumulator += _mix(data, 16 * nth, 32 * nth)
        accumulator += _mix(data, length - 16 * (nth + 1), 32 * nth + 16)
    return _avalanche(accumulator)


def _hash_upper_middle(data: bytes, length: int) -> int:
    accumulator = length * _PRIME64_1
    for nth in range(8):
        accumulator += _mix(data, 16 * nth, 16 * nth)
    accumulator = _avalanche(accumulator)
    for nth in range(8, length // 16):
        accumulator += _mix(data, 16 * nth, 16 * (nth - 8) + 3)
    return _avalanche(accumulator + _mix(data, length - 16, 136 - 17))


def _hash_long(data: bytes, length: int) -> int:
    lanes = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1
    ]  # fmt: skip
    stripes = (length - 1) // _STRIPE_BYTES
    for stripe in range(stripes):
        in_block = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE_BYTES, in_block * _SECRET_STEP)
        if in_block == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, length - _STRIPE_BYTES, _LAST_STRIPE_SECRET)
    result = length * _PRIME64_1
    for pair in range(4):
        at = _MERGE_SECRET + 16 * pair
        result += _fold(lanes[2 * pair] ^ _secret(at), lanes[2 * pair + 1] ^ _secret(at + 8))
    return _avalanche(result)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = _LANES.unpack_from(data, at)
    keys = _LANES.unpack_from(_SECRET, secret_at)
    for lane, (value, key) in enumerate(zip(values, keys, strict=True)):
        keyed = value ^ key
        lanes[lane ^ 1] = (lanes[lane ^ 1] + value) & _MASK
        lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK


def _scramble(lanes: list[int]) -> None:
    keys = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE_BYTES)
    for lane, key in enumerate(keys):
        value = lanes[lane]
        lanes[lane] = ((value ^ value >> 47 ^ key) * _PRIME32_1) & _MASK


def _mix(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _secret(secret_at), _u64(data, at + 8) ^ _secret(secret_at + 8))


def _fold(left: int, right: int) -> int:
    """Both halves of the 128-bit product, exclusive or."""
    product = left * right
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value &= _MASK
    value = ((value ^ value >> 37) * _PRIME_MX1) & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    """The finish of XXH64, which the shortest inputs keep."""
    value = ((value ^ value >> 33) * _PRIME64_2) & _MASK
    value = ((value ^ value >> 29) * _PRIME64_3) & _MASK
    return value ^ value >> 32


def _rrmxmx(value: int, length: int) -> int:
    value ^= _rotate(value, 49) ^ _rotate(value, 24)
    value = (value * _PRIME_MX2) & _MASK
    value ^= (value >> 35) + length
    value = (value * _PRIME_MX2) & _MASK
    return value ^ value >> 28


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _secret(at: int) -> int:
    return _u64(_SECRET, at)


def _u32(data: bytes, at: int) -> int:
    number: int = _U32.unpack_from(data, at)[0]
    return number


def _u64(data: bytes, at: int) -> int:
    number: int = _U64.unpack_from(data, at)[0]
    return number
