"""Requests that wait: for a commit, for bytes, for several partitions. This room says which are due.

The caller gives each waiter a token and gets the token back when it is due. Nothing here calls back.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

from kcli.model.ids import Offset

Waiter = TypeVar("Waiter")


class CommitQueue(Generic[Waiter]):
    """The waiters of one partition, each with the offset that must be committed; nearest offset first."""

    __slots__ = ("_arrivals", "_heap")

    def __init__(self) -> None:
        # The number of the arrival keeps the order among equal offsets, and waiters are never compared.
        self._heap: list[tuple[int, int, Waiter]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def wait_for(self, offset: Offset, waiter: Waiter) -> None:
        """The waiter is due once the high watermark is at `offset` or beyond."""
        self._arrivals += 1
        heappush(self._heap, (offset, self._arrivals, waiter))

    def due(self, high_watermark: Offset) -> list[Waiter]:
        """Removes and returns the waiters whose offset is committed, in order."""
        heap, due = self._heap, []
        while heap and heap[0][0] <= high_watermark:
            due.append(heappop(heap)[2])
        return due

    def end(self) -> list[Waiter]:
        """Removes and returns all waiters, in order: the leadership is over."""
        waiting, self._heap = self._heap, []
        return [waiter for _, _, waiter in sorted(waiting, key=lambda entry: entry[:2])]


class FetchWait:
    """A fetch that waits for `min_bytes`, counted without asking the log more often than needed.

    It keeps an upper bound of the bytes it could be given: those readable at first, and every append since.
    The true size is measured only when the bound reaches `min_bytes`. It can be smaller, because readers of committed
    records, and partitions that are cut by a limit, get less. So a thousand small appends cost a thousand additions.
    """

    __slots__ = ("_size_bound", "min_bytes")

    def __init__(self, min_bytes: int, size_bytes: int) -> None:
        self.min_bytes = min_bytes
        self._size_bound = size_bytes

    def appended(self, size_bytes: int) -> bool:
        """One of its partitions has `size_bytes` more. True: it may be due, so `measured` is to be called."""
        self._size_bound += size_bytes
        return self._size_bound >= self.min_bytes

    def measured(self, size_bytes: int) -> bool:
        """Takes the true size. True: the fetch is due."""
        self._size_bound = size_bytes
        return size_bytes >= self.min_bytes


class ProduceWait:
    """A produce that waits until all its partitions have committed."""

    __slots__ = ("_missing",)

    def __init__(self, partitions: int) -> None:
        assert partitions > 0
        self._missing = partitions

    def committed(self) -> bool:
        """One more partition has reached its offset. True: it was the last one."""
        self._missing -= 1
        return self._missing == 0
