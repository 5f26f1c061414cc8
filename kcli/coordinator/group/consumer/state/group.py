"""A consumer group (KIP-848), with the values of its records.

The state of the group follows from three epochs. The group epoch rises with every change of members, subscriptions or
topics. The assignment epoch is the group epoch for which the targets were computed. A member's epoch is the epoch of
the target that the member has reached. The log does not contain the state, because it can be computed:

    Empty        the group has no members
    Assigning    the group epoch is above the assignment epoch
    Reconciling  some member has not reached its target yet
    Stable       all members have reached their targets

Only `apply` changes the group, one record at a time, when a record is written and when the log is loaded. A group has
three values that are not in the log: whether its topics may have changed, whether its regular expressions are being
resolved, and when this failed. They are lost with this coordinator, because the next one does not need them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcli.coordinator.group.consumer.state.assignment import NOTHING, Assignment, assignment
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.consumer.state.record import CONSUMER_NAME, ConsumerRecord
from kcli.protocol.records import consumer_offsets as co


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that match a regular expression. `version` is the version of the metadata in which these topics were
    found."""

    topic_names: tuple[str, ...]
    version: int
    timestamp_ms: int


NEVER_MS = -(2**63)
_NO_OWNERS: Mapping[int, str] = {}


class ConsumerGroup:
    group_type = CONSUMER_NAME

    __slots__ = (
        "_owners",
        "_regex_subscribers",
        "_subscribed",
        "assignment_epoch",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "is_resolving",
        "members",
        "metadata_hash",
        "metadata_is_stale",
        "regexes",
        "regexes_failed_ms",
        "static_members",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether the log has the partition metadata of Kafka 4.0, which the metadata hash of 4.1 replaces."""
        self.metadata_is_stale = True
        """Whether the topics may have changed since the metadata hash was computed."""
        self.is_resolving = False
        self.regexes_failed_ms = NEVER_MS
        """The time of the last search for the topics of the regular expressions that failed."""
        self._owners: dict[uuid.UUID, dict[int, str]] = {}
        self._subscribed: dict[str, None] | None = None
        self._regex_subscribers: dict[str, int] = {}

    # Questions

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if reconciled else "Reconciling"

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def owners_of(self, topic_id: uuid.UUID) -> Mapping[int, str]:
        """For each partition of a topic, the member that owns the partition or has not given it up yet. Partitions
        without an owner are left out."""
        return self._owners.get(topic_id, _NO_OWNERS)

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def names_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """The names of the topics to which a member subscribes by name or by its regular expression, sorted."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        if resolved is None or not resolved.topic_names:
            return member.topic_names
        if not member.topic_names:
            return resolved.topic_names
        return tuple(sorted({**dict.fromkeys(member.topic_names), **dict.fromkeys(resolved.topic_names)}))

    @property
    def subscribed(self) -> Mapping[str, None]:
        """The topics to which any member subscribes, as an ordered set."""
        if self._subscribed is None:
            # Most members have the same subscription, and a regular expression may match thousands of topics.
            kinds = {(member.topic_names, member.topic_regex): member for member in self.members.values()}
            self._subscribed = {name: None for member in kinds.values() for name in self.names_of(member)}
        return self._subscribed

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members have the same subscription."""
        kinds = {(member.topic_names, member.topic_regex or "") for member in self.members.values()}
        return len(kinds) <= 1

    def subscribers_of(self, regex: str) -> int:
        return self._regex_subscribers.get(regex, 0)

    @property
    def subscribed_regexes(self) -> tuple[str, ...]:
        return tuple(self._regex_subscribers)

    def preferred_assignor(self) -> str | None:
        """The assignor that most members request. None if no member requests an assignor."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(votes, key=votes.__getitem__) if votes else None

    def all_classic_but(self, leaving: Iterable[str]) -> bool:
        """Whether all members except `leaving` use the classic protocol."""
        gone = frozenset(leaving)
        return all(member.is_classic for member in self.members.values() if member.member_id not in gone)

    def awaits_release(self, member: ConsumerMember) -> bool:
        """Whether some partitions of the member's target still belong to other members."""
        for topic_id, partitions in self.target_of(member.member_id).items():
            owners = self.owners_of(topic_id)
            missing = partitions - member.assigned.get(topic_id, frozenset())
            if any(owners.get(partition, member.member_id) != member.member_id for partition in missing):
                return True
        return False

    # Changes

    def apply(self, record: ConsumerRecord) -> None:
        """Applies a record. The record may refer to an older record that compaction has removed."""
        key, value = record.key, record.value
        match key:
            case co.ConsumerGroupMetadataKey():
                if value is None:
                    return  # the caller removes the group itself
                assert isinstance(value, co.ConsumerGroupMetadataValue)
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case co.ConsumerGroupPartitionMetadataKey():
                self.has_partition_metadata = value is not None
            case co.ConsumerGroupMemberMetadataKey():
                assert value is None or isinstance(value, co.ConsumerGroupMemberMetadataValue)
                self._apply_metadata(key.member_id, value)
            case co.ConsumerGroupTargetAssignmentMetadataKey():
                assert value is None or isinstance(value, co.ConsumerGroupTargetAssignmentMetadataValue)
                self.assignment_epoch = -1 if value is None else value.assignment_epoch
            case co.ConsumerGroupTargetAssignmentMemberKey():
                assert value is None or isinstance(value, co.ConsumerGroupTargetAssignmentMemberValue)
                self._apply_target(key.member_id, value)
            case co.ConsumerGroupCurrentMemberAssignmentKey():
                assert value is None or isinstance(value, co.ConsumerGroupCurrentMemberAssignmentValue)
                self._apply_current(key.member_id, value)
            case co.ConsumerGroupRegularExpressionKey():
                assert value is None or isinstance(value, co.ConsumerGroupRegularExpressionValue)
                self._apply_regex(key.regular_expression, value)

    def _apply_metadata(self, member_id: str, value: co.ConsumerGroupMemberMetadataValue | None) -> None:
        known = self.members.get(member_id)
        self._subscribed = None
        instance_id = None if known is None else known.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if known is not None:
            self._count_regex(known.topic_regex, -1)
        if value is None:
            if known is not None:
                self._disown(known)
                del self.members[member_id]
            return
        member = (known or ConsumerMember(member_id=member_id)).with_metadata(value)
        self.members[member_id] = member
        self._count_regex(member.topic_regex, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def _count_regex(self, regex: str | None, step: int) -> None:
        if regex:
            count = self._regex_subscribers.pop(regex, 0) + step
            if count:
                self._regex_subscribers[regex] = count

    def _apply_target(
        self, member_id: str, value: co.ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = assignment(
                (topic.topic_id, topic.partitions) for topic in value.topic_partitions
            )

    def _apply_current(
        self, member_id: str, value: co.ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        known = self.members.get(member_id)
        if known is not None:
            self._disown(known)
        if value is None:
            if known is not None:
                self.members[member_id] = known.without_current()
            return
        if known is None:
            self._subscribed = None
        member = (known or ConsumerMember(member_id=member_id)).with_current(value)
        self.members[member_id] = member
        for has in (member.assigned, member.pending_revocation):
            for topic_id, partitions in has.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _disown(self, member: ConsumerMember) -> None:
        """Frees the partitions of a member, except partitions that another member got later. The log may assign a
        partition to two members, because compaction does not remove every old record."""
        for has in (member.assigned, member.pending_revocation):
            for topic_id, partitions in has.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)

    def _apply_regex(self, regex: str, value: co.ConsumerGroupRegularExpressionValue | None) -> None:
        self._subscribed = None
        if value is None:
            self.regexes.pop(regex, None)
        else:
            names = tuple(sorted(dict.fromkeys(value.topics)))
            self.regexes[regex] = ResolvedRegex(names, value.version, value.timestamp)
