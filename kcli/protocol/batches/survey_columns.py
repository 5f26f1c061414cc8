"""The method `columns` of `survey`: checks many records of different sizes with numpy.

The start of a record is known only after the record before it, so a short loop finds the starts. Then eight bytes of
each record are read at once. These eight bytes contain the varints of a usual record: up to three bytes for each of the
two deltas, and two bytes for the length of the key. The module `columns` reads other records: records with headers,
with large keys, or with timestamps that are hours apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecordError
from kcli.protocol.batches.batch import BatchHeader
from kcli.protocol.batches.batch_headers import HEADER, BatchHeaders
from kcli.protocol.batches.columns import Depth, walk_of

Words = NDArray[np.uint64]
Found = tuple[int, int, bool, bool]

_GATHERED = 8
_ONE_BYTE, _TWO_BYTES, _THREE_BYTES = 1 << 6, 1 << 13, 1 << 20
_U = [np.uint64(number) for number in range(65)]
_LOW, _SECOND, _THIRD = np.uint64(0x7F), np.uint64(0x3F80), np.uint64(0x1F_C000)


def survey_columns(header: BatchHeader, raw: bytes, begin: int) -> Found | None:
    """Returns the newest and the oldest timestamp, whether the offsets are without gaps, and whether at least one key
    is null. None if the records are invalid."""
    return _usual(header, raw, begin) or _thorough(header, raw, begin)


def _usual(header: BatchHeader, raw: bytes, begin: int) -> Found | None:
    """Returns the same as `survey_columns` for usual records. None if the records are unusual or invalid."""
    count, end = header.records_count, len(raw)
    if count > _THREE_BYTES:
        return None
    try:
        positions = _starts(raw, begin, count)
    except IndexError:
        return None
    if positions.pop() != end:
        return None
    starts = np.array(positions)
    ends = np.append(starts[1:], end)
    padded = raw + bytes(_GATHERED)
    words: Words = np.ndarray(end, "<u8", padded, 0, (1,))
    sizes, size_width = _varints(words[starts])
    at = starts + size_width + 1  # 1 is the byte of attributes
    if (sizes & _U[1]).any() or (at >= ends).any():
        return None
    word = words[at]
    times, width = _varints(word)
    word >>= width.view(np.uint64) << _U[3]
    expected, mask, offset_width = _offset_deltas(count)
    if not np.array_equal(word & mask, expected):
        return None
    word >>= offset_width.view(np.uint64) << _U[3]
    # At least two of the eight bytes are left. The length of the key must fit into two bytes.
    keys, key_width = _varints(word & np.uint64(0xFFFF))
    at += width + offset_width + key_width + np.where(keys & _U[1], 0, keys >> _U[1]).astype(np.int64)
    if (width > 3).any() or (word & np.uint64(0x8080) == 0x8080).any() or (at >= ends).any():
        return None
    values, value_width = _varints(words[at])
    at += value_width + np.where(values & _U[1], 0, values >> _U[1]).astype(np.int64)
    if (value_width > 3).any() or (at + 1 != ends).any() or np.frombuffer(raw, np.uint8)[at].any():
        return None  # the last byte of a record, its number of headers, is not 0
    deltas = (times >> _U[1]).view(np.int64) ^ -(times & _U[1]).view(np.int64)
    base_ms = header.base_timestamp_ms
    return base_ms + int(deltas.max()), base_ms + int(deltas.min()), True, bool((keys & _U[1]).any())


def _starts(raw: bytes, at: int, count: int) -> list[int]:
    """The start of each record and the end of the last record. Raises IndexError if a size takes over three bytes."""
    positions = [at]
    note = positions.append
    for _ in range(count):
        size = raw[at]
        if size < 0x80:
            at += (size >> 1) + 1
        else:
            high = raw[at + 1]
            if high < 0x80:
                at += ((size & 0x7F | high << 7) >> 1) + 2
            else:
                third = raw[at + 2]
                if third >= 0x80:
                    raise IndexError("a record of more than a megabyte")
                at += ((size & 0x7F | (high & 0x7F) << 7 | third << 14) >> 1) + 3
        note(at)
    return positions


def _varints(words: Words) -> tuple[Words, NDArray[np.int64]]:
    """The varints in the low bytes of the words (in zigzag form), and their sizes in bytes. A size of 4 means more than
    three bytes."""
    low = words & _LOW
    more = words >> _U[7] & _U[1]
    if not more.any():
        return low, np.ones(len(words), np.int64)
    second = more & (words >> _U[15])
    low |= (words >> _U[1] & _SECOND) * more
    width = _U[1] + more + second
    if second.any():
        low |= (words >> _U[2] & _THIRD) * second
        width += second & (words >> _U[23])
    return low, width.view(np.int64)


def _offset_deltas(count: int) -> tuple[Words, Words, NDArray[np.int64]]:
    """Returns three arrays for the offset deltas 0, 1, 2 and so on: the varint of each delta as a word, a mask of the
    varint's bytes, and the number of these bytes."""
    zigzag = np.arange(count, dtype=np.uint64) << _U[1]
    width = np.ones(count, np.int64)
    width[_ONE_BYTE:] = 2
    width[_TWO_BYTES:] = 3
    spelt = zigzag & _LOW
    spelt[_ONE_BYTE:] |= np.uint64(0x80) | (zigzag[_ONE_BYTE:] & _SECOND) << _U[1]
    spelt[_TWO_BYTES:] |= np.uint64(0x8000) | (zigzag[_TWO_BYTES:] & _THIRD) << _U[2]
    return spelt, (_U[1] << (width.view(np.uint64) << _U[3])) - _U[1], width


def _thorough(header: BatchHeader, raw: bytes, begin: int) -> Found | None:
    headers = np.zeros(1, HEADER)
    headers["count"], headers["last_offset_delta"] = header.records_count, header.last_offset_delta
    headers["base_timestamp"] = header.base_timestamp_ms
    table = BatchHeaders(raw, np.zeros(1, np.int64), headers, "a producer's request")
    try:
        walk = walk_of(table, np.zeros(1, np.int64), raw, np.array([begin]), np.array([len(raw)]))
        columns = walk.columns(Depth.HEADERS)
    except CorruptRecordError:
        return None
    assert columns.timestamps is not None and columns.keys is not None, "all of a record was asked for"
    return (
        int(columns.timestamps.max()),
        int(columns.timestamps.min()),
        bool((columns.offsets == np.arange(len(columns))).all()),
        bool((columns.keys.lengths < 0).any()),
    )
