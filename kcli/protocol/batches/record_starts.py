"""Finds the begin of every record in many batches, by columns.

A record is `length varint, body`, so a start is known only from the one before it. Two steps break that chain
without a wrong guess:

* **runs**. Position p is a true start and its record has size s, so p+s is the next true start. If the length there
  is s again, p+2s is one too, and so on. One gather compares all these lengths: equal-sized records, the usual case,
  cost no more.
* **lanes**. One numpy step moves every batch of the chunk on by one record. A few long batches of uneven records
  go to a plain loop instead, where a numpy step of so few lanes would cost more.

Nothing here trusts a length: gathers are clipped to the buffer, and `_check_chain` proves afterwards that the
records of each batch fill it exactly, so that every start lies inside it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
Bools: TypeAlias = NDArray[np.bool_]

FIRST_WINDOW = 64
"""Records that a run looks ahead at first: the offset delta of number 64 takes a second byte, which ends most runs."""

LATER_WINDOW = 8192
"""Records that later runs look ahead: as many as there are until the offset delta takes a third byte."""

SHORT_RUN = 6
SHORT_ROUND = 256
"""Runs below this mean length, or a round finding fewer records, cost more than stepping (measured)."""

FEW_LANES = 40
"""Batches below which a numpy step costs more than a step of the loop for each of them (measured)."""

MIN_RECORD_SIZE = 7
"""Smallest record: length, attributes, two deltas, key length, value length and header count, of one byte each."""

MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10

_LOW = np.uint8(0x7F)


def varints(buffer: Bytes, at: Ints, max_size: int = MAX_VARINT_SIZE) -> tuple[Ints, Ints]:
    """The zigzag varints at positions `at`: their values, and the positions after them.

    A position outside the buffer reads its nearest byte, and a varint that does not end within `max_size` bytes
    has a value out of any range: the caller's bounds checks find both.
    """
    first = buffer.take(at, mode="clip")
    value = first.astype(np.int64)
    more = first > _LOW
    continued = int(np.count_nonzero(more))
    if not continued:
        return _unzigzag(value), at + 1
    value &= 0x7F
    if continued * 4 < len(at):
        rows = np.flatnonzero(more)
        end = at + 1
    else:  # mostly two bytes: read the second of every row, and keep it where it counts
        second = buffer.take(at + 1, mode="clip")
        value |= np.where(more, (second & _LOW).astype(np.int64) << 7, 0)
        end = at + 1 + more
        rows = np.flatnonzero(more & (second > _LOW))
    return _unzigzag(_finish(buffer, at, value, end, rows, max_size)), end


def _finish(buffer: Bytes, at: Ints, value: Ints, end: Ints, rows: Ints, max_size: int) -> Ints:
    """Reads the further bytes of the rows that have them; moves `end` on in place."""
    size = int(end[rows[0]] - at[rows[0]]) if len(rows) else 0
    while len(rows):
        if size == max_size:
            value[rows] = -1  # decodes to the lowest integer, which every check of a length or a sum refuses
            break
        byte = buffer.take(at[rows] + size, mode="clip")
        value[rows] |= (byte & _LOW).astype(np.int64) << (7 * size)
        size += 1
        end[rows] = at[rows] + size
        rows = rows[byte > _LOW]
    return value


def _unzigzag(value: Ints) -> Ints:
    unsigned = value.view(np.uint64)
    return (unsigned >> np.uint64(1)).view(np.int64) ^ -(value & 1)


def record_starts(buffer: Bytes, begins: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints, int]:
    """Start and end of every record, batch after batch, and the first batch that is corrupt (-1: none).

    `begins`, `ends`: the records area of each batch in `buffer`; `counts`: its number of records (> 0).
    """
    total = int(counts.sum())
    firsts = np.cumsum(counts) - counts
    starts = np.empty(total, np.int64)
    position, done = begins.copy(), np.zeros(len(begins), np.int64)
    _runs(buffer, starts, firsts, position, counts, done)
    rest = np.flatnonzero(done < counts)
    if len(rest) >= FEW_LANES:
        _lanes(buffer, starts, firsts, position, counts, done, rest)
        rest = np.flatnonzero(done < counts)
    if len(rest):
        _loop(buffer, starts, firsts, position, counts, done, rest)
    record_ends = np.empty(total, np.int64)
    record_ends[:-1] = starts[1:]
    record_ends[firsts + counts - 1] = position
    return starts, record_ends, _check_chain(starts, record_ends, position, ends, counts)


def _check_chain(starts: Ints, record_ends: Ints, position: Ints, ends: Ints, counts: Ints) -> int:
    """The first batch whose records do not fill it exactly or have impossible sizes, or -1."""
    wrong = position != ends
    short = np.flatnonzero(record_ends - starts < MIN_RECORD_SIZE)
    if len(short):
        wrong = wrong.copy()
        wrong[np.searchsorted(np.cumsum(counts), short, side="right")] = True
    rows = np.flatnonzero(wrong)
    return int(rows[0]) if len(rows) else -1


def _runs(buffer: Bytes, starts: Ints, firsts: Ints, position: Ints, counts: Ints, done: Ints) -> None:
    """Takes runs of equal-sized records in all batches at once, until they get short."""
    batches, window = np.arange(len(firsts)), FIRST_WINDOW
    while len(batches):
        at = position[batches]
        length, body = varints(buffer, at)
        size = body - at + length
        ahead = np.minimum(counts[batches] - done[batches], window)
        first = np.cumsum(ahead) - ahead
        steps = np.arange(int(ahead.sum())) - np.repeat(first, ahead)
        guesses = np.repeat(at, ahead) + steps * np.repeat(size, ahead)
        same = _spells(buffer, guesses, at, body - at, ahead)
        length_of_run = ahead.copy()
        misses = np.flatnonzero(~same)
        if len(misses):
            lane = np.searchsorted(first, misses, side="right") - 1
            lanes, nth = np.unique(lane, return_index=True)
            length_of_run[lanes] = misses[nth] - first[lanes]
            taken = steps < np.repeat(length_of_run, ahead)
            starts[(np.repeat(firsts[batches] + done[batches], ahead) + steps)[taken]] = guesses[taken]
        else:
            starts[np.repeat(firsts[batches] + done[batches], ahead) + steps] = guesses
        done[batches] += length_of_run
        position[batches] = at + length_of_run * size
        found = int(length_of_run.sum())
        if len(misses) and found < max(SHORT_RUN * len(batches), SHORT_ROUND):
            return
        window = max(FIRST_WINDOW, 4 * found // len(batches)) if len(misses) else LATER_WINDOW
        batches = batches[done[batches] < counts[batches]]


def _spells(buffer: Bytes, guesses: Ints, at: Ints, length_size: Ints, ahead: Ints) -> Bools:
    """Whether the bytes at each guess equal the length bytes of its run's first record."""
    same: Bools = buffer.take(guesses, mode="clip") == np.repeat(buffer.take(at, mode="clip"), ahead)
    for nth in range(1, int(length_size.max())):
        matters = length_size > nth
        equal = buffer.take(guesses + nth, mode="clip") == np.repeat(
            buffer.take(at + nth, mode="clip"), ahead
        )
        same &= equal if matters.all() else equal | np.repeat(~matters, ahead)
    return same


