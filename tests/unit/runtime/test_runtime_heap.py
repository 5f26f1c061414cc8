"""The heap gives free memory back after the process has grown or shrunk, and is left alone otherwise."""

from __future__ import annotations

from kcli.runtime.heap import WORTH_BYTES, Heap
from kcli.runtime.process import resident_bytes

BASE = 50 << 20
BUFFERS, BUFFER_BYTES = 500, 1 << 16


class Process:
    """A process whose trims give back everything above `used` bytes."""

    def __init__(self) -> None:
        self.resident = BASE
        self.used = BASE
        self.trims = 0
        self.heap = Heap(resident_bytes=lambda: self.resident, trim=self.trim)
        self.heap.trim_if_changed()

    def trim(self) -> None:
        self.trims += 1
        self.resident = self.used


def test_a_process_that_has_grown_gives_free_memory_back_once() -> None:
    process = Process()
    process.resident += WORTH_BYTES
    process.heap.trim_if_changed()
    assert (process.trims, process.resident) == (2, BASE)
    process.heap.trim_if_changed()
    assert process.trims == 2


def test_a_process_that_has_shrunk_gives_free_memory_back_once() -> None:
    process = Process()
    process.used = BASE - 2 * WORTH_BYTES
    process.resident = BASE - WORTH_BYTES  # large objects outside the heap were freed
    process.heap.trim_if_changed()
    assert (process.trims, process.resident) == (2, process.used)
    process.heap.trim_if_changed()
    assert process.trims == 2


def test_a_small_growth_is_not_worth_a_trim() -> None:
    process = Process()
    process.resident += WORTH_BYTES - 1
    process.heap.trim_if_changed()
    assert process.trims == 1


def test_a_process_that_needs_more_memory_does_not_trim_again_and_again() -> None:
    process = Process()
    process.resident = process.used = 2 * BASE
    for _ in range(3):
        process.heap.trim_if_changed()
    assert process.trims == 2


def test_freed_buffers_below_a_used_one_are_given_back() -> None:
    buffers = [b"x" * BUFFER_BYTES for _ in range(BUFFERS)]
    del buffers[:-1]  # the last buffer keeps the C library from giving the others back by itself
    before = resident_bytes()
    Heap().trim_if_changed()
    assert len(buffers) == 1
    assert before - resident_bytes() > BUFFERS * BUFFER_BYTES // 2
