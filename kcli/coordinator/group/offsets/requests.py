"""OffsetCommit, OffsetFetch and OffsetDelete on a group, and the expiry of offsets nobody needs.

KIPs: 211 (expiry), 320 (leader epochs), 447 (require stable), 496 (deletion), 709 (batched fetch), 848 (member epochs).
"""

from __future__ import annotations

from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.classic.rebalance import Rebalance
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.failure import fail_offset_commit
from kcli.coordinator.group.groups import Group
from kcli.coordinator.group.offsets.table import OffsetTable, is_expired
from kcli.coordinator.group.other.group import OtherGroup
from kcli.coordinator.group.records import NO_TIMESTAMP, OffsetRecord
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.protocol.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics
from kcli.protocol.records.consumer_offsets import OffsetCommitValue

MEMBER_EPOCH_VERSION = 9
"""OffsetCommit knows member epochs, and the errors GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH, from this version on
(KIP-848)."""
NO_OFFSET = -1
DEFAULT_RETENTION = -1


class OffsetProtocol:
    def __init__(self, config: GroupConfig, table: OffsetTable, rebalance: Rebalance) -> None:
        self._config = config
        self._table = table
        self._rebalance = rebalance

    # OffsetCommit

    def commit(
        self,
        group: Group | None,
        request: OffsetCommitRequest,
        api_version: int,
        token: Token[OffsetCommitResponse],
        step: GroupStep,
    ) -> None:
        code = _commit_error(group, request, api_version)
        if code is ErrorCode.NONE and isinstance(group, ClassicGroup):
            # Who commits is alive; a producer that does it for a member tells nothing of it.
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalance.restart_session(group, member, step.now_ms)
        self._commit_unless(code, request, token, step)

    def commit_in_transaction(
        self,
        group: Group | None,
        request: OffsetCommitRequest,
        token: Token[OffsetCommitResponse],
        step: GroupStep,
    ) -> None:
        """TxnOffsetCommit, as the OffsetCommit that it is but for who may; pending until the transaction ends."""
        self._commit_unless(_transactional_commit_error(group, request), request, token, step)

    def _commit_unless(
        self,
        code: ErrorCode,
        request: OffsetCommitRequest,
        token: Token[OffsetCommitResponse],
        step: GroupStep,
    ) -> None:
        if code is not ErrorCode.NONE:
            step.reply(token, fail_offset_commit(request, code))
            return
        topics = tuple(self._commit_topic(request, topic, step) for topic in request.topics)
        step.reply(token, OffsetCommitResponse(topics=topics))
        self._expect(step)

    def _expect(self, step: GroupStep) -> None:
        records = [record for record in step.records if isinstance(record, OffsetRecord)]
        if records:
            self._table.expect(records)
            step.when_written(lambda code, _: self._written(records, code))

    def _written(self, records: list[OffsetRecord], code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            for record in records:
                self._table.arrived(record)

    def _commit_topic(
        self, request: OffsetCommitRequest, topic: OffsetCommitRequestTopic, step: GroupStep
    ) -> OffsetCommitResponseTopic:
        now_ms = step.now_ms
        retention_ms = request.retention_time_ms
        expire_ms = NO_TIMESTAMP if retention_ms == DEFAULT_RETENTION else now_ms + retention_ms
        results = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            code = ErrorCode.NONE
            if self._is_too_long(metadata):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=expire_ms,
                )
                step.append(OffsetRecord(request.group_id, topic.name, partition.partition_index, committed))
            results.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
        return OffsetCommitResponseTopic(name=topic.name, partitions=tuple(results))

    def _is_too_long(self, metadata: str) -> bool:
        limit = self._config.offset_metadata_max_length
        # A character is one UTF-16 unit, or two: only long texts need the exact count.
        return len(metadata) * 2 > limit and len(metadata.encode("utf-16-be", "surrogatepass")) > limit * 2

    # OffsetFetch

    def fetch(
        self, group_id: str, topics: tuple[tuple[str, tuple[int, ...]], ...] | None, *, require_stable: bool
    ) -> tuple[OffsetFetchResponseTopics, ...]:
        """Offsets of the partitions asked for, or of all that have one (None). An absent offset is -1."""
        wanted = tuple(self._table.topics_of(group_id).items()) if topics is None else topics
        return tuple(
            OffsetFetchResponseTopics(
                name=topic,
                partitions=tuple(
                    self._fetch_partition(group_id, topic, partition, require_stable)
                    for partition in partitions
                ),
            )
            for topic, partitions in wanted
        )

    def _fetch_partition(
        self, group_id: str, topic: str, partition: int, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        code = ErrorCode.NONE
        committed = self._table.get(group_id, topic, partition)
        if require_stable and self._table.is_pending(group_id, topic, partition):
            code, committed = ErrorCode.UNSTABLE_OFFSET_COMMIT, None
        if committed is None:
            return OffsetFetchResponsePartitions(
                partition_index=partition, committed_offset=NO_OFFSET, error_code=code
            )
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    # OffsetDelete

    def delete(
        self,
        group: Group | None,
        request: OffsetDeleteRequest,
        token: Token[OffsetDeleteResponse],
        step: GroupStep,
    ) -> None:
        code = _delete_error(group)
        if group is None or code is not ErrorCode.NONE:
            step.reply(token, OffsetDeleteResponse(error_code=code))
            return
        topics = []
        for topic in request.topics:
            subscribed = not isinstance(group, OtherGroup) and group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            results = []
            for each in topic.partitions:
                index = each.partition_index
                results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if not subscribed and self._table.get(request.group_id, topic.name, index) is not None:
                    step.append(OffsetRecord(request.group_id, topic.name, index, None))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(results)))
        step.reply(token, OffsetDeleteResponse(topics=tuple(topics)))

    # Expiry

    def expire(self, group: ClassicGroup | ConsumerGroup, step: GroupStep) -> bool:
        """Appends tombstones for the offsets of a group that are old enough; True when none will be left.

        The clock of an empty classic group started when it became empty, so that its offsets go together; that of a
        group that never had members, of a consumer group, or of a topic that a stable group no longer subscribes, at
        the commit.
        """
        if not _may_expire(group):
            return False
        group_id = group.group_id
        empty_since_ms = _empty_since_ms(group)
        all_gone = True
        for topic, partitions in self._table.topics_of(group_id).items():
            if group.is_subscribed_to(topic):
                all_gone = False
                continue
            for partition in partitions:
                committed = self._table.get(group_id, topic, partition)
                assert committed is not None, f"offset of {group_id} {topic}-{partition} vanished"
                since_ms = committed.commit_timestamp if empty_since_ms is None else empty_since_ms
                if is_expired(
                    committed, step.now_ms, since_ms, self._config.offsets_retention_ms
                ) and not self._table.is_pending(group_id, topic, partition):
                    step.append(OffsetRecord(group_id, topic, partition, None))
                else:
                    all_gone = False
        return all_gone


