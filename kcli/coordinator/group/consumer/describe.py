"""Describes a consumer group for operators (ConsumerGroupDescribe)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from kcli.coordinator.group.consumer.state.assignment import Assignment
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.topics import NoTopics, TopicsView
from kcli.errors import ErrorCode
from kcli.protocol.messages import consumer_group_describe as cgd

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


Description = Generator[None, None, cgd.DescribedGroup]
"""Makes the description of a group. Yields after each member, so that other requests are served while a large group is
described."""


def described(group: ConsumerGroup, topics: TopicsView, default_assignor: str) -> Description:
    """Describes the group as it is at the call, even if the group changes before the description is complete."""
    head = cgd.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
    )
    members = [(member, group.target_of(member.member_id)) for member in group.members.values()]
    return _completed(head, members, topics)


def missing(group_id: str, reason: str) -> Description:
    """Describes a group that is missing or has another type."""
    head = cgd.DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {reason}.",
    )
    return _completed(head, [], NoTopics())


def _completed(
    head: cgd.DescribedGroup, members: list[tuple[ConsumerMember, Assignment]], topics: TopicsView
) -> Description:
    listed = []
    for member, target in members:
        listed.append(_member(member, target, topics))
        yield
    return replace(head, members=tuple(listed))


def _member(member: ConsumerMember, target: Assignment, topics: TopicsView) -> cgd.Member:
    return cgd.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        assignment=_named(member.assigned, topics),
        target_assignment=_named(target, topics),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _named(assigned: Assignment, topics: TopicsView) -> cgd.Assignment:
    """Replaces the topic ids of an assignment by topic names. Topics that have been deleted are left out."""
    known = ((topics.topic_by_id(topic_id), partitions) for topic_id, partitions in assigned.items())
    return cgd.Assignment(
        topic_partitions=tuple(
            cgd.TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=tuple(sorted(partitions))
            )
            for topic, partitions in known
            if topic is not None
        )
    )
