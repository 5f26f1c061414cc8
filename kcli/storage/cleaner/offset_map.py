"""The cleaner's map from keys to their last offsets, for millions of keys in memory of a fixed size.

As in Kafka, a key of any size takes 24 bytes: 16 bytes of its hash, and an offset. If two keys had equal hashes, a
record would be lost. So each map has a hash function with random constants. The probability that two keys have equal
hashes is 2^-128. A client cannot choose such keys, because the constants are secret. The function is multilinear
hashing (Lemire, Kaser: "Strongly universal string hashing is fast") in four lanes of 32 bits. numpy hashes a whole
chunk of records in one step.

The table uses open addressing. If a slot is used by another key, the second half of the hash gives the distance to the
next slot. The number of slots is prime, so with any distance all slots are reached.
"""

from __future__ import annotations

import hashlib
import os
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from kcli.protocol.batches.columns import Spans
from kcli.protocol.batches.record_starts import Bools, Ints

Hashes = NDArray[np.uint64]
"""An array with the two halves of each key's hash. Its shape is (2, number of keys)."""

ENTRY_BYTES = 24
"""The bytes per key, as in Kafka: two halves of a hash and an offset."""

LANES = 4
WORD_BYTES = 8
MAX_MIXED_BYTES = 64
"""The longest key that numpy hashes. Longer keys are hashed one by one with keyed BLAKE2b, because numpy would need a
step for every eight bytes."""

NOT_FOUND = -1

OFFSET = 2
"""The number of the column in the table that contains the offset."""

_LOW_HALF = np.uint64(0xFFFF_FFFF)
_HALF_BITS = np.uint64(32)


