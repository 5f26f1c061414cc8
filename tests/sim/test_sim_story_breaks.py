"""Rules of brokers and controllers that are broken on purpose: the stories are worth what they notice.

Each rule has the seed of a story that noticed its absence. To look for the first such seed of each rule again:

    PYTHONPATH=tests python tests/sim/test_sim_story_breaks.py 0 60 no_truncation
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kcli.coordinator.group.classic.classic_type import ClassicType
from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import ConsumerLog
from kcli.coordinator.group.consumer.state.record import ConsumerRecord
from kcli.coordinator.group.consumer.targets import reconciliation
from kcli.coordinator.group.offsets.table import OffsetTable
from kcli.coordinator.group.records import OffsetRecord
from kcli.coordinator.transaction import init
from kcli.coordinator.transaction.state import Transaction, TransactionStatus
from kcli.errors import ErrorCode
from kcli.model.ids import NO_TIMESTAMP, Offset
from kcli.model.pace import Pace
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC, GROUP_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.records.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    OffsetCommitKey,
    decode_key,
)
from kcli.replica.leader import Followers, LeaderState
from kcli.replica.waiting import CommitQueue
from kcli.server.coordinators import loader, shards
from kcli.server.coordinators.groups import GroupRunner
from kcli.server.coordinators.loader import Replay
from kcli.server.coordinators.marker_sender import MarkerSender
from kcli.server.coordinators.shard_runner import ShardRunner, _answer
from kcli.server.coordinators.transaction_markers import TransactionEnd
from kcli.server.coordinators.transaction_verification import (
    TransactionalClient,
    TransactionVerifier,
    VerificationResults,
)
from kcli.server.handlers.shared import partition_reads
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.storage.log.durability import Durability
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.producer_state import ProducerState
from kcli.storage.store import opening
from kcli.storage.store.loader import load_log
from simulation.actors.exactly_once import COPIES
from simulation.world import group_part
from simulation.world.story import run_seed


def _nothing(*_: object, **__: object) -> None:
    return None


def only_metadata_is_flushed(patch: pytest.MonkeyPatch) -> None:
    """Records are acknowledged as flushed, and are not."""
    flush = Durability.flush

    def only_metadata(durability: Durability, *arguments: int) -> None:
        if durability._local.topic_partition.topic == CLUSTER_METADATA_TOPIC:
            flush(durability, *arguments)

    patch.setattr(Durability, "flush", only_metadata)


def metadata_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """Metadata counts as durable before it is."""
    patch.setattr(MetadataLog, "flush", lambda self: self.end_offset)


def votes_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A node forgets its epoch and its vote when it stops."""
    patch.setattr(MetadataLog, "write_election_state", lambda _self, _state: None)


def retries_are_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "duplicate_of", _nothing)


def producers_are_forgotten_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """After a crash, a producer that repeats an unanswered batch is taken for a new one."""

    def forgetful(*arguments: Any) -> PartitionLog:
        log = load_log(*arguments)
        log.producers.state.clear()
        log.producers.state.end_offset = log.log_end_offset
        return log

    patch.setattr(opening, "load_log", forgetful)


def commits_are_answered_unwritten(patch: pytest.MonkeyPatch) -> None:
    """A coordinator answers before its records are in the log."""

    def answer_now(runner: ShardRunner[Any, Any]) -> None:
        for write in runner._gathered:
            _answer(write.ready)
        runner._loop.call_later(0.2, runner._flush)

    patch.setattr(ShardRunner, "_schedule_flush", answer_now)


def partitions_are_given_before_they_are_free(patch: pytest.MonkeyPatch) -> None:
    """A member of a consumer group gets its target while another member still reads it."""
    patch.setattr(ConsumerGroup, "owners_of", lambda *_: {})


def acks_before_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A producer gets its answer when the leader has appended its records."""
    patch.setattr(CommitQueue, "wait_for", lambda _queue, _offset, waiter: waiter())
    patch.setattr(LeaderState, "produce_outcome", lambda *_: ErrorCode.NONE)


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps the records that its leader does not have, because nothing compares the epochs of the logs."""
    patch.setattr(partition_reads, "_divergence", lambda *_: None)


