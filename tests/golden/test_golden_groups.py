"""Groups and offsets that Apache Kafka 4.1 wrote: read back as its own tools show them, written back byte for byte."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest

from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.state.record import ConsumerRecord
from kcli.coordinator.group.records import OffsetRecord, encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.topics import Topic
from kcli.coordinator.group.types import decode
from kcli.coordinator.hashing import partition_for
from kcli.protocol.batches.batch import encode_batch, iter_batches, read_records
from kcli.protocol.batches.control import EndTransactionMarker, decode_control
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.records.consumer_offsets import ConsumerGroupMemberMetadataKey
from kcli.runtime.rng import SystemRng
from rigs.group_calls import beat, consumer_beat, describe, describe_consumers

PARTITIONS = 3
SHUTDOWN_MS = 1795252200000
"""Soon after the last record: nothing has expired yet."""


def _log(golden: Path, partition: int) -> bytes:
    return (golden / f"logdir-clean/__consumer_offsets-{partition}/00000000000000000000.log").read_bytes()


def _loaded(golden: Path, partition: int) -> GroupShard:
    shard = GroupShard(GroupConfig(), SystemRng(1))
    raw = _log(golden, partition)
    for position, header in iter_batches(raw):
        for record in read_records(raw, position):
            if header.is_control:
                marker = decode_control(record.key, record.value)
                assert isinstance(marker, EndTransactionMarker)
                shard.end_transaction(header.producer_id, committed=marker.committed)
                continue
            read = decode(record.key or b"", record.value)
            assert read is not None
            shard.replay(read, record.offset, header.producer_id if header.is_transactional else -1)
    ready = shard.start(SHUTDOWN_MS)
    assert not ready.records
    return shard


def test_groups_and_offsets(golden: Path) -> None:
    found = {}
    for partition in range(PARTITIONS):
        shard = _loaded(golden, partition)
        for group in shard.list_groups():
            assert partition_for(group.group_id, PARTITIONS) == partition
            offsets = {
                (topic.name, each.partition_index): each.committed_offset
                for topic in shard.fetch_offsets(group.group_id, None).topics
                for each in topic.partitions
            }
            found[group.group_id] = (group.group_type, group.group_state, offsets)
    assert found == {
        "grp-classic": (
            "classic",
            "Empty",
            {("codec-java-gzip", 0): 68, ("codec-librd-none", 0): 150, ("codec-librd-none", 1): 149},
        ),
        "grp-classic-2": ("classic", "Empty", {("shapes", 2): 121}),
        "grp-coop": ("classic", "Empty", {("grown", 1): 4, ("grown", 2): 19}),
        "grp-empty-offsets": ("classic", "Empty", {("shapes", 0): 17, ("shapes", 1): 17}),
        "grp-java-848": ("consumer", "Empty", {("codec-java-lz4", 0): 0, ("codec-java-lz4", 1): 50}),
        "grp-java-classic": ("classic", "Empty", {("codec-java-none", 0): 0, ("codec-java-none", 1): 50}),
        "grp-kip848": ("consumer", "Empty", {("codec-librd-zstd", 0): 93, ("codec-librd-zstd", 1): 149}),
        "grp-live-848": ("consumer", "Stable", {("codec-librd-gzip", 1): 37}),
        "grp-live-classic": ("classic", "Stable", {("codec-librd-gzip", 1): 37}),
        "grp-static": ("classic", "Stable", {("grown", 1): 4, ("grown", 2): 19}),
        "share-1": ("share", "Empty", {}),
        # The second transaction on it was aborted.
        "txn-grp": ("classic", "Empty", {("txn-b", 0): 3}),
    }


def test_a_member_that_was_alive_at_the_shutdown_continues(golden: Path) -> None:
    shard = _loaded(golden, partition_for("grp-live-classic", PARTITIONS))
    group = describe(shard, "grp-live-classic", 6)
    (member,) = group.members
    assert (group.group_state, group.protocol_data, member.client_host) == ("Stable", "range", "/127.0.0.1")
    later_ms = SHUTDOWN_MS + 44_999
    assert beat(shard, "grp-live-classic", member.member_id, None, 1, later_ms).name == "NONE"
    static = describe(_loaded(golden, partition_for("grp-static", PARTITIONS)), "grp-static", 6)
    assert static.members[0].group_instance_id == "static-1"


def test_every_record_is_written_back_as_it_was(golden: Path) -> None:
    kinds = set()
    for partition in range(PARTITIONS):
        raw = _log(golden, partition)
        for position, header in iter_batches(raw):
            if header.is_control:
                continue
            for record in read_records(raw, position):
                read = decode(record.key or b"", record.value)
                assert read is not None
                kinds.add((type(read).__name__, record.value is None))
                assert encode(read) == (record.key, record.value)
    assert {(OffsetRecord.__name__, True), (GroupRecord.__name__, True), ("ConsumerRecord", True)} <= kinds
    assert ("RawRecord", False) in kinds


def test_batches_are_framed_as_kafka_frames_them(golden: Path) -> None:
    """Among other things a batch without a producer has base sequence 0."""
    framed = 0
    for partition in range(PARTITIONS):
        raw = _log(golden, partition)
        for position, header in iter_batches(raw):
            if header.is_control or header.is_transactional:
                continue
            made = encode_batch(
                read_records(raw, position),
                base_offset=header.base_offset,
                leader_epoch=header.partition_leader_epoch,
                base_sequence=0,
            )
            assert made == raw[position : position + header.size_bytes]
            framed += 1
    assert framed > 20


CONSUMERS = {
    "grp-kip848": ("golden-grp-kip848", "codec-librd-zstd", "d3d8a920-5681-475f-964e-d626526a7939"),
    "grp-java-848": ("java848", "codec-java-lz4", "651d7c2e-dfa4-4ec3-9310-0c32f649ee61"),
    "grp-live-848": ("live-grp-live-848", "codec-librd-gzip", "7be1b54a-83b5-49eb-b513-08eec8e00244"),
}
"""Client id, topic and its id."""


class OneTopic:
    version = 1

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def topic(self, name: str) -> Topic | None:
        return self._topic if name == self._topic.name else None

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return self._topic if topic_id == self._topic.topic_id else None

    def names(self) -> tuple[str, ...]:
        return (self._topic.name,)

    def existing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.topic(name) is not None]


@pytest.mark.parametrize("group_id", CONSUMERS)
def test_a_consumer_group_writes_what_kafka_wrote(golden: Path, group_id: str) -> None:
    """A member joins and leaves: every byte of every record, the hash of the group's topics among them."""
    written = [
        (record.key, record.value)
        for position, header in iter_batches(_log(golden, partition_for(group_id, PARTITIONS)))
        if not header.is_control
        for record in read_records(_log(golden, partition_for(group_id, PARTITIONS)), position)
        if isinstance(read := decode(record.key or b"", record.value), ConsumerRecord)
        and read.group_id == group_id
    ]
    first = decode(written[0][0] or b"", written[0][1])
    assert isinstance(first, ConsumerRecord) and isinstance(first.key, ConsumerGroupMemberMetadataKey)
    client_id, name, topic_id = CONSUMERS[group_id]
    shard = GroupShard(GroupConfig(), SystemRng(1))
    shard.topics_changed(OneTopic(Topic(name, uuid.UUID(topic_id), [(), ()])), (), has_new=True)
    shard.start(0)

    def heartbeat(epoch: int) -> list[tuple[bytes, bytes | None]]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=first.key.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=(name,),
        )
        caller = Caller(api_version=1, client_id=client_id, client_host="/127.0.0.1")
        return [encode(record) for record in consumer_beat(shard, request, caller, "token", 0).records]

    made = heartbeat(0)
    if len(written) > len(made):  # one group was joined still when the broker stopped
        made += heartbeat(-1)
    assert made == written


def test_a_consumer_that_was_alive_at_the_shutdown_continues(golden: Path) -> None:
    shard = _loaded(golden, partition_for("grp-live-848", PARTITIONS))
    group = describe_consumers(shard, "grp-live-848")
    (member,) = group.members
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 1, 1)
    assert (member.client_id, member.subscribed_topic_names) == ("live-grp-live-848", ("codec-librd-gzip",))
    found = shard.fetch_offsets("grp-live-848", None, member_id=member.member_id, member_epoch=1)
    assert found.error_code.name == "NONE"
    while (ready := shard.tick(SHUTDOWN_MS + 44_999)) is not None:
        assert not ready.records
    while shard.tick(SHUTDOWN_MS + 45_000) is not None:
        pass
    assert describe_consumers(shard, "grp-live-848").group_state == "Empty"
