"""A partition and its replicas, as `ReplicationWatch` knows them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from kcli.metadata.image import PartitionImage
from kcli.model.ids import NO_LEADER
from kcli.model.topic_partition import TopicPartition
from kcli.storage.log.log import PartitionLog
from simulation.checks.replica_log import Latest, ReplicaBatch, ReplicaLog
from simulation.world.cluster import SimNode

Progress = tuple[int, int, int, int]
"""The end, the number of truncations, the high watermark and the start of a log."""


@dataclass(slots=True)
class Replica:
    """One replica, as `ReplicationWatch` read it last. `log` is None while the broker of the replica does not run."""

    batches: ReplicaLog
    log: PartitionLog | None = None
    progress: Progress | None = None
    epochs: list[tuple[int, int]] | None = None


@dataclass(slots=True)
class Partition:
    """The promises of one partition. The topic id distinguishes the topic from an earlier topic of the same name."""

    name: TopicPartition
    topic_id: uuid.UUID
    committed: ReplicaLog = field(default_factory=ReplicaLog)
    by_base: dict[int, ReplicaBatch] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    """The leader of each leader epoch."""
    high_watermarks: dict[int, int] = field(default_factory=dict)
    """The high watermark of the leader of each leader epoch."""
    matching: dict[tuple[int, int], tuple[ReplicaBatch, ReplicaBatch | None]] = field(default_factory=dict)
    """Each batch by leader epoch and offset, with the batch before it. The batch before is None if it is unknown."""
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    """The last committed sequence number by producer id and epoch."""
    image: PartitionImage | None = None
    replicas: dict[int, Replica] = field(default_factory=dict)
    losses: int = 0
    """The number of elections and losses of power that may have lost committed records."""
    latest: dict[bytes, Latest] = field(default_factory=dict)
    """The last committed record of each key of a compacted topic."""

    @property
    def end(self) -> int:
        return self.committed.end

    @property
    def log_start(self) -> int:
        """The largest log start offset of the replicas whose brokers run."""
        logs = (each.log for each in self.replicas.values())
        return max((log.log_start_offset for log in logs if log is not None), default=0)

    @property
    def last(self) -> ReplicaBatch | None:
        """The last committed batch."""
        return self.committed.before(self.end)


def directory_of(machine: SimNode, name: TopicPartition) -> str:
    """The log directory of a machine with the replica of a partition. The first directory if there is no replica."""
    directories = machine.log_dirs
    return next((each for each in directories if str(name) in machine.disk.directories(each)), directories[0])


def is_in_sync(image: PartitionImage | None) -> bool:
    if image is None or image.leader == NO_LEADER or image.adding or image.removing:
        return False
    return set(image.isr) == set(image.replicas)


def has_all_before(replica: ReplicaLog, end: int, last: ReplicaBatch | None) -> bool:
    """Whether a replica has all records before `end`, of which `last` is the last batch.

    The batches before `last` need no comparison, because logs with an equal batch match.
    """
    if replica.end < end:
        return False
    found = replica.before(end)
    return last is None or found == last or replica.start >= end


def text_of_end(replica: ReplicaLog, end: int) -> str:
    found = replica.before(end)
    return f"an end of {replica.end}" if found is None else str(found)