def high_watermark_of_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark does not wait for followers."""

    def high_watermark(
        state: LeaderState, current: Offset, end: Offset, _: Followers, joining: Container[int] = ()
    ) -> Offset:
        return max(current, end) if state.isr.is_sufficient else current

    patch.setattr(LeaderState, "high_watermark", high_watermark)


def joins_the_isr_too_early(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the ISR with its first fetch, whatever it has."""
    patch.setattr(
        LeaderState,
        "may_join",
        lambda state, replica, *_: state.change is None and replica not in state.isr.members,
    )


def a_new_producer_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """InitProducerId ends the last transaction, but does not raise the epoch of an idle transactional id. So a replaced
    producer and its successor have the same epoch."""

    def with_same_epoch(before: Transaction, _: int | None, timeout_ms: int, now_ms: int) -> Transaction:
        return replace(
            before,
            status=TransactionStatus.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            update_ms=now_ms,
        )

    patch.setattr(init, "with_next_epoch", with_same_epoch)


def a_partition_gets_no_marker(patch: pytest.MonkeyPatch) -> None:
    """The coordinator forgets the marker of one partition, but believes that it was written."""
    write_all = MarkerSender.write_all
    forgotten = TopicPartition(COPIES, 0)

    async def write_some(
        sender: MarkerSender,
        end: TransactionEnd,
        partitions: Sequence[TopicPartition],
        written: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        await write_all(sender, end, [each for each in partitions if each != forgotten], written)
        written([forgotten])

    patch.setattr(MarkerSender, "write_all", write_some)


def offsets_count_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """The offsets of a transaction are committed when they are written, not when the transaction is committed."""
    replay = OffsetTable.replay

    def replay_at_once(
        table: OffsetTable, record: OffsetRecord, log_offset: int, _producer_id: int = -1
    ) -> None:
        replay(table, record, log_offset)

    patch.setattr(OffsetTable, "replay", replay_at_once)


def a_batch_is_not_verified(patch: pytest.MonkeyPatch) -> None:
    """A partition accepts a batch of an old producer without asking the coordinator. TV2 adds partitions as before."""
    verify = TransactionVerifier.verify

    async def verify_some(
        verifier: TransactionVerifier,
        client: TransactionalClient,
        batches: list[tuple[LeaderPartition, int]],
        pace: Pace,
    ) -> VerificationResults:
        if client.adds:
            return await verify(verifier, client, batches, pace)
        results: VerificationResults = {
            TopicPartition(leader.topic, leader.partition): None for leader, _ in batches
        }
        return results

    patch.setattr(TransactionVerifier, "verify", verify_some)


def consumers_read_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark."""
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def aborted_transactions_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    """Consumers do not learn which transactions were aborted."""
    patch.setattr(partition_reads, "_aborted", lambda *_: ())


def forgets_members(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator of a consumer group does not load the epochs and partitions of the members."""
    load = ConsumerLog._apply

    def apply(log: ConsumerLog, record: ConsumerRecord) -> None:
        if not isinstance(record.key, ConsumerGroupCurrentMemberAssignmentKey):
            load(log, record)

    patch.setattr(ConsumerLog, "_apply", apply)


def forgets_classic_members(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator of a classic group loads the generation, but no members."""
    replay = ClassicType.replay

    def replay_without_members(group_type: ClassicType, record: GroupRecord, *, live: bool) -> None:
        if not live and record.metadata is not None:
            record = replace(record, metadata=replace(record.metadata, members=()))
        replay(group_type, record, live=live)

    patch.setattr(ClassicType, "replay", replay_without_members)


def answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A coordinator answers as soon as its records are appended."""

    async def at_once(runner: GroupRunner) -> None:
        while runner._in_flight:
            _, writes = runner._in_flight.popleft()
            runner._finish(writes, ErrorCode.NONE)
        runner._committer = None

    patch.setattr(ShardRunner, "_await_commits", at_once)


def assigns_before_the_release(patch: pytest.MonkeyPatch) -> None:
    """A member of a consumer group gets a partition while another member still has it."""
    with_free = reconciliation._with_free
    patch.setattr(
        reconciliation,
        "_with_free",
        lambda member, kept, target, _: with_free(member, kept, target, lambda *_: None),
    )


def does_not_wait_for_the_release(patch: pytest.MonkeyPatch) -> None:
    """The coordinator of a consumer group takes a partition away although the member still reports it."""
    patch.setattr(reconciliation, "overlaps", lambda *_: False)


def loads_only_committed_offsets(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator leaves out the offsets above the high watermark that it has at the beginning of its load."""
    load = loader.load

    async def load_committed(leader: LeaderPartition, *, replay: Replay, **rest: Any) -> int:
        if leader.topic != GROUP_METADATA_TOPIC:
            return await load(leader, replay=replay, **rest)
        high_watermark = leader.log.high_watermark

        def replay_committed(key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
            match decode_key(key):
                case OffsetCommitKey(group=group_part.GROUP) if offset >= high_watermark:
                    pass
                case _:
                    replay(key, value, offset, producer_id)

        return await load(leader, replay=replay_committed, **rest)

    patch.setattr(shards, "load", load_committed)


RULES: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    only_metadata_is_flushed: 85,
    metadata_is_not_flushed: 64,
    votes_are_forgotten: 86,
    retries_are_written_again: 64,
    producers_are_forgotten_at_the_start: 24,
    commits_are_answered_unwritten: 4,
    partitions_are_given_before_they_are_free: 43,
    acks_before_the_high_watermark: 0,
    no_truncation: 5,
    high_watermark_of_the_leader_alone: 0,
    joins_the_isr_too_early: 1,
    a_new_producer_keeps_the_epoch: 112,
    a_partition_gets_no_marker: 112,
    offsets_count_before_the_commit: 112,
    a_batch_is_not_verified: 112,
    consumers_read_open_transactions: 112,
    aborted_transactions_are_not_listed: 112,
    forgets_members: 6,
    forgets_classic_members: 3,
    answers_before_the_commit: 3,
    assigns_before_the_release: 6,
    does_not_wait_for_the_release: 6,
    loads_only_committed_offsets: 6,
}


ONLY_IN_FULL = {
    a_new_producer_keeps_the_epoch,
    a_batch_is_not_verified,
    consumers_read_open_transactions,
    aborted_transactions_are_not_listed,
    forgets_classic_members,
    assigns_before_the_release,
    does_not_wait_for_the_release,
    loads_only_committed_offsets,
}
"""Rules that only `make full` breaks, because each of them takes a whole story."""


def rules() -> list[object]:
    return [
        pytest.param(rule, seed, id=rule.__name__, marks=pytest.mark.full if rule in ONLY_IN_FULL else ())
        for rule, seed in RULES.items()
    ]


@pytest.mark.parametrize(("break_rule", "seed"), rules())
def test_a_broken_rule_is_noticed(
    break_rule: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_rule(monkeypatch)
    assert _notices(seed), f"{break_rule.__name__} went unnoticed"


def _notices(seed: int) -> str:
    """The error by which the story of a seed noticed a broken rule, or ''."""
    try:
        run_seed(seed)
    except AssertionError as error:
        return str(error)
    except ExceptionGroup as group:
        found: BaseException | None = group.subgroup(AssertionError)
        assert found is not None, f"{group}"
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        return str(found)
    return ""


def main(first: int, count: int, *names: str) -> None:
    for break_rule in RULES:
        if names and break_rule.__name__ not in names:
            continue
        with pytest.MonkeyPatch.context() as patch:
            break_rule(patch)
            for seed in range(first, first + count):
                if notice := _notices(seed):
                    print(f"{break_rule.__name__}: seed {seed}: {notice[:300]}", flush=True)
                    break
            else:
                print(f"{break_rule.__name__}: not noticed by {count} seeds", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
