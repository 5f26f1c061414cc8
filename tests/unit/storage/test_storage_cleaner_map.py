"""The cleaner's map against a dict, and its hash."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kcli.protocol.batches.columns import Spans
from kcli.storage.cleaner.offset_map import ENTRY_BYTES, NOT_FOUND, KeyHash, OffsetMap


def spans(keys: list[bytes]) -> tuple[bytes, Spans]:
    lengths = np.array([len(key) for key in keys], np.int64)
    return b"".join(keys), Spans(np.cumsum(lengths) - lengths, lengths)


def sized(capacity: int, load_factor: float = 0.9) -> OffsetMap:
    return OffsetMap(int(capacity / load_factor + 2) * ENTRY_BYTES, load_factor)


LENGTHS = (0, 1, 3, 7, 8, 9, 12, 16, 33, 64, 65, 300)


@pytest.mark.parametrize("capacity", [1, 2, 5, 100, 500, 5000])
def test_as_a_dict_that_stops_when_it_is_full(capacity: int) -> None:
    rng = random.Random(capacity)
    pool = [rng.randbytes(rng.choice(LENGTHS)) for _ in range(800)]
    keys = [rng.choice(pool) for _ in range(2000)]
    offsets = sized(capacity)
    model: dict[bytes, int] = {}
    key_hash = KeyHash()
    taken = 0
    for nth, key in enumerate(keys):
        if len(model) >= offsets.capacity:
            break
        model[key] = nth * 2
        taken = nth + 1
    put = 0
    for first in range(0, len(keys), 300):
        buffer, parts = spans(keys[first : first + 300])
        at = np.arange(first, min(first + 300, len(keys))) * 2
        now = offsets.put(key_hash.of(buffer, parts), at)
        put += now
        if now < len(at):
            break
    assert put == taken
    assert offsets.size == len(model)
    assert offsets.latest_offset == (taken - 1) * 2
    found = offsets.get(key_hash.of(*spans(keys)))
    assert found.tolist() == [model.get(key, NOT_FOUND) for key in keys]


def test_a_full_table_is_searched_to_its_end() -> None:
    offsets = OffsetMap(50 * ENTRY_BYTES, 1.0)
    keys = [b"%d" % nth for nth in range(offsets.capacity)]
    key_hash = KeyHash()
    assert offsets.put(key_hash.of(*spans(keys)), np.arange(len(keys))) == len(keys)
    assert offsets.get(key_hash.of(*spans([b"none", *keys]))).tolist() == [NOT_FOUND, *range(len(keys))]
    assert offsets.put(key_hash.of(*spans([keys[0]])), np.array([99])) == 0  # full is full


def test_24_bytes_a_key() -> None:
    assert OffsetMap(1 << 20, 0.9).capacity == int((1 << 20) // 24 * 0.9)


def test_no_more_memory_than_there_can_be_keys() -> None:
    offsets = OffsetMap(1 << 30, 0.9, keys_at_most=10)
    assert offsets.slots < 20
    assert offsets.capacity > 10


def test_equal_keys_have_equal_hashes_wherever_they_lie() -> None:
    key_hash = KeyHash()
    for length in LENGTHS:
        key = bytes(range(200))[:length] or b""
        buffer = b"\xff" * 3 + key + b"\xee" * 11 + key
        parts = Spans(np.array([3, 14 + len(key)]), np.array([len(key)] * 2))
        hashes = key_hash.of(buffer, parts)
        assert (hashes[:, 0] == hashes[:, 1]).all()


def test_different_keys_have_different_hashes() -> None:
    """Also those that differ by zeros at their end, or in one bit."""
    keys = [b"\0" * length for length in range(140)] + [b"k" + b"\0" * length for length in range(140)]
    keys += [bytes(bit == nth for nth in range(16)) for bit in range(16)]
    hashes = KeyHash().of(*spans(keys))
    assert len({tuple(column) for column in hashes.T.tolist()}) == len(keys)
    assert len(set(hashes[0].tolist())) == len(keys)
    assert len(set(hashes[1].tolist())) == len(keys)


def test_each_map_has_a_hash_of_its_own() -> None:
    keys = spans([b"key"])
    assert KeyHash().of(*keys).tolist() != KeyHash().of(*keys).tolist()


def test_an_empty_list_of_keys_is_accepted() -> None:
    key_hash, offsets = KeyHash(), sized(10)
    none = key_hash.of(*spans([]))
    assert offsets.put(none, np.array([], np.int64)) == 0
    assert offsets.get(none).tolist() == []
