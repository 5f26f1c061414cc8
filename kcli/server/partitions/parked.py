"""Produce and fetch requests that wait for their answer (parked). kcli/replica decides when the wait ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcli.replica.waiting import FetchWait, ProduceWait


class ParkedFetch:
    """One fetch that waits. `done` is called once when the wait ends, unless the fetch is cancelled."""

    __slots__ = ("_changed", "_done", "_lists", "_measure", "_reads_uncommitted", "_wait", "finished")

    def __init__(
        self,
        wait: FetchWait,
        *,
        measure: Callable[[Iterable[int]], int],
        done: Callable[[], None],
        reads_uncommitted: bool = False,
    ) -> None:
        """Makes a wait. `measure` gets the numbers of the partitions that changed, and returns the bytes that the fetch
        would get now.

        If a partition has an error, `measure` returns min_bytes or more. `reads_uncommitted` is True for a follower,
        which reads records before they are committed. So a commit gives a follower nothing to read.
        """
        self._reads_uncommitted = reads_uncommitted
        self._wait = wait
        self._changed: dict[int, None] = {}
        self.finished = False
        self._measure = measure
        self._done = done
        self._lists: tuple[ParkedFetches, ...] = ()

    def park(self, lists: Iterable[ParkedFetches]) -> None:
        """Adds this fetch to the lists of its partitions, with the number of each partition."""
        self._lists = tuple(lists)
        for number, parked in enumerate(self._lists):
            parked[self] = number

    def changed(self, partition: ParkedFetches, size_bytes: int, *, measure: bool) -> None:
        """Records that `size_bytes` were appended to a partition. If the fetch has enough bytes now, ends the wait.

        `measure` is True if older bytes of the partition became readable. The count of appended bytes does not include
        these bytes.
        """
        if self.finished or (self._reads_uncommitted and not size_bytes):
            return
        self._changed[partition[self]] = None
        if self._wait.appended(size_bytes) or measure:
            self._measure_changed()

    def measure_again(self, partition: ParkedFetches) -> None:
        """Measures a partition that may have changed before this fetch was added to its list."""
        if not self.finished:
            self._changed[partition[self]] = None
            self._measure_changed()

    def _measure_changed(self) -> None:
        changed, self._changed = self._changed, {}
        if self._wait.measured(self._measure(changed)):
            self.finish()

    def finish(self) -> None:
        """Ends the wait and calls `done`, because the time is over, the bytes are enough, or a partition has another
        leader."""
        if not self.finished:
            done = self._done
            self.cancel()
            done()

    def cancel(self) -> None:
        """Ends the wait without an answer, because the client has disconnected."""
        if self.finished:
            return
        self.finished = True
        for parked in self._lists:
            parked.pop(self, None)
        self._lists = ()
        del self._measure, self._done  # They refer to the request, which refers to this wait.


ParkedFetches = dict[ParkedFetch, int]
"""The fetches that wait for records of one partition. The value is the number of the partition in the fetch."""


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
