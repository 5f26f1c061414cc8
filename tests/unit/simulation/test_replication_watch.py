"""The watch of replicas: records that a leader committed in its last moment, and records that retention has deleted."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kcli.metadata.image import PartitionImage
from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch
from kcli.model.topic_partition import TopicPartition
from simulation.checks.partition import Partition, Replica
from simulation.checks.replica_log import ReplicaBatch, ReplicaLog
from simulation.checks.replication_watch import ReplicationWatch

LEADER, OTHER = BrokerId(5), BrokerId(4)


def _batch(base: int) -> ReplicaBatch:
    return ReplicaBatch(base, base + 10, 1, base, -1, -1, -1, -1, is_control=False)


def _log(*bases: int) -> ReplicaLog:
    log = ReplicaLog()
    for base in bases:
        log.append(_batch(base))
    return log


def _replica(*bases: int, high_watermark: int, log_start: int = 0) -> Replica:
    log = SimpleNamespace(
        high_watermark=high_watermark, log_start_offset=log_start, directory=SimpleNamespace(error=None)
    )
    return Replica(_log(*bases), cast(Any, log))


def _after_the_lone_leader_was_fenced(elr: tuple[BrokerId, ...]) -> Partition:
    """The broker 5 was the only member of the ISR, committed a second batch, and learned that it was fenced."""
    image = PartitionImage((OTHER, LEADER), (), NO_LEADER, LeaderEpoch(2), 2, elr=elr)
    replicas = {
        int(LEADER): _replica(0, 10, high_watermark=20),
        int(OTHER): _replica(0, high_watermark=10),
    }
    return Partition(
        TopicPartition("pair", 0),
        uuid.uuid4(),
        committed=_log(0),
        leaders={1: LEADER},
        image=image,
        replicas=replicas,
    )


def _watch() -> ReplicationWatch:
    cluster = cast(Any, SimpleNamespace(nodes={}))
    return ReplicationWatch(cluster, loses_by_retention=("retained",), compacted=("compacted",))


def test_the_last_commit_of_a_lone_leader_counts_if_the_elr_has_it() -> None:
    partition = _after_the_lone_leader_was_fenced((LEADER,))
    _watch()._check_partition(partition)
    assert partition.end == 20


def test_a_high_watermark_above_the_records_of_the_elr_is_an_error() -> None:
    partition = _after_the_lone_leader_was_fenced((OTHER,))
    with pytest.raises(AssertionError, match="the high watermark on 5 is 20, only records before 10"):
        _watch()._check_partition(partition)


@pytest.mark.parametrize(("topic", "is_allowed"), [("compacted", True), ("plain", False)])
def test_only_compaction_explains_a_high_watermark_without_a_batch_before_it(
    topic: str, is_allowed: bool
) -> None:
    """The only replica lost power, so that the watch has no committed records, and has restored a high watermark."""
    image = PartitionImage((LEADER,), (LEADER,), LEADER, LeaderEpoch(2), 2)
    replica = _replica(30, high_watermark=20)
    partition = Partition(
        TopicPartition(topic, 0), uuid.uuid4(), leaders={1: LEADER}, image=image, replicas={LEADER: replica}
    )
    if is_allowed:
        _watch()._check_partition(partition)
        assert partition.end == 20
    else:
        with pytest.raises(AssertionError, match="the high watermark on 5 is 20, only records before 0"):
            _watch()._check_partition(partition)


@pytest.mark.parametrize(("log_start", "is_allowed"), [(20, True), (10, False)])
def test_a_member_of_the_isr_may_lack_only_records_that_the_leader_has_deleted(
    log_start: int, is_allowed: bool
) -> None:
    image = PartitionImage((LEADER, OTHER), (LEADER, OTHER), LEADER, LeaderEpoch(2), 2)
    member = _replica(0, high_watermark=10)
    member.batches.append(_batch(10)._replace(leader_epoch=0))
    partition = Partition(
        TopicPartition("retained", 0),
        uuid.uuid4(),
        committed=_log(0, 10),
        image=image,
        replicas={
            int(LEADER): _replica(0, 10, high_watermark=20, log_start=log_start),
            int(OTHER): member,
        },
    )
    if is_allowed:
        _watch()._check_partition(partition)
    else:
        with pytest.raises(AssertionError, match="4 lacks committed records"):
            _watch()._check_partition(partition)


@pytest.mark.parametrize(("stable", "is_right"), [(0, True), (10, True), (20, False)])
def test_the_last_stable_offset_does_not_pass_an_open_transaction(stable: int, is_right: bool) -> None:
    """The first batch has ended. The second one, at offset 10, belongs to an open transaction."""
    replica = _replica(0, high_watermark=20)
    replica.batches.append(_batch(10)._replace(producer_id=7, is_transactional=True))
    partition = Partition(TopicPartition("t", 0), uuid.uuid4(), replicas={int(LEADER): replica})
    log = SimpleNamespace(log_start_offset=0, last_stable_offset=stable, high_watermark=20, log_end_offset=20)
    watch = _watch()
    if is_right:
        watch._check_bounds(partition, LEADER, cast(Any, log))
    else:
        with pytest.raises(AssertionError, match="the transaction of producer 7 from 10 on is open"):
            watch._check_bounds(partition, LEADER, cast(Any, log))


def test_a_producer_id_is_given_once() -> None:
    watch = _watch()
    watch.producer_id_given(7)
    watch.producer_id_given(8)
    with pytest.raises(AssertionError, match="producer id 7 was given twice"):
        watch.producer_id_given(7)


def test_committed_offsets_are_dense() -> None:
    watch, partition = _watch(), Partition(TopicPartition("t", 0), uuid.uuid4())
    watch._commit(partition, LEADER, _batch(0))
    watch._commit(partition, LEADER, _batch(10))
    with pytest.raises(AssertionError, match="follows an end of 20"):
        watch._commit(partition, LEADER, _batch(30))


def test_the_promises_begin_again_after_a_loss_of_records() -> None:
    watch, partition = _watch(), Partition(TopicPartition("t", 0), uuid.uuid4())
    watch.partitions[partition.name] = partition
    watch._commit(partition, LEADER, _batch(0))
    watch.acknowledged(partition.name, 0, crc=0)
    with pytest.raises(AssertionError, match="is not the committed"):
        watch.acknowledged(partition.name, 0, crc=9)
    watch.lost_records()
    assert (watch.losses, partition.losses, partition.end) == (1, 1, 0)
    with pytest.raises(AssertionError, match="0 is acknowledged, but 0 is the committed end"):
        watch.acknowledged(partition.name, 0, crc=0)
