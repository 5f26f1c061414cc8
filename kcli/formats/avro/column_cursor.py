"""Reads numbers, bytes and texts of many values at once, with numpy.

A cursor has a position in each value, and a read moves all positions. No position is trusted: reads are clipped to the
buffer, and each length is compared with the end of its value. A value with a fault moves to its end, so that later
reads of it find no lengths. What they return does not matter, because the value becomes null.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kcli.protocol.batches.record_starts import MAX_VARLONG_SIZE, Bools, Bytes, Ints, varints

TOO_SHORT = "the value ends too early"


class Batch:
    """The bytes of all values, and the fault of each wrong value."""

    def __init__(self, buffer: pa.Buffer, count: int) -> None:
        self.buffer = buffer
        self.data: Bytes = np.frombuffer(buffer, np.uint8) if buffer.size else np.zeros(1, np.uint8)
        self._codes = np.full(count, -1, np.int32)
        self._texts: dict[str, int] = {}

    @cached_property
    def raw(self) -> bytes:
        """A copy of the bytes, for values that are decoded one by one."""
        raw: bytes = self.buffer.to_pybytes()
        return raw

    def fail(self, rows: Ints, text: str) -> None:
        """Records the fault of some values. The first fault of a value counts."""
        if not len(rows):
            return
        code = self._texts.setdefault(text, len(self._texts))
        self._codes[rows[self._codes[rows] < 0]] = code

    @property
    def has_faults(self) -> bool:
        return bool(self._texts)

    @property
    def faulty(self) -> Bools:
        faulty: Bools = self._codes >= 0
        return faulty

    def faults(self) -> pa.Array:
        """The text of each fault, or null for a valid value."""
        codes = pa.array(self._codes, mask=~self.faulty)
        return pa.array(list(self._texts), pa.string()).take(codes)


class Cursor:
    """The positions in some values of a batch. `rows` are the numbers of the values."""

    __slots__ = ("at", "batch", "ends", "rows")

    def __init__(self, batch: Batch, at: Ints, ends: Ints, rows: Ints) -> None:
        self.batch, self.at, self.ends, self.rows = batch, at, ends, rows

    def __len__(self) -> int:
        return len(self.at)

    def part(self, places: Ints) -> Cursor:
        """A cursor of some of the values. `join` moves this cursor to the positions of the part."""
        return Cursor(self.batch, self.at[places], self.ends[places], self.rows[places])

    def join(self, places: Ints, part: Cursor) -> None:
        self.at[places] = part.at

    def fail(self, wrong: Bools, text: str) -> None:
        """Records a fault of the values in which `wrong` is true."""
        if wrong.any():
            # A number beyond the end of its value belongs to the next value, and means nothing.
            self.batch.fail(self.rows[wrong & (self.at > self.ends)], TOO_SHORT)
            self.batch.fail(self.rows[wrong], text)
            self.at = np.where(wrong, self.ends, self.at)

    def finish(self) -> None:
        """Records a fault of each value that was not read to its end exactly."""
        self.fail(self.at > self.ends, TOO_SHORT)
        self.fail(self.at < self.ends, "bytes are left over")

    def longs(self) -> Ints:
        begun = self.at
        values, self.at = varints(self.batch.data, begun, MAX_VARLONG_SIZE)
        is_longest = self.at - begun == MAX_VARLONG_SIZE
        if is_longest.any():
            last = self.batch.data.take(self.at - 1, mode="clip")
            self.fail(is_longest & (last > 1), "a number has more than 64 bits")
        return values

    def ints(self) -> NDArray[np.int32]:
        values = self.longs()
        small = values.astype(np.int32)
        self.fail(small != values, "a number is not an int")
        return small

    def booleans(self) -> Bools:
        values = self.batch.data.take(self.at, mode="clip")
        self.at = self.at + 1
        self.fail(values > 1, "a boolean is neither 0 nor 1")
        is_true: Bools = values == 1
        return is_true

    def blocks(self, size: int) -> Bytes:
        """Reads bytes of a fixed size, as a row of a table for each value."""
        places = self.at[:, None] + np.arange(size)
        self.at = self.at + size
        table: Bytes = self.batch.data.take(places, mode="clip")
        return table

    def numbers(self, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        return self.blocks(dtype.itemsize).view(dtype).reshape(-1)

    def lengths(self) -> tuple[Ints, Ints]:
        """Moves after the length of bytes, and after these bytes. Returns where the bytes begin and end."""
        return self.spans(self.longs())

    def spans(self, sizes: Ints) -> tuple[Ints, Ints]:
        """Moves after bytes of known sizes. Returns where the bytes begin and end."""
        wrong = (sizes < 0) | (sizes > self.ends - self.at)
        if wrong.any():
            self.fail(wrong, TOO_SHORT)
            sizes = np.where(wrong, 0, sizes)
        begins = self.at
        self.at = begins + sizes
        return begins, self.at

    def binaries(self, begins: Ints, stops: Ints) -> pa.BinaryArray:
        """The bytes at ascending places, as a column."""
        offsets = np.empty(2 * len(begins) + 1, np.int32)
        # Every second element is a gap between two values, and is not taken.
        offsets[0:-1:2], offsets[1:-1:2] = begins, stops
        offsets[-1] = stops[-1] if len(stops) else 0
        every = pa.Array.from_buffers(
            pa.binary(), 2 * len(begins), [None, pa.py_buffer(offsets), self.batch.buffer]
        )
        return every.take(pa.array(np.arange(0, 2 * len(begins), 2)))

    def texts(self, begins: Ints, stops: Ints) -> pa.StringArray:
        """The texts at ascending places, as a column."""
        raw = self.binaries(begins, stops)
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            return self._checked_texts(raw)

    def _checked_texts(self, raw: pa.BinaryArray) -> pa.StringArray:
        """Finds the texts that are not UTF-8, one by one."""
        wrong = np.zeros(len(raw), np.bool_)
        texts: list[str | None] = []
        for nth, value in enumerate(raw.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError:
                texts.append(None)
                wrong[nth] = True
        self.fail(wrong, "a text is not UTF-8")
        return pa.array(texts, pa.string())
