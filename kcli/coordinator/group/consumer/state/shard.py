"""`ConsumerShard`: what all consumer groups of one partition of `__consumer_offsets` share."""

from __future__ import annotations

from kcli.coordinator.group.classic.classic_type import ClassicType
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import ConsumerLog, Restored, Writer
from kcli.coordinator.group.consumer.state.sessions import ConsumerSessions
from kcli.coordinator.group.group_type import ShardParts
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.group.topics import NoTopics, TopicsView


class ConsumerShard:
    """The functions of this package get a `ConsumerShard` as their first argument.

    `classic` is the classic type of the same shard, because a group may change its type. `topics` are the topics in the
    broker's newest metadata image. `new_topics_version` is the version of the last image with a new topic.
    """

    def __init__(self, parts: ShardParts, classic: ClassicType, restored: Restored) -> None:
        self.config = parts.config
        self.groups = parts.groups
        self.counts = parts.counts
        self.new_uuid = parts.new_uuid
        self.classic = classic
        self.log = ConsumerLog(parts.groups, restored)
        self.sessions = ConsumerSessions(parts.timers, parts.times_of)
        self.topics: TopicsView = NoTopics()
        self.new_topics_version = -1

    def own(self, group_id: str) -> ConsumerGroup:
        """A group that is known to be a consumer group."""
        group = self.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def writer(self, group: ConsumerGroup, step: GroupStep) -> Writer:
        """A writer for the changes that one request or deadline makes to a group. The first record adds the group to
        the table of groups."""
        return Writer(self.log, group, step)
