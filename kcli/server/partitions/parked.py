"""Produce and fetch requests that wait for their answer (parked). kcli/replica decides when they are due."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcli.replica.waiting import FetchWait, ProduceWait


class ParkedFetch:
    """One fetch that waits. `done` is called once, for any reason that ends the wait."""

    __slots__ = ("_done", "_lists", "_measure", "finished", "wait")

    def __init__(self, wait: FetchWait, *, measure: Callable[[], int], done: Callable[[], None]) -> None:
        """Makes a fetch that waits. `measure()` returns the bytes that the fetch would get now. If any partition has an
        error, it must return at least min_bytes."""
        self.wait = wait
        self.finished = False
        self._measure = measure
        self._done = done
        self._lists: tuple[dict[ParkedFetch, None], ...] = ()

    def park(self, lists: Iterable[dict[ParkedFetch, None]]) -> None:
        """Adds this fetch to the lists of waiting fetches of its partitions."""
        self._lists = tuple(lists)
        for parked in self._lists:
            parked[self] = None

    def look(self) -> None:
        """Measures the readable bytes, and ends the wait if they are enough."""
        if not self.finished and self.wait.measured(self._measure()):
            self.finish()

    def finish(self) -> None:
        """Ends the wait, because the time is over, the bytes are enough, or a partition has another leader."""
        if not self.finished:
            self.cancel()
            self._done()

    def cancel(self) -> None:
        """Ends the wait without an answer, because the client has disconnected."""
        self.finished = True
        for parked in self._lists:
            parked.pop(self, None)
        self._lists = ()


class ParkedProduce:
    """One produce that waits until its records are committed in all partitions. `done` is called once."""

    __slots__ = ("_done", "_wait", "finished")

    def __init__(self, wait: ProduceWait, done: Callable[[], None]) -> None:
        self._wait = wait
        self._done = done
        self.finished = False

    def committed(self) -> None:
        """Counts one more partition in which the records are committed."""
        if self._wait.committed():
            self.finish()

    def finish(self) -> None:
        if not self.finished:
            self.finished = True
            self._done()
