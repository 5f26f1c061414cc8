"""The lag of one group: its partitions, its members, and sums for the group and for each topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcli.lag.burrow import Status
from kcli.lag.partition_lag import PartitionLag, Reader
from kcli.lag.sentences import explain, explain_group
from kcli.model.pace import Pace
from kcli.model.topic_partition import TopicPartition

PARTITION_COST = 20
"""The cost to handle a partition of a group or of a member, in microseconds."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, and the partitions that it reads."""

    member_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(slots=True)
class TopicSums:
    """The sums over the partitions of one topic in a group. `lag` is the sum of the known lags."""

    committed: int = 0
    lag: int = 0
    known: int = 0
    unknown: int = 0
    """The number of partitions with an unknown lag. `known` is the number of the other partitions."""
    members: int = 0
    assigned_partitions: int = 0

    @property
    def is_unknown(self) -> bool:
        """Whether all lags are unknown. False if there are no lags."""
        return self.unknown > 0 and not self.known


@dataclass(slots=True)
class GroupLag:
    """The lag of a group. The caller adds members and partitions one by one. So the caller can pause while it adds the
    partitions of a large group."""

    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    commits: int = 0
    """The number of offsets that were committed since the coordinator began to count. A commit for two partitions
    counts as two."""
    members: int = 0
    idle_members: int = 0
    """The number of members without partitions."""
    status: Status = Status.OK
    lag: int = 0
    """The sum of the known lags of its partitions."""
    lag_seconds: float | None = None
    """The largest lag in seconds of its partitions, or None if no lag is known."""
    is_at_least: bool = False
    """Whether the largest lag in seconds may be longer than `lag_seconds`."""
    partitions: dict[TopicPartition, PartitionLag] = field(default_factory=dict)
    readers: dict[TopicPartition, Reader] = field(default_factory=dict)
    topics: dict[str, TopicSums] = field(default_factory=dict)

    async def add_member(self, member: Member, name: str, pace: Pace) -> None:
        """Adds a member. `name` is the name for sentences (see `member_names`)."""
        self.members += 1
        self.idle_members += not member.assignment
        reader = Reader(name, member.host)
        topics = set()
        for partition in member.assignment:
            await pace(PARTITION_COST)
            self.readers[partition] = reader
            sums = self._sums(partition.topic)
            sums.assigned_partitions += 1
            if partition.topic not in topics:
                topics.add(partition.topic)
                sums.members += 1

    def add_partition(self, partition: TopicPartition, lag: PartitionLag) -> None:
        """Adds a partition for which the group has committed an offset."""
        self.partitions[partition] = lag
        self.status = max(self.status, lag.status)
        sums = self._sums(partition.topic)
        sums.committed += lag.committed
        if lag.lag is None:
            sums.unknown += 1
        else:
            sums.known += 1
            sums.lag += lag.lag
            self.lag += lag.lag
        if lag.lag_seconds is not None and lag.lag_seconds >= (self.lag_seconds or 0.0):
            self.lag_seconds, self.is_at_least = lag.lag_seconds, lag.is_at_least

    @property
    def unknown_partitions(self) -> int:
        """The number of partitions whose lag is unknown."""
        return sum(topic.unknown for topic in self.topics.values())

    @property
    def is_unknown(self) -> bool:
        """Whether the group has committed offsets, but all of its lags are unknown."""
        sums = self.topics.values()
        return any(topic_sums.unknown for topic_sums in sums) and not any(
            topic_sums.known for topic_sums in sums
        )

    def _sums(self, topic: str) -> TopicSums:
        return self.topics.setdefault(topic, TopicSums())

    def sentence(self, partition: TopicPartition) -> str:
        """Returns the sentence about a partition. The group must have committed an offset for this partition."""
        return explain(self.partitions[partition], str(partition), self.readers.get(partition))

    def explanation(self) -> str:
        """Returns the sentence about the group, or an empty text if every partition is OK."""
        bad = [partition for partition, lag in self.partitions.items() if lag.status is not Status.OK]
        return explain_group(
            [(self.partitions[partition].status, self.sentence(partition)) for partition in bad]
        )


def member_names(members: Iterable[Member]) -> list[str]:
    """Returns a name for each member: its client id if no other member has the same, else its member id."""
    listed = list(members)
    counts = Counter(member.client_id for member in listed)
    return [
        member.client_id if member.client_id and counts[member.client_id] == 1 else member.member_id
        for member in listed
    ]
