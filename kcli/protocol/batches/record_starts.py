"""Finds the start of every record in many batches, with numpy.

A record is a length (a varint) and a body, so the start of a record is known only after the record before it. Two
methods find the starts without a step of Python code for each record:

* **runs**. If a record at position p has size s, the next record starts at p+s. If this record has size s again, the
  third record starts at p+2s, and so on. One numpy operation compares many such lengths. Usually all records have the
  same size, and this method is enough.
* **lanes**. Each batch of the chunk is a lane. One numpy step moves to the next record in every lane. If only a few
  long batches with records of different sizes are left, a plain loop is faster than numpy.

No length is trusted: reads are clipped to the buffer. Afterwards `_check_chain` checks that the records of each batch
fill the batch exactly. So every start lies inside its batch.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
Bools: TypeAlias = NDArray[np.bool_]

FIRST_WINDOW = 64
"""The number of records that are compared in the first round. From record 64 on, the offset delta takes a second byte.
The second byte changes the size of the records, so most runs end there."""

LATER_WINDOW = 8192
"""The number of records that are compared in later rounds. Offset deltas below this number take at most two bytes."""

SHORT_RUN = 6
SHORT_ROUND = 256
"""The limits at which the search for runs ends. If runs are shorter than SHORT_RUN on average, or if a round finds
fewer records than SHORT_ROUND, single steps are faster (measured)."""

FEW_LANES = 40
"""If fewer batches than this are left, a step of the plain loop for each batch is faster than a numpy step
(measured)."""

MIN_RECORD_SIZE = 7
"""The size of the smallest record: one byte each for length, attributes, two deltas, key length, value length and
header count."""

MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10

_LOW = np.uint8(0x7F)


def varints(buffer: Bytes, at: Ints, max_size: int = MAX_VARINT_SIZE) -> tuple[Ints, Ints]:
    """Returns the values of the zigzag varints at the positions `at`, and the positions after the varints.

    For a position outside the buffer, the nearest byte is read. If a varint does not end within `max_size` bytes, its
    value is outside every valid range. The caller must check that all values are in their valid ranges. This check
    finds both errors.
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
    else:
        # Most varints have two bytes. So the second byte of every row is read, and used only if the varint has it.
        second = buffer.take(at + 1, mode="clip")
        value |= np.where(more, (second & _LOW).astype(np.int64) << 7, 0)
        end = at + 1 + more
        rows = np.flatnonzero(more & (second > _LOW))
    return _unzigzag(_finish(buffer, at, value, end, rows, max_size)), end


def _finish(buffer: Bytes, at: Ints, value: Ints, end: Ints, rows: Ints, max_size: int) -> Ints:
    """Reads the other bytes of the varints whose numbers are in `rows`. Each of these varints has more than one byte.
    Changes `value` and `end` in place.
    """
    size = int(end[rows[0]] - at[rows[0]]) if len(rows) else 0
    while len(rows):
        if size == max_size:
            value[rows] = -1  # decodes to the lowest integer, so every later check refuses it
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
    """Returns the starts and ends of all records, in the order of the batches. Also returns the number of the first
    corrupt batch, or -1 if no batch is corrupt.

    In `buffer`, the records of batch number i begin at `begins[i]` and end at `ends[i]`. `counts[i]` is the number of
    these records (> 0).
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
    """The number of the first batch whose records have invalid sizes or do not fill the batch exactly. -1 if all
    batches are valid."""
    wrong = position != ends
    short = np.flatnonzero(record_ends - starts < MIN_RECORD_SIZE)
    if len(short):
        wrong = wrong.copy()
        wrong[np.searchsorted(np.cumsum(counts), short, side="right")] = True
    rows = np.flatnonzero(wrong)
    return int(rows[0]) if len(rows) else -1


def _runs(buffer: Bytes, starts: Ints, firsts: Ints, position: Ints, counts: Ints, done: Ints) -> None:
    """Finds runs of records of equal size in all batches at once. Stops when the runs become short."""
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
        records = int(length_of_run.sum())
        if len(misses) and records < max(SHORT_RUN * len(batches), SHORT_ROUND):
            return
        window = max(FIRST_WINDOW, 4 * records // len(batches)) if len(misses) else LATER_WINDOW
        batches = batches[done[batches] < counts[batches]]


def _spells(buffer: Bytes, guesses: Ints, at: Ints, length_size: Ints, ahead: Ints) -> Bools:
    """Whether each guessed start is right: the varint at this position must be equal to the length varint of the first
    record of the run."""
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
    """Moves to the next record in all batches, one record at a time. The batches are sorted by length, the longest
    first. So the unfinished batches are always at the front."""
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
        at, positions = int(position[batch]), []
        for _ in range(int(counts[batch] - done[batch])):
            positions.append(at)
            if not 0 <= at <= last:
                at = _careful_step(view, at)
                continue
            byte = view[at]
            if not byte & 0x81:  # the varint has one byte and is not negative (negative varints are odd)
                at += (byte >> 1) + 1
                continue
            high = view[at + 1]
            if high < 0x80 and not byte & 1:
                at += ((byte & 0x7F | high << 7) >> 1) + 2
            else:
                at = _careful_step(view, at)
        slot = int(firsts[batch] + done[batch])
        starts[slot : slot + len(positions)] = positions
        position[batch] = at
        done[batch] = counts[batch]


def _careful_step(view: memoryview, at: int) -> int:
    """The start of the next record after `at`. If no length can be read, returns `at` itself. `_check_chain` then
    refuses the batch."""
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
