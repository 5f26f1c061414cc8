"""Watches one group with members in a simulated cluster, through every change of its coordinator.

The watch gives the committed records of `__consumer_offsets` to a `GroupLedger`, which checks promises about groups.
The watch compares the answers that members get with these records, and checks these promises too:

* an answered commit of offsets is in the committed log. A coordinator that leads the partition of the group in its
  newest leader epoch returns no older offset, and no broker returns an offset that no member has sent;
* an answer gives a member only partitions that the committed log has given to this member in this generation or epoch;
* in a consumer group, the log takes a partition from a member only after the member has stopped to use it, or after the
  member was removed;
* members have read every record before an offset that they commit.

After a loss of records (`ReplicationWatch.lost_records`), the watch reads the committed records again. From then on,
offsets may be lower than before, and members begin at any of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator
from typing import Protocol

from kcli.coordinator.hashing import partition_for
from kcli.model.ids import NO_LEADER
from kcli.model.topic_names import GROUP_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from kcli.protocol.records.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from kcli.protocol.records.consumer_protocol import assigned_partitions
from kcli.storage.log.log import PartitionLog
from simulation.checks.group_ledger import GroupLedger, group_of
from simulation.checks.partition import Partition
from simulation.checks.replica_log import read_batches
from simulation.checks.replication_watch import ReplicationWatch


class GroupMember(Protocol):
    """A member as the watch sees it."""

    @property
    def member_id(self) -> str: ...

    @property
    def identity(self) -> str:
        """The instance id of a static member, or the member id."""

    @property
    def owned(self) -> dict[TopicPartition, int]: ...


class GroupWatch:
    """The committed state of one group, and what its members have sent and read. Call `check` after
    `ReplicationWatch.check`."""

    def __init__(self, watch: ReplicationWatch, group: str, *, sparse: Container[str] = ()) -> None:
        """`sparse` are the topics from which retention or compaction may remove records before a member reads them."""
        self.group = group
        self.members: list[GroupMember] = []
        self.coordinator_changes = 0
        """The number of changes of the coordinator while a member owned partitions."""
        self.records_read = 0
        self.commits = 0
        """The number of committed offsets."""
        self._watch = watch
        self._records = GroupLedger()
        self._sparse = sparse
        self._losses = 0
        self._read_to = 0
        """The offset before which the watch has read the committed records of the group's partition."""
        self._leader: int = NO_LEADER
        self._leader_epoch = -1
        self._coordinator = (NO_LEADER, 0)
        """The leader of the group's partition at the moment, and its life."""
        self.coordinator_life = 0
        """A number that grows when another broker, or a new process, becomes the coordinator."""
        self.coordinator_began_s = 0.0
        """The time at which `coordinator_life` has grown."""
        self._positions: dict[TopicPartition, int] = {}
        """The offset before which members have read every record of a partition."""
        self._sent: dict[TopicPartition, int] = {}
        """The highest offset that a member has sent."""
        self._committed: set[tuple[TopicPartition, int]] = set()
        """All offsets that were ever committed."""
        self._given: dict[tuple[int, int, str], set[TopicPartition]] = {}
        """The partitions that the log gives to a member, by era, generation or epoch, and member id."""
        self._owners: dict[tuple[int, int, TopicPartition], str] = {}

    # After every turn.

    def check(self) -> None:
        """Reads the new committed records of the group's partition of `__consumer_offsets`."""
        partition = self._home
        if partition is None:
            return
        self._notice_coordinator(partition)
        if self._losses != self._watch.losses:
            self._losses = self._watch.losses
            self._forget()
        if partition.end > self._read_to:
            log = _complete_log(partition)
            if log is not None:
                is_again = self._losses > 0 and self._read_to == 0
                for record in self._news(log, partition.end):
                    self._take(record, is_again=is_again)
                self._read_to = partition.end

    def _forget(self) -> None:
        """Forgets what the committed log said. What members have sent and read stays."""
        self._records.forget()
        self._records.unanswered.clear()
        self._committed.clear()
        self._given.clear()
        self._owners.clear()
        self._read_to = 0

    @property
    def _home(self) -> Partition | None:
        """The partition of `__consumer_offsets` with the records of the group."""
        topic = self._watch.image.topics.topic(GROUP_METADATA_TOPIC)
        if topic is None:
            return None
        number = partition_for(self.group, len(topic.partitions))
        return self._watch.partitions[TopicPartition(GROUP_METADATA_TOPIC, number)]

    def _notice_coordinator(self, partition: Partition) -> None:
        image = partition.image
        if image is None:
            return
        life = self._watch.life_of(image.leader)
        if (image.leader, life) != self._coordinator or image.leader_epoch > self._leader_epoch + 1:
            self.coordinator_life += 1
            self.coordinator_began_s = asyncio.get_running_loop().time()
        self._coordinator, self._leader_epoch = (image.leader, life), image.leader_epoch
        if image.leader not in (NO_LEADER, self._leader):
            self.coordinator_changes += self._leader != NO_LEADER and any(each.owned for each in self.members)
            self._leader = image.leader

    def _news(self, log: PartitionLog, end: int) -> Iterator[Record]:
        for header, records in read_batches(log, self._read_to, end):
            is_dense = [each.offset for each in records] == list(
                range(header.base_offset, header.next_offset)
            )
            assert is_dense or GROUP_METADATA_TOPIC in self._sparse, f"{log}: the batch {header} is not dense"
            if not header.is_control:
                yield from records

    def _take(self, record: Record, *, is_again: bool) -> None:
        assert record.key is not None, "every record of a coordinator has a key"
        key = decode_key(record.key)
        if group_of(key) != self.group:
            return
        self._records.take(record, again=is_again, losses=self._losses)
        value = None if record.value is None else decode_value(key, record.value)[0]
        match value:
            case OffsetCommitValue():
                assert isinstance(key, OffsetCommitKey), "the key of an offset"
                self._committed.add((TopicPartition(key.topic, key.partition), value.offset))
                self.commits += 1
            case GroupMetadataValue():
                for member in value.members:
                    self._give(value.generation, member.member_id, assigned_partitions(member.assignment))
            case ConsumerGroupCurrentMemberAssignmentValue():
                assert isinstance(key, ConsumerGroupCurrentMemberAssignmentKey), "the key of a member"
                self._take_assignment(key.member_id, value, is_again=is_again)

    def _take_assignment(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue, *, is_again: bool
    ) -> None:
        assigned = self._named(value.assigned_partitions)
        self._give(value.member_epoch, member_id, assigned)
        kept = {*assigned, *self._named(value.partitions_pending_revocation)}
        for member in self.members:
            if member.member_id == member_id and not is_again:
                taken = [each for each in member.owned if each not in kept]
                assert not taken, (
                    f"{member.identity} still uses {taken}, which the coordinator has taken away"
                )

    def _named(self, listed: Iterable[CurrentTopicPartitions]) -> list[TopicPartition]:
        topics = self._watch.image.topics
        return [
            TopicPartition(topic.name, number)
            for each in listed
            if (topic := topics.topic_by_id(each.topic_id)) is not None
            for number in each.partitions
        ]

    def _give(self, generation: int, member_id: str, partitions: Iterable[TopicPartition]) -> None:
        self._given.setdefault((self._era, generation, member_id), set()).update(partitions)

    @property
    def _era(self) -> int:
        return self._records.eras.get(self.group, 0)

    # Questions.

    @property
    def generation(self) -> int:
        """The newest committed generation or epoch of the group. −1 if the group never had a member."""
        return self._records.generation(self.group)

    def is_served_by(self, broker: int) -> bool:
        """Whether a broker leads the group's partition, and knows that it does so in the newest leader epoch.

        A former coordinator that is cut off from the controller may answer with old offsets and old members, as in
        Kafka. It can commit nothing.
        """
        home = self._home
        return home is not None and self._watch.is_led_by(home, broker)

    def committed_offset(self, group: str, partition: TopicPartition) -> int:
        """The committed offset. −1 if the group has no committed offset for the partition."""
        return self._records.committed_offset(group, *partition)

    def has_member(self, group: str, member_id: str, epoch: int | None = None) -> bool:
        """Whether the committed log has a member, and if `epoch` is given, whether the member is in this epoch."""
        return self._records.has_member(group, member_id, epoch)

    # Reports of members and of their links.

    def owns(self, group: str, generation: int, member: str, partitions: Iterable[TopicPartition]) -> None:
        """Checks an assignment that a member has received."""
        member_id = next(each.member_id for each in self.members if each.identity == member)
        given = self._given.get((self._era, generation, member_id), set())
        for partition in partitions:
            assert partition in given, (
                f"{member} got {partition} in {generation} of {group}, the committed log gives it {sorted(given)}"
            )
            owner = self._owners.setdefault((self._era, generation, partition), member)
            assert owner == member, f"{owner} and {member} both own {partition} in generation {generation}"

    def read(self, partition: TopicPartition, offset: int) -> None:
        """A member has read the record at `offset`."""
        position = self._positions.get(partition, 0)
        assert offset <= position or self._may_skip(partition), (
            f"{self.group}: no member has read {partition} from {position} to {offset}"
        )
        self._positions[partition] = max(position, offset + 1)
        self.records_read += 1

    def _may_skip(self, partition: TopicPartition) -> bool:
        return self._losses > 0 or partition.topic in self._sparse

    def commit_sent(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        for partition, offset in offsets:
            position = self._positions.get(partition, 0)
            assert offset <= position or self._may_skip(partition), (
                f"{self.group}: {offset} of {partition} is sent, members have read up to {position}"
            )
            self._sent[partition] = max(offset, self._sent.get(partition, -1))
            self._records.unanswered[self.group, *partition, offset] += 1

    def commit_answered(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        for partition, offset in offsets:
            self._records.unanswered[self.group, *partition, offset] -= 1

    def commit_acknowledged(self, group: str, partition: TopicPartition, offset: int) -> None:
        """A member has got the answer that its commit has succeeded."""
        assert (partition, offset) in self._committed, (
            f"{group}: the commit of {offset} for {partition} is acknowledged, it is not in the committed log"
        )

    def offset_fetched(self, partition: TopicPartition, offset: int) -> None:
        sent = self._sent.get(partition, -1)
        assert offset <= sent, (
            f"{self.group}: {offset} of {partition} is fetched, {sent} was the highest sent"
        )


def _complete_log(partition: Partition) -> PartitionLog | None:
    """A log of a running broker that has all committed records. None if all such brokers are down."""
    for replica in partition.replicas.values():
        if replica.log is None or replica.log.directory.error is not None:
            continue
        if replica.batches.end >= partition.end and replica.batches.before(partition.end) == partition.last:
            return replica.log
    return None