class KeyHash:
    """A hash function for keys, with random constants."""

    def __init__(self) -> None:
        words = MAX_MIXED_BYTES // WORD_BYTES
        drawn = np.frombuffer(os.urandom(LANES * (2 + 2 * words) * 8), np.uint64)
        factors = drawn.reshape(LANES, 2 + 2 * words, 1)
        self._offset, self._of_length = factors[:, 0], factors[:, 1]
        self._of_low, self._of_high = factors[:, 2::2], factors[:, 3::2]
        self._secret = os.urandom(hashlib.blake2b.MAX_KEY_SIZE)

    def of(self, buffer: bytes, keys: Spans) -> Hashes:
        """The hashes of the keys in `buffer`. No key may be null."""
        lengths = keys.lengths
        if len(buffer) < WORD_BYTES:
            buffer = buffer.ljust(WORD_BYTES, b"\0")
        words: Hashes = np.ndarray((len(buffer) - WORD_BYTES + 1,), "<u8", buffer, strides=(1,))
        sums: Hashes = self._of_length * lengths.astype(np.uint64) + self._offset
        longest = int(lengths.max(initial=0))
        for nth in range(min(-(-longest // WORD_BYTES), MAX_MIXED_BYTES // WORD_BYTES)):
            rows = np.flatnonzero(lengths > nth * WORD_BYTES)
            word = _words(words, keys.starts[rows] + nth * WORD_BYTES, lengths[rows] - nth * WORD_BYTES)
            mixed = self._of_low[:, nth] * (word & _LOW_HALF) + self._of_high[:, nth] * (word >> _HALF_BITS)
            if len(rows) == len(lengths):
                sums += mixed
            else:
                sums[:, rows] += mixed
        lanes = sums >> _HALF_BITS
        hashes: Hashes = lanes[:2] << _HALF_BITS | lanes[2:]
        for row in np.flatnonzero(lengths > MAX_MIXED_BYTES).tolist():
            start = int(keys.starts[row])
            key = buffer[start : start + int(lengths[row])]
            digest = hashlib.blake2b(key, digest_size=16, key=self._secret).digest()
            hashes[:, row] = np.frombuffer(digest, np.uint64)
        return hashes


def _words(words: Hashes, at: Ints, left: Ints) -> Hashes:
    """The eight bytes at each position, as numbers. A key ends `left` bytes after its position. Bytes after the end of
    the key are set to zero."""
    last = len(words) - 1
    over = np.maximum(at - last, 0)
    word: Hashes = words[at - over] >> (over * 8).astype(np.uint64)
    unused = np.maximum(WORD_BYTES - left, 0)
    if unused.any():
        shift = (unused * 8).astype(np.uint64)
        word = word << shift >> shift
    return word


class OffsetMap:
    """A map from hashes to offsets. The map is full when it contains `capacity` keys."""

    def __init__(self, max_bytes: int, load_factor: float, *, keys_at_most: int | None = None) -> None:
        """Makes an empty map. The map needs less memory than `max_bytes` if `keys_at_most`, an upper bound of the
        number of keys, is small.
        """
        slots = max(max_bytes // ENTRY_BYTES, 2)
        self.capacity = max(1, min(int(slots * load_factor), slots - 1))
        if keys_at_most is not None and keys_at_most < self.capacity:
            slots = int(keys_at_most / load_factor) + 2
        self.slots = _next_prime(slots)
        self.size = 0
        self.latest_offset = NOT_FOUND
        # A row has the two halves of a hash, and the offset plus one (0 in a free slot). These numbers are in one row
        # because they are read together.
        self._rows: Hashes = np.zeros((self.slots, 3), np.uint64)
        self._offsets: Ints = self._rows[:, OFFSET].view(np.int64)

    def put(self, hashes: Hashes, offsets: Ints) -> int:
        """Stores the offsets of keys. The offsets must be in ascending order and higher than all offsets in the map.
        Returns the number of keys that were stored before the map was full.

        A full map does not store a new offset, even for a key that it contains. As in Kafka, the pass ends at this
        record.
        """
        taken = len(offsets)
        if self.size + taken > self.capacity:
            taken = self._room_for(hashes)
            hashes, offsets = hashes[:, :taken], offsets[:taken]
        if taken:
            self._put_all(hashes, offsets)
            self.latest_offset = max(self.latest_offset, int(offsets[-1]))
        return taken

    def get(self, hashes: Hashes) -> Ints:
        """The offset of each key, or NOT_FOUND for a key that is missing."""
        offsets = np.full(hashes.shape[1], NOT_FOUND, np.int64)
        rows = np.arange(hashes.shape[1])
        slot, step = self._path(hashes)
        while len(rows):
            entries = self._rows.take(slot, axis=0)
            stored = entries[:, OFFSET].view(np.int64)
            same = _are_of(entries, hashes) & (stored > 0)
            offsets[rows[same]] = stored[same] - 1
            on = np.flatnonzero((stored > 0) & ~same)
            rows, step, hashes = rows[on], step[on], hashes[:, on]
            slot = (slot[on] + step) % self.slots
        return offsets

    def _put_all(self, hashes: Hashes, offsets: Ints) -> None:
        slot, step = self._path(hashes)
        while len(offsets):
            entries = self._rows.take(slot, axis=0)
            free = np.flatnonzero(entries[:, OFFSET] == 0)
            if len(free):
                # Several keys may claim the same free slot. numpy guarantees that the last of them gets it.
                free_slots = slot[free]
                self._offsets[free_slots] = -1 - free
                won = free[self._offsets[free_slots] == -1 - free]
                self._rows[slot[won], :OFFSET] = hashes[:, won].T
                self.size += len(won)
                entries[free] = self._rows.take(free_slots, axis=0)
            same = _are_of(entries, hashes)
            # The offsets rise, so the last offset of a key is stored.
            self._offsets[slot[same]] = offsets[same] + 1
            on = np.flatnonzero(~same)
            offsets, step, hashes = offsets[on], step[on], hashes[:, on]
            slot = (slot[on] + step) % self.slots

    def _path(self, hashes: Hashes) -> tuple[Ints, Ints]:
        """The first slot of each key, and the distance from one of its slots to the next."""
        slot = (hashes[0] % np.uint64(self.slots)).astype(np.int64)
        step = (hashes[1] % np.uint64(self.slots - 1)).astype(np.int64) + 1
        return slot, step

    def _room_for(self, hashes: Hashes) -> int:
        """The number of entries of `hashes` that can be stored before the map is full."""
        new = np.flatnonzero(self.get(hashes) == NOT_FOUND)
        order = new[np.lexsort((hashes[1, new], hashes[0, new]))]
        fresh = np.zeros(hashes.shape[1], np.int64)
        if len(order):
            differs = (hashes[:, order[1:]] != hashes[:, order[:-1]]).any(axis=0)
            fresh[order[np.concatenate(([True], differs))]] = 1
        before = self.size + np.cumsum(fresh) - fresh
        return int(np.searchsorted(before, self.capacity, side="left"))


def _are_of(entries: Hashes, hashes: Hashes) -> Bools:
    same: Bools = (entries[:, 0] == hashes[0]) & (entries[:, 1] == hashes[1])
    return same


def _next_prime(number: int) -> int:
    while any(number % divisor == 0 for divisor in range(2, isqrt(number) + 1)):
        number += 1
    return max(number, 3)