def _lanes(
    buffer: Bytes, starts: Ints, firsts: Ints, position: Ints, counts: Ints, done: Ints, batches: Ints
) -> None:
    """Steps all batches by one record at a time, the longest first so that the unfinished are a prefix."""
    left = counts[batches] - done[batches]
    order = np.argsort(-left, kind="stable")
    batches, left = batches[order], left[order]
    slot, at = firsts[batches] + done[batches], position[batches]
    falling = -left
    step, active = 0, len(batches)
    while active >= FEW_LANES:
        starts[slot[:active] + step] = at[:active]
        length, body = varints(buffer, at[:active])
        at[:active] = body + length
        step += 1
        active = int(np.searchsorted(falling, -step, side="left"))
    position[batches] = at
    done[batches] += np.minimum(left, step)


def _loop(
    buffer: Bytes, starts: Ints, firsts: Ints, position: Ints, counts: Ints, done: Ints, batches: Ints
) -> None:
    view = buffer.data
    last = len(view) - MAX_VARINT_SIZE
    for batch in batches.tolist():
        at, found = int(position[batch]), []
        for _ in range(int(counts[batch] - done[batch])):
            found.append(at)
            if not 0 <= at <= last:
                at = _careful_step(view, at)
                continue
            byte = view[at]
            if not byte & 0x81:  # one byte, and an odd one is negative
                at += (byte >> 1) + 1
                continue
            high = view[at + 1]
            if high < 0x80 and not byte & 1:
                at += ((byte & 0x7F | high << 7) >> 1) + 2
            else:
                at = _careful_step(view, at)
        slot = int(firsts[batch] + done[batch])
        starts[slot : slot + len(found)] = found
        position[batch] = at
        done[batch] = counts[batch]


def _careful_step(view: memoryview, at: int) -> int:
    """The next start after `at`, or `at` itself if no length can be read (the check finds it)."""
    value = 0
    for nth in range(MAX_VARINT_SIZE):
        if not 0 <= at + nth < len(view):
            return at
        byte = view[at + nth]
        value |= (byte & 0x7F) << (7 * nth)
        if byte < 0x80:
            if value & 1:  # negative
                return at
            return at + nth + 1 + (value >> 1)
    return at
