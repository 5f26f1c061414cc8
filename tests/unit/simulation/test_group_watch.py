"""What the checks of groups in a simulated cluster accept and refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from kcli.protocol.records import consumer_offsets as co
from simulation.checks.group_ledger import GroupLedger
from simulation.checks.group_watch import GroupWatch
from simulation.checks.replication_watch import ReplicationWatch
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import SimCluster

GROUP = "g"
PARTITION = TopicPartition("t", 0)


def take(ledger: GroupLedger, key: co.ConsumerOffsetsKey, value: co.ConsumerOffsetsValue | None) -> None:
    encoded = None if value is None else co.encode_value(value)
    ledger.take(Record(0, 0, co.encode_key(key), encoded), again=False, losses=0)


def commit(ledger: GroupLedger, offset: int) -> None:
    take(ledger, co.OffsetCommitKey(group=GROUP, topic="t", partition=0), co.OffsetCommitValue(offset=offset))


def member_epoch(ledger: GroupLedger, epoch: int) -> None:
    key = co.ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="m")
    take(ledger, key, co.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=epoch))


def test_a_committed_offset_goes_back_only_by_a_late_commit() -> None:
    ledger = GroupLedger()
    commit(ledger, 10)
    with pytest.raises(AssertionError, match="went from 10 to 5"):
        commit(ledger, 5)
    ledger.unanswered[GROUP, *PARTITION, 5] += 1
    commit(ledger, 5)
    assert ledger.committed_offset(GROUP, *PARTITION) == 5


def test_the_epoch_of_a_member_goes_back_only_after_the_member_was_removed() -> None:
    ledger = GroupLedger()
    member_epoch(ledger, 4)
    member_epoch(ledger, -2)  # a static member is away
    with pytest.raises(AssertionError, match="m of g went from 4 to 3"):
        member_epoch(ledger, 3)
    take(ledger, co.ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="m"), None)
    member_epoch(ledger, 3)


@dataclass
class Member:
    member_id: str
    identity: str
    owned: dict[TopicPartition, int]


def with_watch(check: Callable[[GroupWatch], None]) -> None:
    async def main(_: SimLoop) -> None:
        watch = GroupWatch(ReplicationWatch(SimCluster(1)), GROUP)
        check(watch)

    simulate(1, main)


def read(watch: GroupWatch, *offsets: int) -> None:
    for offset in offsets:
        watch.read(PARTITION, offset)


def test_members_read_every_record_before_an_offset_that_they_commit() -> None:
    def check(watch: GroupWatch) -> None:
        read(watch, 0, 1)
        watch.commit_sent([(PARTITION, 2)])
        with pytest.raises(AssertionError, match="3 of t-0 is sent, members have read up to 2"):
            watch.commit_sent([(PARTITION, 3)])
        read(watch, 1, 2)  # the next owner begins at the committed offset
        with pytest.raises(AssertionError, match="no member has read t-0 from 3 to 4"):
            read(watch, 4)

    with_watch(check)


def test_no_fetched_offset_is_above_the_sent_ones() -> None:
    def check(watch: GroupWatch) -> None:
        watch.offset_fetched(PARTITION, -1)
        read(watch, 0, 1, 2)
        watch.commit_sent([(PARTITION, 2)])
        watch.offset_fetched(PARTITION, 2)
        with pytest.raises(AssertionError, match="3 of t-0 is fetched, 2 was the highest sent"):
            watch.offset_fetched(PARTITION, 3)

    with_watch(check)


def test_an_answered_commit_and_an_assignment_are_in_the_committed_log() -> None:
    def check(watch: GroupWatch) -> None:
        with pytest.raises(AssertionError, match="not in the committed log"):
            watch.commit_acknowledged(GROUP, PARTITION, 2)
        watch.members.append(Member("m", "m", {}))
        watch.owns(GROUP, 1, "m", ())
        with pytest.raises(AssertionError, match="the committed log gives it"):
            watch.owns(GROUP, 1, "m", (PARTITION,))

    with_watch(check)
