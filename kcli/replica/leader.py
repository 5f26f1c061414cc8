"""What the leader of one partition decides: how far records are committed, and whether it may take new ones.

The high watermark is the smallest log end of the in-sync replicas; it never goes back on a leader, and it stands still
while fewer replicas are in sync than min.insync.replicas asks for (KIP-966). On a single node the leader is its own
only in-sync replica, and every append is committed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(slots=True)
class Follower:
    """How far one follower is, as its last fetch said: it holds everything below `log_end_offset`."""

    log_start_offset: int = -1
    log_end_offset: int = -1


class LeaderState:
    """One term of leadership. A new leader epoch makes a new state; the high watermark lives in the log."""

    __slots__ = ("followers", "isr", "leader_epoch", "min_insync_replicas", "node_id", "replicas")

    def __init__(
        self,
        *,
        node_id: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        leader_epoch: int,
        min_insync_replicas: int,
    ) -> None:
        assert node_id in replicas, f"node {node_id} cannot lead a partition on {replicas}"
        self.node_id = node_id
        self.replicas = replicas
        self.isr = isr
        self.leader_epoch = leader_epoch
        self.min_insync_replicas = min_insync_replicas
        self.followers = {replica: Follower() for replica in replicas if replica != node_id}

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, but never more than there are replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def has_enough_replicas(self) -> bool:
        return len(self.isr) >= self.effective_min_isr

    def follower_fetched(self, replica: int, *, log_start_offset: int, log_end_offset: int) -> None:
        """A follower asks for records from `log_end_offset` on: it has what is below."""
        follower = self.followers[replica]
        follower.log_start_offset = log_start_offset
        follower.log_end_offset = log_end_offset

    def high_watermark(self, current: int, log_end_offset: int) -> int:
        """Where the high watermark belongs now, given where it is and where the leader's own log ends."""
        if len(self.isr) == 1:
            return log_end_offset if self.has_enough_replicas and log_end_offset > current else current
        if not self.has_enough_replicas:
            return current
        slowest = min(
            (follower.log_end_offset for replica, follower in self.followers.items() if replica in self.isr),
            default=log_end_offset,
        )
        return max(current, min(slowest, log_end_offset))


class CommitQueue:
    """Who waits for which offset to be committed, nearest first."""

    __slots__ = ("_arrivals", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def wait_for(self, offset: int, callback: Callable[[], None]) -> None:
        """Calls back once the high watermark is at `offset` or beyond, or the leadership has ended."""
        self._arrivals += 1
        heappush(self._heap, (offset, self._arrivals, callback))

    def advance(self, high_watermark: int) -> None:
        while self._heap and self._heap[0][0] <= high_watermark:
            heappop(self._heap)[2]()

    def release_all(self) -> None:
        waiting, self._heap = self._heap, []
        for _, _, callback in sorted(waiting, key=lambda entry: entry[:2]):
            callback()
