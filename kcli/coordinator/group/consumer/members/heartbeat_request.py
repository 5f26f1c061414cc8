"""The checks of a ConsumerGroupHeartbeat that do not depend on the group."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.coordinator.group.consumer.state.assignment import Assignment, assignment, is_subset
from kcli.coordinator.group.consumer.state.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember
from kcli.errors import (
    FencedMemberEpochException,
    InvalidRequestException,
    UnsupportedAssignorException,
)
from kcli.model.ids import ZERO_ID
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)

CLIENT_MADE_MEMBER_ID_VERSION = 1
"""The first version of ConsumerGroupHeartbeat in which the client makes its own member id (KIP-1082)."""


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Iterable[str]) -> None:
    """Checks the fields of a heartbeat. Raises KafkaError with INVALID_REQUEST or UNSUPPORTED_ASSIGNOR and Kafka's
    text."""
    epoch = request.member_epoch
    if epoch > 0 or epoch == LEAVE_EPOCH or api_version >= CLIENT_MADE_MEMBER_ID_VERSION:
        _not_empty(request.member_id, "MemberId")
    _not_empty(request.group_id, "GroupId")
    _not_empty(request.instance_id, "InstanceId")
    _not_empty(request.rack_id, "RackId")
    if epoch == 0:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        _not_empty(request.member_id, "MemberId")
        if request.instance_id is None:
            raise InvalidRequestException("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestException(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    supported = tuple(assignors)
    if request.server_assignor is not None and request.server_assignor not in supported:
        raise UnsupportedAssignorException(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(supported)}."
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestException("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequestException("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestException(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def owned_partitions(listed: tuple[RequestTopicPartitions, ...] | None) -> Assignment | None:
    """The partitions that a member reports as its own. None if the heartbeat leaves them out."""
    if listed is None:
        return None
    return assignment((topic.topic_id or ZERO_ID, topic.partitions) for topic in listed)


def check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """Raises FENCED_MEMBER_EPOCH if the epoch of a heartbeat is wrong. The previous epoch is accepted too, because the
    answer with the new epoch may have been lost. A member with the previous epoch may report only partitions that are
    assigned to it."""
    if epoch == member.epoch:
        return
    if epoch < member.epoch:
        missed_answer = epoch == member.previous_epoch and owned is not None
        if missed_answer and owned is not None and is_subset(owned, member.assigned):
            return
    kind = "greater" if epoch > member.epoch else "smaller"
    raise FencedMemberEpochException(
        f"The consumer group member has a {kind} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _not_empty(value: str | None, name: str) -> None:
    if value == "":
        raise InvalidRequestException(f"{name} can't be empty.")
