"""Produce and Fetch requests that wait before they are answered ("parked"). kcli/replica decides when the wait ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kcli.replica.waiting import FetchWait, ProduceWait
from kcli.server.partitions.fetch_targets import FetchTarget


class FetchWaiter(Protocol):
    """Waits for changes of partitions: a parked fetch, or a fetch session with unchanged partitions."""

    def changed(self, partition: ParkedFetches, size_bytes: int, *, measure: bool) -> None:
        """Counts `size_bytes` that were appended to a partition.

        `measure` is True if the client may now read older bytes of the partition. `size_bytes` does not include these
        bytes.
        """
        ...

    def finish(self) -> None:
        """Ends the wait, because a partition has another leader or was removed."""
        ...


ParkedFetches = dict[FetchWaiter, FetchTarget]
"""The fetches and sessions that wait for changes of one partition, each with its target for this partition."""


def measure_again(partition: ParkedFetches) -> None:
    """Makes all waiting requests measure the readable bytes of a partition again, because the partition has changed
    without an append.
    """
    for waiter in list(partition):
        waiter.changed(partition, 0, measure=True)


class ParkedFetch:
    """One Fetch request that waits. `done` is called once when the wait ends, unless the request is cancelled."""

    __slots__ = ("_changed", "_done", "_lists", "_measure", "_reads_uncommitted", "_wait", "finished")

    def __init__(
        self,
        wait: FetchWait,
        *,
        measure: Callable[[Iterable[FetchTarget]], int],
        done: Callable[[], None],
        reads_uncommitted: bool = False,
    ) -> None:
        """Makes a waiting fetch. `measure` gets the targets whose partitions changed, and returns the bytes that the
        fetch would get now.

        If a partition has an error, `measure` returns min_bytes or more, so that the wait ends. `reads_uncommitted` is
        True for a follower. A follower reads records before they are committed, so a commit does not end the follower's
        wait.
        """
        self._wait = wait
        self._changed: dict[FetchTarget, None] = {}
        self.finished = False
        self._measure = measure
        self._done = done
        self._reads_uncommitted = reads_uncommitted
        self._lists: list[ParkedFetches] = []

    def park(self, partition: ParkedFetches, target: FetchTarget) -> None:
        """Adds this fetch to the list of a partition."""
        partition[self] = target
        self._lists.append(partition)

    def changed(self, partition: ParkedFetches, size_bytes: int, *, measure: bool) -> None:
        """If the fetch has enough bytes now, ends the wait."""
        if self.finished or (self._reads_uncommitted and not size_bytes):
            return
        self._changed[partition[self]] = None
        if self._wait.appended(size_bytes) or measure:
            self._measure_changed()

    def measure_again(self, target: FetchTarget) -> None:
        """Measures a partition that may have changed before this fetch was added to its list."""
        if not self.finished:
            self._changed[target] = None
            self._measure_changed()

    def _measure_changed(self) -> None:
        changed, self._changed = self._changed, {}
        if self._wait.measured(self._measure(changed)):
            self.finish()

    def finish(self) -> None:
        """Ends the wait and calls `done`, because the time is over, enough bytes are readable, or a partition has
        another leader.
        """
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
        self._lists = []
        del self._measure, self._done  # They refer to the request, which refers to this wait.


class ParkedProduce:
    """One Produce request that waits until its records are committed in all partitions. `done` is called once, when the
    wait ends.
    """

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