def _may_expire(group: ClassicGroup | ConsumerGroup) -> bool:
    if isinstance(group, ConsumerGroup) or group.protocol_type is None or group.state is GroupState.EMPTY:
        return True
    return group.is_consumer_protocol and group.subscribed is not None and group.state is GroupState.STABLE


def _empty_since_ms(group: ClassicGroup | ConsumerGroup) -> int | None:
    """Since when a classic group has had no members, where it ever had some and that is known."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None or group.state is not GroupState.EMPTY:
        return None
    return None if group.state_timestamp_ms == NO_TIMESTAMP else group.state_timestamp_ms


def _commit_error(group: Group | None, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    """Who may commit: a member of the current generation, or anybody while the group has no members."""
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id < 0:
            return ErrorCode.NONE  # a group that only keeps offsets comes into being with its first one
        known = api_version >= MEMBER_EPOCH_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, OtherGroup):
        outsider = generation_id < 0 and not group.has_members
        return ErrorCode.NONE if outsider else ErrorCode.UNKNOWN_MEMBER_ID
    if isinstance(group, ConsumerGroup):
        return _consumer_commit_error(group, request, api_version)
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.validate_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # It knows the generation, so it has had its join answered; it must sync before it may commit.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _consumer_commit_error(group: ConsumerGroup, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    """A member commits with its epoch; whoever is behind asks the coordinator first (KIP-848)."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and api_version < MEMBER_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    return member_epoch_error(group, request.member_id, epoch)


def member_epoch_error(group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode:
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _transactional_commit_error(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    """The rules of a plain commit, but that old producers say nothing of a membership, and that a rebalance may go on:
    the group's generation fences (KIP-447)."""
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        dead = isinstance(group, ClassicGroup) and group.state is GroupState.DEAD
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if dead else ErrorCode.NONE
    if isinstance(group, ConsumerGroup):
        # Producers before Kafka 4.4 do not know STALE_MEMBER_EPOCH here.
        code = _consumer_commit_error(group, request, MEMBER_EPOCH_VERSION)
        return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code
    code = _commit_error(group, request, 0)
    return ErrorCode.NONE if code is ErrorCode.REBALANCE_IN_PROGRESS else code


def _delete_error(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, OtherGroup):
        return ErrorCode.NON_EMPTY_GROUP if group.has_members else ErrorCode.NONE
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    if group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and not group.is_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE
