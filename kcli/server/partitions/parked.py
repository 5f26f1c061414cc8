"""Produce and Fetch requests that wait before they are answered ("parked"). kcli/replica decides when the wait ends."""

from __future__ import annotations

import asyncio
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
    """One Fetch request that waits. The future `ended` is done when the wait ends, unless the request is cancelled."""

    __slots__ = ("_changed", "_lists", "_measure", "_reads_uncommitted", "_wait", "ended", "finished")

    def __init__(
        self,
        wait: FetchWait,
        *,
        measure: Callable[[Iterable[FetchTarget]], int],
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
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
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
        """Ends the wait, because the time is over, enough bytes are readable, or a partition has another leader."""
        if not self.finished:
            self.cancel()
            if not self.ended.done():
                self.ended.set_result(None)

    def cancel(self) -> None:
        """Removes the request from the lists of its partitions. No answer is sent if the client has disconnected."""
        if self.finished:
            return
        self.finished = True
        for parked in self._lists:
            parked.pop(self, None)
        self._lists = []
        del self._measure  # It refers to the request, which refers to this wait.


class ParkedRequest:
    """A request that waits for several partitions: a Produce request until its records are committed, or a
    DeleteRecords request until all replicas have deleted the records."""

    __slots__ = ("_ended", "_wait")

    def __init__(self, wait: ProduceWait) -> None:
        self._wait = wait
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def committed(self) -> None:
        """Counts one more partition for which the request need not wait."""
        if self._wait.committed():
            self._end()

    async def wait(self, timeout_ms: int) -> None:
        """Returns when all partitions are counted, or after the timeout."""
        timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._end)
        try:
            await self._ended
        finally:
            timer.cancel()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
