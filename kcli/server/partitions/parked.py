"""Produces and fetches that wait for their answer. kcli/replica decides when they are due, and these answer once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcli.replica.waiting import FetchWait, ProduceWait


class ParkedFetch:
    """One fetch that waits. `done` is called once, for any reason that ends the wait."""

    __slots__ = ("_done", "_lists", "_measure", "finished", "wait")

    def __init__(self, wait: FetchWait, *, measure: Callable[[], int], done: Callable[[], None]) -> None:
        """`measure()` returns the bytes that the fetch would get now; min_bytes or more on any error."""
        self.wait = wait
        self.finished = False
        self._measure = measure
        self._done = done
        self._lists: tuple[dict[ParkedFetch, None], ...] = ()

    def park(self, lists: Iterable[dict[ParkedFetch, None]]) -> None:
        """Enters the lists of the partitions it reads."""
        self._lists = tuple(lists)
        for parked in self._lists:
            parked[self] = None

    def look(self) -> None:
        """Measures the bytes, and finishes if they are enough."""
        if not self.finished and self.wait.measured(self._measure()):
            self.finish()

    def finish(self) -> None:
        """Ends the wait: time is over, the bytes are enough, or a partition has another leader."""
        if not self.finished:
            self.cancel()
            self._done()

    def cancel(self) -> None:
        """Ends the wait without an answer, because the client is gone."""
        self.finished = True
        for parked in self._lists:
            parked.pop(self, None)
        self._lists = ()


class ParkedProduce:
    """One produce that waits until all its partitions have committed. `done` is called once."""

    __slots__ = ("_done", "_wait", "finished")

    def __init__(self, wait: ProduceWait, done: Callable[[], None]) -> None:
        self._wait = wait
        self._done = done
        self.finished = False

    def committed(self) -> None:
        """Counts one more partition that has reached its offset."""
        if self._wait.committed():
            self.finish()

    def finish(self) -> None:
        if not self.finished:
            self.finished = True
            self._done()
