"""Groups and offsets that Apache Kafka 4.1 wrote: read back as its own tools show them, written back byte for byte."""

from __future__ import annotations

from pathlib import Path

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.records import GroupRecord, OffsetRecord, decode, encode
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.hashing import partition_for
from kcli.protocol.batch import encode_batch, iter_batches, read_records
from kcli.protocol.control import EndTransactionMarker, decode_control
from kcli.runtime.rng import SystemRng

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


def test_a_member_that_was_alive_at_the_shutdown_goes_on(golden: Path) -> None:
    shard = _loaded(golden, partition_for("grp-live-classic", PARTITIONS))
    group = shard.describe_group("grp-live-classic", 6)
    (member,) = group.members
    assert (group.group_state, group.protocol_data, member.client_host) == ("Stable", "range", "/127.0.0.1")
    later_ms = SHUTDOWN_MS + 44_999
    assert shard.heartbeat("grp-live-classic", member.member_id, None, 1, later_ms).name == "NONE"
    static = _loaded(golden, partition_for("grp-static", PARTITIONS)).describe_group("grp-static", 6)
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
    assert {(OffsetRecord.__name__, True), (GroupRecord.__name__, True), ("OtherRecord", True)} <= kinds


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
