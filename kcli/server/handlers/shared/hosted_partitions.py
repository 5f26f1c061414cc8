"""The replicas on this broker (leaders and followers), and the check that this broker leads a partition."""

from __future__ import annotations

from kcli.errors import ErrorCode, NotLeaderOrFollowerException
from kcli.metadata.image import MetadataImage
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.server.partitions.leader_partition import LeaderPartition

HostedPartition = LeaderPartition | FollowedPartition


def leader_of(source: HostedPartition, known_epoch: int) -> LeaderPartition:
    """Returns `source` if this broker leads the partition.

    Raises KafkaError if the client's leader epoch is not the leader epoch of this broker, or if this broker does not
    lead. The leader epoch is checked first.
    """
    source.check_epoch(known_epoch)
    if not isinstance(source, LeaderPartition):
        raise NotLeaderOrFollowerException(f"This broker follows {source} and does not lead it")
    return source


def has_ended(source: HostedPartition) -> bool:
    """Whether another leader epoch has begun, or this broker has no replica any more."""
    return not (source.is_leader if isinstance(source, LeaderPartition) else source.is_current)


def error_of_ended(metadata: MetadataImage, leader: LeaderPartition) -> ErrorCode:
    """The error for a request that was still waiting when this broker lost the leadership of the partition."""
    if leader.log.directory.error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if metadata.partition(leader.topic, leader.partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER
