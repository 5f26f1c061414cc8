"""Fetches and produces that wait: what they wait for, counted without asking the disk more than needed.

A parked fetch keeps an upper bound of the bytes it could be given: what was readable when it was parked plus every
append since. Only when that bound reaches min_bytes is the log asked for the true figure (read_committed readers and
cut partitions get less), so a thousand small appends cost a thousand additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class ParkedFetch:
    """One fetch that waits for `min_bytes`. `done` is called once, whatever the reason."""

    __slots__ = ("_done", "_lists", "_measure", "_size_bound", "finished", "min_bytes")

    def __init__(
        self, *, min_bytes: int, size_bytes: int, measure: Callable[[], int], done: Callable[[], None]
    ) -> None:
        """`size_bytes`: readable now. `measure()`: the exact figure later; min_bytes or more on any error."""
        self.min_bytes = min_bytes
        self.finished = False
        self._size_bound = size_bytes
        self._measure = measure
        self._done = done
        self._lists: tuple[dict[ParkedFetch, None], ...] = ()

    def park(self, lists: Iterable[dict[ParkedFetch, None]]) -> None:
        """Enters the lists of the partitions it reads."""
        self._lists = tuple(lists)
        for parked in self._lists:
            parked[self] = None

    def appended(self, size_bytes: int) -> None:
        """One of its partitions has `size_bytes` more that may be read."""
        self._size_bound += size_bytes
        if self._size_bound < self.min_bytes or self.finished:
            return
        self._size_bound = self._measure()
        if self._size_bound >= self.min_bytes:
            self.finish()

    def finish(self) -> None:
        """Time is over, there is enough, or a partition has changed hands."""
        if not self.finished:
            self.cancel()
            self._done()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.finished = True
        for parked in self._lists:
            parked.pop(self, None)
        self._lists = ()


class ParkedProduce:
    """One produce that waits until all its partitions have committed. `done` is called once."""

    __slots__ = ("_done", "_missing", "finished")

    def __init__(self, partitions: int, done: Callable[[], None]) -> None:
        assert partitions > 0
        self._missing = partitions
        self._done = done
        self.finished = False

    def committed(self) -> None:
        """One more of its partitions has reached the offset it waits for."""
        self._missing -= 1
        if self._missing == 0:
            self.finish()

    def finish(self) -> None:
        if not self.finished:
            self.finished = True
            self._done()
