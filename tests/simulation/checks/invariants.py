"""The ledger: the expected state of a cluster, stored outside the cluster and checked after every event.

The ledger reads each partition's records when they are committed, and clients report their answers to it. The ledger
checks these promises:

* committed records never change, offsets are dense, the high watermark never goes back between two starts of the
  broker;
* one offset per producer sequence, and no producer id twice;
* acknowledged and read records are committed, and exist after a crash. Records may be missing only after a loss of
  power, and only if not every append is flushed (`durable` is False). The existing records must still be correct;
* acknowledged topics and metadata survive everything; the epoch of a broker never goes back;
* a group's generation and its committed offsets never go back, and in a generation, only one member owns a partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.model.topic_names import GROUP_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import BatchHeader, Record
from simulation.checks.group_ledger import GroupLedger
from simulation.checks.replica_log import read_batches

if TYPE_CHECKING:
    from kcli.server.node import Node
    from kcli.server.partitions.leader_partition import LeaderPartition
    from kcli.server.roles.broker_role import BrokerRole

Sequence = tuple[int, int, int]
"""Producer id, producer epoch and sequence number."""
Content = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


@dataclass(slots=True)
class History:
    """The expected content of one partition."""

    topic_id: uuid.UUID | None
    records: dict[int, Content] = field(default_factory=dict)
    sequences: dict[Sequence, int] = field(default_factory=dict)
    end: int = 0
    """The offset up to which all committed records have been read."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """The first offset of the open transaction of each producer id."""

    def note_transaction(self, header: BatchHeader) -> None:
        if header.is_control:
            self.open_transactions.pop(header.producer_id, None)
        elif header.is_transactional:
            self.open_transactions.setdefault(header.producer_id, header.base_offset)

    @property
    def last_stable_offset(self) -> int:
        return min(self.open_transactions.values(), default=self.end)


@dataclass(slots=True)
class Topic:
    topic_id: uuid.UUID
    partitions: int
    may_be_deleted: bool = False
    """Whether a client has asked for the deletion. After the request, it is unknown whether the topic exists."""


class Ledger:
    """The expected state of a cluster.

    `watch` must be called after every iteration of the event loop. Clients and the code that crashes nodes report all
    other events.
    """

    def __init__(self, *, durable: bool) -> None:
        self.durable = durable
        """Whether every append is flushed before it is acknowledged."""
        self.losses = 0
        """The number of events that may have lost records.

        The ledger ignores answers on connections that are older than the last such event.
        """
        self.batches_seen = 0
        self.histories: dict[TopicPartition, History] = {}
        self.topics: dict[str, Topic] = {}
        self.deleted: dict[uuid.UUID, str] = {}
        self._producer_ids: dict[int, None] = {}
        self._owners: dict[tuple[str, int, int, TopicPartition], str] = {}
        self._groups = GroupLedger()
        # Commits that a broker acknowledged just before it died, in the same iteration of the event loop. The ledger
        # could not read them.
        self._promised: dict[tuple[str, str, int], int] = {}
        self._node: Node | None = None
        self._metadata_offset = -1
        self._broker_epoch = -1

    # Events of the cluster.

    def watch(self, node: Node | None) -> None:
        if node is None:
            self._node = None
            return
        if node is not self._node:
            self._begin_life(node)
            self._node = node
        offset = node.metadata.offset
        assert offset >= self._metadata_offset, f"metadata went back from {self._metadata_offset} to {offset}"
        self._metadata_offset = offset
        for leader in _broker(node).replicas:
            if leader.log.directory.error is not None:
                continue  # the broker no longer serves clients from this directory, and will end soon
            history = self.histories.get(TopicPartition(leader.topic, leader.partition))
            if history is None or leader.log.high_watermark != history.end:
                self._read_news(leader)

    def power_lost(self) -> None:
        """Forgets records that were not flushed, and the state of groups that depends on them."""
        if not self.durable:
            self.losses += 1
            self._owners.clear()
            self._promised.clear()

    def _read_news(self, leader: LeaderPartition) -> None:
        log = leader.log
        history = self._history(leader)
        high_watermark = log.high_watermark
        assert high_watermark >= history.end, (
            f"{leader}: high watermark {history.end} went to {high_watermark}"
        )
        for header, records in read_batches(log, history.end, high_watermark):
            assert header.base_offset == history.end, (
                f"{leader}: a batch begins at {header.base_offset}, the last one ended at {history.end}"
            )
            self._take_batch(leader, history, header, records)
            history.end = header.next_offset
            history.note_transaction(header)
        assert log.last_stable_offset == history.last_stable_offset, (
            f"{leader}: the last stable offset is {log.last_stable_offset}, open are {history.open_transactions}"
        )
        assert history.end == high_watermark, f"{leader}: {history.end} to {high_watermark} is not readable"

    def _history(self, leader: LeaderPartition) -> History:
        key = TopicPartition(leader.topic, leader.partition)
        history = self.histories.get(key)
        if history is None or history.topic_id != leader.log.topic_id:
            history = self.histories[key] = History(leader.log.topic_id)
        return history

    def _take_batch(
        self, leader: LeaderPartition, history: History, header: BatchHeader, records: list[Record]
    ) -> None:
        self.batches_seen += 1
        assert [record.offset for record in records] == list(range(header.base_offset, header.next_offset)), (
            f"{leader}: the offsets of the batch at {header.base_offset} are not dense"
        )
        for record in records:
            self._compare(leader, history, record)
            if header.producer_id >= 0 and not header.is_control:
                nth = record.offset - header.base_offset
                sequence = (header.producer_id, header.producer_epoch, header.base_sequence + nth)
                first = history.sequences.setdefault(sequence, record.offset)
                assert first == record.offset, (
                    f"{leader}: {sequence} is at {first} and again at {record.offset}"
                )
            if leader.topic == GROUP_METADATA_TOPIC and not header.is_control:
                self._groups.take(record, again=False, losses=self.losses)

    def _compare(self, leader: LeaderPartition, history: History, record: Record) -> None:
        content = (record.key, record.value)
        known = history.records.setdefault(record.offset, content)
        assert known == content, f"{leader}: offset {record.offset} was {known!r} and is {content!r}"

    # After a crash.

    def _begin_life(self, node: Node) -> None:
        """Compares the whole cluster with the expected content, after a start of the node."""
        epoch = _broker(node).lifecycle.epoch
        assert epoch > self._broker_epoch, f"broker epoch {epoch} follows {self._broker_epoch}"
        self._broker_epoch = epoch
        assert node.metadata.offset >= self._metadata_offset, (
            f"committed metadata is lost: {self._metadata_offset} was the last offset, now {node.metadata.offset}"
        )
        self.check_topics(node)
        if self.losses:
            self._groups.forget()
        for (topic, partition), history in list(self.histories.items()):
            leader = _broker(node).replicas.find(topic, partition)
            if leader is None or leader.log.topic_id != history.topic_id:
                # A partition is removed only if its topic is deleted. check_topics has already compared the topics.
                known = self.topics.get(topic)
                assert known is None or known.may_be_deleted or known.topic_id != history.topic_id, (
                    f"{topic}-{partition} is gone"
                )
                del self.histories[TopicPartition(topic, partition)]
            else:
                self._compare_partition(leader, history)
        for place, offset in self._promised.items():
            found = self._groups.committed_offset(*place)
            assert found >= offset, f"{place} was committed to {offset}, now it is {found}"
        self._promised.clear()

    def _compare_partition(self, leader: LeaderPartition, history: History) -> None:
        log = leader.log
        before = history.records
        found: dict[int, Content] = {}
        history.sequences = {}
        history.open_transactions = {}
        for header, records in read_batches(log, log.log_start_offset, log.log_end_offset):
            for record in records:
                known = before.get(record.offset)
                content = (record.key, record.value)
                # After a loss of records, the coordinators may have written other records at the lost offsets.
                replaced = self.losses and (header.is_control or leader.topic.startswith("__"))
                assert known is None or known == content or replaced, (
                    f"{leader}: offset {record.offset} was {known!r} before the crash and is {content!r}"
                )
                found[record.offset] = content
                if leader.topic == GROUP_METADATA_TOPIC:
                    self._groups.take(record, again=True, losses=self.losses)
                if header.producer_id >= 0 and not header.is_control:
                    nth = record.offset - header.base_offset
                    sequence = (header.producer_id, header.producer_epoch, header.base_sequence + nth)
                    assert sequence not in history.sequences, f"{leader}: {sequence} is there twice"
                    history.sequences[sequence] = record.offset
            history.note_transaction(header)
        history.end = log.high_watermark
        if self.losses:
            history.records = found
            return
        history.records = before | found
        lost = [offset for offset in before if offset not in found]
        if log.config.compact:
            lost = _not_superseded(lost, before)
        if log.config.retention_bytes >= 0:
            lost = [offset for offset in lost if offset >= log.log_start_offset]
        assert not lost, f"{leader}: lost {lost[:5]} of {len(before)}; the log ends at {log.log_end_offset}"

    def check_topics(self, node: Node) -> None:
        topics = node.metadata.topics
        for name, topic in self.topics.items():
            if topic.may_be_deleted:
                continue
            found = topics.topic(name)
            assert found is not None, f"topic {name} was created and is gone"
            assert found.topic_id == topic.topic_id, f"topic {name} has another id"
            assert len(found.partitions) >= topic.partitions, f"topic {name} has lost partitions"
        for topic_id, name in self.deleted.items():
            assert topics.topic_by_id(topic_id) is None, f"topic {name} was deleted and is back"

    # Reports of clients.

    def acknowledged(self, partition: TopicPartition, offset: int, content: Content, *, losses: int) -> None:
        """A client reports that it has read `content` at `offset`, or that this offset is the acknowledgement of its
        write.

        `losses` is the number of losses at the time when the client connected.
        """
        if losses != self.losses:
            return
        history = self.histories.get(partition)
        assert history is not None, (
            f"records of {partition} are acknowledged, but the ledger has not seen the partition"
        )
        if offset in history.records:
            known = history.records[offset]
            assert known == content, f"{partition} at {offset} is {known!r}, a client was told {content!r}"
            return
        # The broker died in the iteration of the event loop in which it answered. The ledger compares the answer when
        # the broker has started again.
        assert self._node is None, f"{partition} at {offset}: acknowledged but not committed"
        history.records[offset] = content

    def topic_created(self, name: str, topic_id: uuid.UUID, partitions: int) -> None:
        self.topics[name] = Topic(topic_id, partitions)

    def topic_grows(self, name: str, partitions: int) -> None:
        self.topics[name].partitions = max(self.topics[name].partitions, partitions)

    def topic_deleted(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.deleted[topic.topic_id] = name
        for key in [key for key in self.histories if key[0] == name]:
            del self.histories[key]

    def producer_id_given(self, producer_id: int) -> None:
        assert producer_id not in self._producer_ids, f"producer id {producer_id} was given twice"
        self._producer_ids[producer_id] = None

    def owns(
        self, group: str, generation: int, member: str, partitions: Iterable[TopicPartition], *, losses: int
    ) -> None:
        """A member reports that it has received its assignment.

        `losses` is the number of losses at the time when the member connected.
        """
        if losses != self.losses:
            return
        era = self._groups.eras.get(group, 0)
        for partition in partitions:
            owner = self._owners.setdefault((group, era, generation, partition), member)
            assert owner == member, f"{owner} and {member} both own {partition} in generation {generation}"

    def commit_acknowledged(self, group: str, partition: TopicPartition, offset: int, *, losses: int) -> None:
        """A client reports that its commit for a group was acknowledged.

        `losses` is the number of losses at the time when the client connected.
        """
        if losses != self.losses:
            return
        place = (group, *partition)
        if self._node is None:
            self._promised[place] = max(offset, self._promised.get(place, -1))
            return
        known = self._groups.committed_offset(*place)
        assert known >= offset, f"{group}: {partition} is committed to {offset}, the log says {known}"

    def committed_offset(self, group: str, partition: TopicPartition) -> int:
        """Returns the committed offset, or −1 if the group has not committed an offset."""
        return self._groups.committed_offset(group, *partition)

    def has_member(self, group: str, member_id: str, epoch: int | None = None) -> bool:
        """Returns whether the log has a member, and if `epoch` is given, whether the member is in this epoch."""
        return self._groups.has_member(group, member_id, epoch)

    def generation(self, group: str) -> int:
        """Returns the newest generation in the log, or −1 for a group that never had a member."""
        return self._groups.generation(group)

    def end(self, partition: TopicPartition) -> int:
        """Returns the offset up to which a partition is committed."""
        history = self.histories.get(partition)
        return 0 if history is None else history.end


def _not_superseded(offsets: list[int], records: dict[int, Content]) -> list[int]:
    """Returns the offsets that compaction must keep: the last record of each key, unless that record is a tombstone."""
    last = {key: offset for offset, (key, _) in sorted(records.items())}
    return [
        offset for offset in offsets if last[records[offset][0]] == offset and records[offset][1] is not None
    ]


def _broker(node: Node) -> BrokerRole:
    assert node.broker is not None, "the ledger watches brokers"
    return node.broker
