"""The batches of a replica, read from an open log and from the disk of a node that does not run."""

from __future__ import annotations

import pytest

from kcli.config.topic import LogConfig
from kcli.model.ids import LeaderEpoch, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_client, batch_of
from simulation.checks.replica_log import (
    ReplicaBatch,
    ReplicaLog,
    latest_values,
    read_disk,
    read_log,
    read_more,
)
from simulation.runtime.disk import SimDisk

PARTITION = TopicPartition("t", 0)
SMALL = LogConfig(segment_bytes=300)


def filled(disk: SimDisk, config: LogConfig | None = None, batches: int = 6) -> PartitionLog:
    log = LogRig(disk, config=config).create()
    for number in range(batches):
        append(log, number)
    return log


def append(log: PartitionLog, number: int, epoch: int = 0) -> None:
    batch = batch_of([b"%d" % number, b"more"], producer_id=7, producer_epoch=0, sequence=2 * number)
    append_client(log, batch, leader_epoch=LeaderEpoch(epoch), now_ms=START_MS)


@pytest.mark.parametrize("config", [None, SMALL])
def test_log_and_disk_show_the_same_batches(config: LogConfig | None) -> None:
    disk = SimDisk()
    log = filled(disk, config)
    replica = read_log(log)
    assert replica.batches == read_disk(disk, "/data", PARTITION).batches
    assert [(each.base_offset, each.next_offset) for each in replica.batches] == [
        (start, start + 2) for start in range(0, 12, 2)
    ]
    assert {each.base_sequence for each in replica.batches} == set(range(0, 12, 2))


def test_only_new_batches_are_read_again() -> None:
    log = filled(SimDisk(), batches=2)
    replica = read_log(log)
    append(log, 2, epoch=3)
    read_more(log, replica)
    assert replica.end == 6
    assert replica.between(4, 6) == replica.batches[2:]
    last = replica.before(6)
    assert last is not None
    assert last.leader_epoch == 3
    assert replica.before(5) is None


def test_a_log_whose_start_has_moved_begins_with_the_batch_of_its_start() -> None:
    log = filled(SimDisk())
    log.set_high_watermark(Offset(12))
    log.delete_records_before(Offset(5))
    replica = read_log(log)
    assert (replica.start, replica.end) == (5, 12)
    assert replica.batches[0].base_offset == 4


def test_a_torn_batch_at_the_end_of_the_disk_is_left_out() -> None:
    disk = SimDisk()
    filled(disk, batches=2)
    path = "/data/t-0/00000000000000000000.log"
    file = disk.open(path)
    file.truncate(file.size() - 4)
    assert [each.next_offset for each in read_disk(disk, "/data", PARTITION).batches] == [2]
    file.truncate(file.size() + 1000)
    assert [each.next_offset for each in read_disk(disk, "/data", PARTITION).batches] == [2]
    disk.flip(path, 65, 0)
    assert read_disk(disk, "/data", PARTITION).batches == []


def test_a_partition_without_a_directory_has_no_batches() -> None:
    assert read_disk(SimDisk(), "/data", PARTITION).end == 0


def test_a_batch_below_the_end_is_refused() -> None:
    batch = ReplicaBatch.of(read_header(batch_of([b"x"])))
    replica = ReplicaLog()
    replica.append(batch)
    with pytest.raises(AssertionError, match="follows an end of 1"):
        replica.append(batch)


def test_the_last_value_of_each_key_is_found() -> None:
    disk = SimDisk()
    log = LogRig(disk, config=SMALL).create()
    for number in range(9):
        batch = encode_batch([Record(-1, START_MS, b"key %d" % (number % 2), b"value %d" % number)])
        append_client(log, batch, leader_epoch=LeaderEpoch(0), now_ms=START_MS)
    assert latest_values(disk, "/data", PARTITION) == {
        b"key 0": (8, b"value 8"),
        b"key 1": (7, b"value 7"),
    }


def _written(base: int, producer_id: int, *, control: bool = False) -> ReplicaBatch:
    return ReplicaBatch(
        base, base + 1, 0, base, producer_id, 0, 0, 0, is_control=control, is_transactional=True
    )


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    replica = ReplicaLog()
    for batch in (_written(0, 7), _written(1, 8), _written(2, 7)):
        replica.append(batch)
    assert replica.open == {7: 0, 8: 1}
    replica.append(_written(3, 7, control=True))
    assert replica.open == {8: 1}
    replica.append(_written(4, 7))
    assert replica.open == {8: 1, 7: 4}
