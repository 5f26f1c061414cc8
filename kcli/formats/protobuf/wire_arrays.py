"""Reads parts of many Protobuf messages at once: numpy arrays of varints, fixed numbers and spans of bytes.

Every function gets the bytes of all messages as one array. It ends with PADDING zero bytes, so that a read behind
the last message stays inside the array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

PADDING = 16
MAX_VARINT_BYTES = 10


def varints(content: Bytes, position: Integers) -> tuple[NDArray[np.uint64], Integers]:
    """Returns the varints at positions, and the positions behind them. A varint that is too long has 11 bytes."""
    import numpy as np

    first = content.take(position)
    value = (first & 0x7F).astype(np.uint64)
    behind = position + 1
    longer = np.flatnonzero(first & 0x80)
    for shift in range(7, 7 * MAX_VARINT_BYTES, 7):
        if longer.size == 0:
            return value, behind
        byte = content.take(behind.take(longer))
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        behind[longer] += 1
        longer = longer[(byte & 0x80) != 0]
    behind[longer] += 1
    return value, behind


def fixed(content: Bytes, position: Integers, size: int) -> NDArray[np.uint64] | NDArray[np.uint32]:
    """Returns the little-endian numbers of 4 or 8 bytes at positions."""
    import numpy as np

    return (
        np.ascontiguousarray(content.take(position[:, None] + np.arange(size))).view(f"<u{size}").reshape(-1)
    )


def gathered(content: Bytes, start: Integers, end: Integers) -> tuple[Bytes, Integers]:
    """Returns the bytes of spans behind each other, and their offsets in the result."""
    import numpy as np

    lengths = end - start
    offsets = np.zeros(len(start) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    index = np.repeat(start - offsets[:-1], lengths)
    index += np.arange(offsets[-1])
    return content.take(index), offsets


def packed_varints(
    content: Bytes, start: Integers, end: Integers
) -> tuple[NDArray[np.uint64], Integers, Flags]:
    """Returns the varints in spans, their number in each span, and which spans do not consist of varints."""
    import numpy as np

    chunk, offsets = gathered(content, start, end)
    stops = np.flatnonzero(chunk < 0x80)
    counts = np.diff(np.searchsorted(stops, offsets))
    is_bad = np.zeros(len(start), np.bool_)
    full = np.flatnonzero(end > start)
    is_bad[full] = chunk[offsets[full + 1] - 1] >= 0x80
    if is_bad.any():
        value, counts, is_long = packed_varints(content, start, np.where(is_bad, start, end))
        return value, counts, is_bad | is_long
    begins = np.concatenate([np.zeros(1, np.int64), stops[:-1] + 1]) if stops.size else stops
    lengths = stops - begins + 1
    value = np.zeros(len(stops), np.uint64)
    longest = int(lengths.max()) if lengths.size else 0
    if longest > MAX_VARINT_BYTES:
        is_bad[np.searchsorted(offsets, stops[lengths > MAX_VARINT_BYTES], side="right") - 1] = True
        longest = MAX_VARINT_BYTES
    for nth in range(longest):
        longer = np.flatnonzero(lengths > nth) if nth else slice(None)
        byte = chunk[begins[longer] + nth]
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * nth)
    return value, counts, is_bad


def validity(present: Flags | None) -> pa.Buffer | None:
    """Returns the buffer in which Arrow marks the values that are not null. None means that no value is null."""
    import numpy as np
    import pyarrow as pa

    return None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))


def texts(
    content: Bytes, start: Integers, end: Integers, present: Flags | None, *, is_text: bool
) -> tuple[pa.Array, Flags | None]:
    """Returns spans as an array of strings or of bytes, and which of them are not UTF-8, or None if all are."""
    import numpy as np
    import pyarrow as pa

    chunk, offsets = gathered(content, start, end)
    kind = pa.string() if is_text else pa.binary()
    buffers = [validity(present), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(chunk)]
    array = pa.Array.from_buffers(kind, len(start), buffers)
    if not is_text or chunk.size == 0 or chunk.max() < 0x80:
        return array, None
    try:
        array.validate(full=True)
        return array, None
    except pa.ArrowInvalid:
        spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        whole = chunk.tobytes()
        return array, np.array([not _is_utf8(whole[first:behind]) for first, behind in spans])


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
