"""What callers hear when a group operation fails as a whole."""

from __future__ import annotations

from kcli.errors import ErrorCode
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def fail_join(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)


def fail_offset_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """OffsetCommit has no error of its own: every partition carries the group's."""
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


def fail_delete_groups(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.groups_names
        )
    )
