"""Serves OffsetCommit, OffsetFetch and OffsetDelete for groups of any type.

KIPs: 320 (leader epochs), 447 (require stable), 496 (deletion), 709 (batched fetch), 848 (member epochs).
"""

from __future__ import annotations

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.group_type import GroupType
from kcli.coordinator.group.offsets.table import OffsetTable
from kcli.coordinator.group.records import OffsetRecord
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode
from kcli.model.ids import NO_OFFSET, NO_TIMESTAMP
from kcli.model.java_numbers import to_long
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
"""The first version of OffsetCommit with member epochs and the errors GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH
(KIP-848)."""
DEFAULT_RETENTION = -1


class OffsetRequests:
    def __init__(self, config: GroupConfig, table: OffsetTable) -> None:
        self._config = config
        self._table = table

    # OffsetCommit

    def commit(
        self,
        code: ErrorCode,
        request: OffsetCommitRequest,
        token: Token[OffsetCommitResponse],
        step: GroupStep,
    ) -> None:
        """Serves OffsetCommit and TxnOffsetCommit. `code` is the group's error for the commit, or NONE."""
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
        expire_ms = NO_TIMESTAMP if retention_ms == DEFAULT_RETENTION else to_long(now_ms + retention_ms)
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
        # A character has one or two UTF-16 units, so only long texts need the exact count.
        return len(metadata) * 2 > limit and len(metadata.encode("utf-16-be", "surrogatepass")) > limit * 2

    # OffsetFetch

    def fetch(
        self, group_id: str, topics: tuple[tuple[str, tuple[int, ...]], ...] | None, *, require_stable: bool
    ) -> tuple[OffsetFetchResponseTopics, ...]:
        """The committed offsets for the requested partitions. If the request names no partitions, the result has every
        partition for which the group has an offset. A missing offset is -1."""
        selected = tuple(self._table.topics_of(group_id).items()) if topics is None else topics
        return tuple(
            OffsetFetchResponseTopics(
                name=topic,
                partitions=tuple(
                    self._fetch_partition(group_id, topic, partition, require_stable)
                    for partition in partitions
                ),
            )
            for topic, partitions in selected
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
        group_type: GroupType | None,
        request: OffsetDeleteRequest,
        token: Token[OffsetDeleteResponse],
        step: GroupStep,
    ) -> None:
        """Serves OffsetDelete. `group_type` is the type of the group, or None if the group does not exist."""
        group_id = request.group_id
        code = (
            ErrorCode.GROUP_ID_NOT_FOUND if group_type is None else group_type.delete_offsets_error(group_id)
        )
        if group_type is None or code is not ErrorCode.NONE:
            step.reply(token, OffsetDeleteResponse(error_code=code))
            return
        topics = []
        for topic in request.topics:
            subscribed = group_type.is_subscribed_to(group_id, topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            results = []
            for partition in topic.partitions:
                index = partition.partition_index
                results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if not subscribed and self._table.get(group_id, topic.name, index) is not None:
                    step.append(OffsetRecord(group_id, topic.name, index, None))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(results)))
        step.reply(token, OffsetDeleteResponse(topics=tuple(topics)))


def names_no_member(request: OffsetCommitRequest) -> bool:
    """Whether the request names no member. Old producers, and clients that are not in a group, name no member."""
    return (
        request.generation_id_or_member_epoch < 0
        and not request.member_id
        and request.group_instance_id is None
    )


def fail_offset_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The response with the same error code for every partition, because OffsetCommit has no error for the whole
    request."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
