"""Counts and times of the quorum and of the controller, for their metrics."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from kcli.metadata.delta import MetadataDelta, PartitionDiff
from kcli.metadata.image import MetadataImage, PartitionImage
from kcli.model.ids import NO_LEADER
from kcli.model.observations import Observations

DIFFS_PER_TURN = 2_000
"""Changed partitions that are counted in one iteration of the event loop. A partition takes half a microsecond."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class ControllerCounts:
    """The work of the controller role since the start of the node. An operation is a decision of the controller."""

    operations_started: int = 0
    operations_timed_out: int = 0
    timed_out_heartbeats: int = 0


@dataclass(frozen=True, slots=True)
class ControllerTimes:
    """The times of decisions in milliseconds: how long requests waited for a decision, and how long the decision
    took."""

    queued_ms: Observations = field(default_factory=Observations)
    processed_ms: Observations = field(default_factory=Observations)


@dataclass(slots=True, eq=False, weakref_slot=True)
class RaftCounts:
    """The number of records that this node has appended to the metadata log as the leader, and the number of records
    that this node has fetched from other leaders.

    `new_leaders` is the number of leaders that this node has seen. `idle_ns` is the time for which the raft node had
    nothing to do.
    """

    appended_records: int = 0
    fetched_records: int = 0
    new_leaders: int = 0
    idle_ns: int = 0


@dataclass(frozen=True, slots=True)
class RaftTimes:
    """Times in milliseconds: from an append of the leader to its commit, and from the loss of a leader to the next
    leader.
    """

    commit_ms: Observations = field(default_factory=Observations)
    election_ms: Observations = field(default_factory=Observations)


@dataclass(frozen=True, slots=True)
class LoaderTimes:
    """Observations of committed batches: the number of records in a batch, and the time (in µs) for which the listeners
    of the metadata worked on the batch.
    """

    batch_us: Observations = field(default_factory=Observations)
    batch_records: Observations = field(default_factory=Observations)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Elections:
    """Elections of partition leaders since the start of the node."""

    unclean: int = 0
    from_eligible: int = 0


class PartitionCounts:
    """The partitions of the cluster, counted at each change of the metadata."""

    def __init__(self) -> None:
        self.partitions = 0
        self.leaderless = 0
        self.not_preferred = 0
        self.elections = Elections()
        self._waiting: deque[Iterator[PartitionDiff]] = deque()

    def apply(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        """Counts a change. The `MetadataLoader` calls this method, also while it loads the metadata."""
        self._waiting.append(delta.partitions_changed())
        if len(self._waiting) == 1:
            self._turn()

    def _turn(self) -> None:
        left = DIFFS_PER_TURN
        while self._waiting:
            part = list(islice(self._waiting[0], left))
            for diff in part:
                self._count(diff)
            left -= len(part)
            if left <= 0:
                asyncio.get_running_loop().call_soon(self._turn)
                return
            self._waiting.popleft()

    def _count(self, diff: PartitionDiff) -> None:
        before, after = diff.before, diff.after
        if before is not None:
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)
        if before is not None and after is not None and after.leader not in (before.leader, NO_LEADER):
            self._count_election(before, after)

    def _add(self, partition: PartitionImage, sign: int) -> None:
        self.partitions += sign
        self.leaderless += sign * (partition.leader == NO_LEADER)
        self.not_preferred += sign * (partition.leader != partition.replicas[0])

    def _count_election(self, before: PartitionImage, after: PartitionImage) -> None:
        """Counts a new leader that was not in the ISR (KIP-966). The ISR before the change is checked, because such an
        election also puts the new leader into the ISR."""
        if after.leader in before.elr:
            self.elections.from_eligible += 1
        elif after.leader not in before.isr:
            self.elections.unclean += 1
