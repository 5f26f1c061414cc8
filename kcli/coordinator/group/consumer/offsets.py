"""The rules of a consumer group for offsets: a member commits with its member epoch (KIP-848)."""

from __future__ import annotations

from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.offsets.requests import MEMBER_EPOCH_VERSION, names_no_member
from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_commit import OffsetCommitRequest


def commit_error(group: ConsumerGroup, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    """The error code for an OffsetCommit. A member with an old epoch must send a heartbeat before it may commit."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and api_version < MEMBER_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    return member_epoch_error(group, request.member_id, epoch)


def transactional_commit_error(group: ConsumerGroup, request: OffsetCommitRequest) -> ErrorCode:
    if names_no_member(request):
        return ErrorCode.NONE
    code = commit_error(group, request, MEMBER_EPOCH_VERSION)
    # Producers before Kafka 4.4 do not know STALE_MEMBER_EPOCH in this response.
    return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code


def member_epoch_error(group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode:
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
