"""Requests that wait for a commit, for bytes or for several partitions, and the rules that decide when a wait ends.

For each waiting request, the caller registers an object, called the waiter. The functions return the waiters of the
requests that are due.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

from kcli.model.ids import Offset

Waiter = TypeVar("Waiter")


class Wait(Generic[Waiter]):
    """One waiting request in a `CommitQueue`. The waiter is None after the wait has ended or was dropped."""

    __slots__ = ("waiter",)

    def __init__(self, waiter: Waiter) -> None:
        self.waiter: Waiter | None = waiter

    def drop(self) -> None:
        """Ends the wait early, for example at the time limit of the request. The small entry of the wait stays in the
        queue until its offset is committed, but the request does not stay in memory."""
        self.waiter = None


class CommitQueue(Generic[Waiter]):
    """The waiting requests of one partition, ordered by the offsets that the high watermark must reach."""

    __slots__ = ("_arrivals", "_heap")

    def __init__(self) -> None:
        # If two offsets are equal, the number of the arrival decides. So waits are never compared.
        self._heap: list[tuple[int, int, Wait[Waiter]]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        """The number of entries, including dropped waits."""
        return len(self._heap)

    def wait_for(self, offset: Offset, waiter: Waiter) -> Wait[Waiter]:
        """Adds a waiter, which is due when the high watermark reaches `offset`. Waiters of the same offset are due in
        the order of their arrival."""
        self._arrivals += 1
        wait = Wait(waiter)
        heappush(self._heap, (offset, self._arrivals, wait))
        return wait

    def due(self, high_watermark: Offset) -> list[Waiter]:
        """Removes and returns the waiters that are due at this high watermark, lowest offset first."""
        heap, due = self._heap, []
        while heap and heap[0][0] <= high_watermark:
            waiter = heappop(heap)[2].waiter
            if waiter is not None:
                due.append(waiter)
        return due

    def end(self) -> list[Waiter]:
        """Removes and returns all waiters, lowest offset first, because this leader no longer leads."""
        waiting, self._heap = self._heap, []
        return [wait.waiter for _, _, wait in sorted(waiting) if wait.waiter is not None]


class FetchWait:
    """A Fetch request that waits for `min_bytes`. This object counts appended bytes, so that the caller seldom has to
    measure the readable bytes.

    The object keeps an upper bound of the readable bytes: the bytes that were readable at first, plus every later
    append. When this bound reaches `min_bytes`, the caller measures the true size. The true size can be smaller,
    because some records are not committed yet, and because each partition has a limit. So a thousand small appends cost
    only a thousand additions.
    """

    __slots__ = ("_size_bound", "min_bytes")

    def __init__(self, min_bytes: int, size_bytes: int) -> None:
        self.min_bytes = min_bytes
        self._size_bound = size_bytes

    def appended(self, size_bytes: int) -> bool:
        """Counts `size_bytes` that were appended to one of the partitions.

        Returns True if the fetch may be due. The caller must then measure the true size and call `measured`.
        """
        self._size_bound += size_bytes
        return self._size_bound >= self.min_bytes

    def measured(self, size_bytes: int) -> bool:
        """Takes the true size of the readable bytes. Returns True if the fetch is due."""
        self._size_bound = size_bytes
        return size_bytes >= self.min_bytes


class ProduceWait:
    """A Produce request that waits until its records are committed in all its partitions."""

    __slots__ = ("_missing",)

    def __init__(self, partitions: int) -> None:
        assert partitions > 0
        self._missing = partitions

    def committed(self) -> bool:
        """Counts one more partition whose records are committed. Returns True if it was the last partition."""
        self._missing -= 1
        return self._missing == 0
