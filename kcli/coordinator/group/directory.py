"""What is asked of groups whatever their protocol: to list, describe and delete them, and to forget old offsets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.consumer.state.assignment import Assignment
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.log import ConsumerLog
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.consumer.state.records import group_tombstones
from kcli.coordinator.group.groups import Group, Groups
from kcli.coordinator.group.offsets.requests import OffsetProtocol
from kcli.coordinator.group.offsets.table import OffsetTable
from kcli.coordinator.group.other.group import GroupType, OtherGroup
from kcli.coordinator.group.records import GroupRecord
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.group.topics import Topics
from kcli.coordinator.runtime import Token
from kcli.errors import ErrorCode
from kcli.protocol.messages import consumer_group_describe as cgd
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.list_groups import ListedGroup

DESCRIBE_NOT_FOUND_VERSION = 6
"""DescribeGroups says GROUP_ID_NOT_FOUND from this version on; before, a missing group is "Dead" (KIP-1043)."""
OFFSETS_PER_SLICE = 5_000
"""So many offsets are looked at in one go when old ones are sought: about 5 ms."""
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class GroupDirectory:
    def __init__(
        self,
        config: GroupConfig,
        groups: Groups,
        table: OffsetTable,
        offsets: OffsetProtocol,
        log: ConsumerLog,
        topics: Callable[[], Topics],
    ) -> None:
        self._config = config
        self._groups = groups
        self._table = table
        self._offsets = offsets
        self._log = log
        self._topics = topics
        self._to_expire: list[str] = []
        """Groups whose offsets this round of the expiry has not come to yet, the next one last."""

    # Questions

    def list_groups(self) -> tuple[ListedGroup, ...]:
        return tuple(_listed(group) for group in self._groups.values())

    def describe_classic(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            stable = group.state is GroupState.STABLE
            return DescribedGroup(
                group_id=group_id,
                group_state=group.state.value,
                protocol_type=group.protocol_type or "",
                protocol_data=(group.protocol_name or "") if stable else "",
                members=group.described_members(),
            )
        if api_version < DESCRIBE_NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        reason = "not found" if group is None else "is not a classic group"
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {reason}.",
        )

    def describe_consumer(self, group_id: str) -> cgd.DescribedGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "not found" if group is None else "is not a consumer group"
            return cgd.DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {reason}.",
            )
        topics = self._topics()
        return cgd.DescribedGroup(
            group_id=group_id,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.preferred_assignor() or self._config.consumer_assignors[0],
            members=tuple(
                _described(member, group.target_of(member.member_id), topics)
                for member in group.members.values()
            ),
        )

    # Deletion

    def delete_groups(
        self, request: DeleteGroupsRequest, token: Token[DeleteGroupsResponse], step: GroupStep
    ) -> None:
        """Deletes empty groups and their offsets. Until the tombstones are committed they are Dead to everybody."""
        results = []
        for group_id in request.groups_names:
            group = self._groups.get(group_id)
            code = _delete_error(group)
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
            if group is not None and code is ErrorCode.NONE:
                for record in self._table.tombstones_of_group(group_id):
                    step.append(record)
                self._bury(group, step)
        step.reply(token, DeleteGroupsResponse(results=tuple(results)))

    def _bury(self, group: Group, step: GroupStep) -> None:
        match group:
            case ClassicGroup():
                step.append(GroupRecord(group.group_id, None))
                group.previous_state = group.state
                group.state = (
                    GroupState.DEAD
                )  # keeps its timestamp, which dates its offsets should the write fail
                step.when_written(lambda code, _: _revive(group, code))
            case ConsumerGroup():
                tombstones = deque(group_tombstones(group))
                step.when_written(self._log.begin(group, tombstones))
                for record in tuple(tombstones):
                    step.append(record)
                del self._groups[group.group_id]
            case OtherGroup():
                raise AssertionError(f"{group.group_id} is not ours to delete")

    # Expiry

    def expire_offsets(self, step: GroupStep) -> bool:
        """Appends tombstones for old offsets, and for groups that have nothing left; looks at a slice of the groups.
        Whether there are more to look at."""
        if not self._to_expire:
            self._to_expire = list(reversed(self._groups))
        pending = self._table.groups_with_pending()
        looked_at = 0
        while self._to_expire and looked_at < OFFSETS_PER_SLICE:
            group = self._groups.get(self._to_expire.pop())
            if group is None or isinstance(group, OtherGroup):
                continue
            looked_at += 1 + self._table.size_of(group.group_id)
            if isinstance(group, ClassicGroup) and group.state is GroupState.DEAD:
                continue
            all_gone = self._offsets.expire(group, step) and group.group_id not in pending
            if all_gone and _is_deserted(group):
                self._bury(group, step)
        return bool(self._to_expire)


def _revive(group: ClassicGroup, code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        group.state = GroupState.EMPTY


def _is_deserted(group: ClassicGroup | ConsumerGroup) -> bool:
    if isinstance(group, ConsumerGroup):
        return not group.members
    return group.state is GroupState.EMPTY and not group.pending_joins


def _delete_error(group: Group | None) -> ErrorCode:
    match group:
        case None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        case OtherGroup():
            # Its records are not ours to delete: this broker does not serve its protocol.
            return ErrorCode.NON_EMPTY_GROUP if group.has_members else ErrorCode.UNSUPPORTED_VERSION
        case ConsumerGroup():
            return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE
        case ClassicGroup():
            if group.state is GroupState.DEAD:
                return ErrorCode.GROUP_ID_NOT_FOUND
            return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def _listed(group: Group) -> ListedGroup:
    match group:
        case ClassicGroup():
            group_type, protocol_type, state = GroupType.CLASSIC, group.protocol_type, group.state.value
        case ConsumerGroup():
            group_type, protocol_type, state = GroupType.CONSUMER, GroupType.CONSUMER, group.state
        case OtherGroup():
            group_type, protocol_type, state = group.group_type, group.protocol_type, group.state
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=protocol_type or "",
        group_state=state,
        group_type=group_type,
    )


def _described(member: ConsumerMember, target: Assignment, topics: Topics) -> cgd.Member:
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


def _named(assigned: Assignment, topics: Topics) -> cgd.Assignment:
    """A topic that has been deleted since is left out."""
    found = ((topics.topic_by_id(topic_id), partitions) for topic_id, partitions in assigned.items())
    return cgd.Assignment(
        topic_partitions=tuple(
            cgd.TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=tuple(sorted(partitions))
            )
            for topic, partitions in found
            if topic is not None
        )
    )
