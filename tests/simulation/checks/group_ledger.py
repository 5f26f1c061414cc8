"""The group part of the ledger: it reads `__consumer_offsets` and checks the promises about groups.

* a committed offset never goes back;
* a classic group's generation, a consumer group's epoch and its members' epochs never go back, except after the group
  has ended;
* a partition is never assigned twice, neither in a classic generation, nor in the targets of an epoch;
* a member of a consumer group gets a partition only when its last owner has given it up.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable

from kcli.protocol.batches.batch import Record
from kcli.protocol.records.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerOffsetsKey,
    ConsumerOffsetsValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    TargetTopicPartitions,
    decode_key,
    decode_value,
)
from kcli.protocol.records.consumer_protocol import assigned_partitions

_IdPartition = tuple[uuid.UUID, int]


class GroupLedger:
    """The newest state of all groups, as read from `__consumer_offsets`."""

    def __init__(self) -> None:
        self._committed: dict[tuple[str, str, int], int] = {}
        self._generations: dict[str, int] = {}
        self._ended: dict[str, None] = {}
        """Groups whose record was deleted. Their next record may have any generation or epoch."""
        self.eras: dict[str, int] = {}
        """The number of times that each group has begun again with a lower generation or epoch."""
        self._targets: dict[str, dict[str, frozenset[_IdPartition]]] = {}
        self._owned: dict[str, dict[str, frozenset[_IdPartition]]] = {}
        self._epochs: dict[tuple[str, str], int] = {}
        """The last epoch of each member of a consumer group."""
        self._classic_members: dict[str, frozenset[str]] = {}
        self.unanswered: Counter[tuple[str, str, int, int]] = Counter()
        """The number of equal commits without an answer, by group, topic, partition and offset. The broker may get such
        a commit after a later commit of the same member, through another connection."""

    def forget(self) -> None:
        """Forgets all records, because some may be lost. The caller reads the log again."""
        self._committed.clear()
        self._generations.clear()
        self._targets.clear()
        self._owned.clear()
        self._epochs.clear()
        self._classic_members.clear()

    def committed_offset(self, group: str, topic: str, partition: int) -> int:
        return self._committed.get((group, topic, partition), -1)

    def has_member(self, group: str, member_id: str, epoch: int | None = None) -> bool:
        """Whether the log has a member, and if `epoch` is given, whether the member is in this epoch."""
        known = self._epochs.get((group, member_id))
        if known is None:
            return epoch is None and member_id in self._classic_members.get(group, ())
        return epoch in (None, known)

    def generation(self, group: str) -> int:
        """Returns the newest generation or epoch in the log, or −1 for a group that never had a member."""
        return self._generations.get(group, -1)

    def take(self, record: Record, *, again: bool, losses: int) -> None:
        """Reads one record.

        If `again` is True, the record was written before a restart of the broker, and compaction may have removed the
        records around it. `losses` is the number of data losses so far. After a loss, a committed offset may be lower
        than an earlier offset.
        """
        if record.key is None:
            return
        key = decode_key(record.key)
        value = None if record.value is None else decode_value(key, record.value)[0]
        match key:
            case OffsetCommitKey():
                self._take_offset(key, value, again=again or losses > 0)
            case GroupMetadataKey():
                self._take_classic(key.group, value, again=again)
            case ConsumerGroupMetadataKey():
                assert value is None or isinstance(value, ConsumerGroupMetadataValue)
                self._moves_on(key.group_id, None if value is None else value.epoch, again=again)
            case ConsumerGroupTargetAssignmentMemberKey():
                assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
                has = () if value is None else value.topic_partitions
                self._targets.setdefault(key.group_id, {})[key.member_id] = _partitions(has)
            case ConsumerGroupTargetAssignmentMetadataKey() if value is not None and not again:
                _check_disjoint(key.group_id, "targets", self._targets.get(key.group_id, {}))
            case ConsumerGroupCurrentMemberAssignmentKey():
                assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self._take_current(key.group_id, key.member_id, value, again=again)
            case _:
                pass

    def _take_offset(self, key: OffsetCommitKey, value: ConsumerOffsetsValue | None, *, again: bool) -> None:
        if value is None:
            return
        assert isinstance(value, OffsetCommitValue), "the value of an offset's key"
        place = (key.group, key.topic, key.partition)
        before = -1 if again else self._committed.get(place, -1)
        is_late = self.unanswered[*place, value.offset] > 0
        assert value.offset >= before or is_late, (
            f"the committed offset of {place} went from {before} to {value.offset}"
        )
        self._committed[place] = value.offset

    def _take_classic(self, group: str, value: ConsumerOffsetsValue | None, *, again: bool) -> None:
        if value is None:
            self._moves_on(group, None, again=again)
            return
        assert isinstance(value, GroupMetadataValue), "the value of a group's key"
        self._moves_on(group, value.generation, again=again)
        self._classic_members[group] = frozenset(member.member_id for member in value.members)
        assigned = [each for member in value.members for each in assigned_partitions(member.assignment)]
        assert len(assigned) == len(set(assigned)), f"{group} in {value.generation} assigns twice: {assigned}"

    def _moves_on(self, group: str, to: int | None, *, again: bool) -> None:
        """Sets the generation or epoch of a group. None means that the group has ended."""
        if to is None:
            self._ended[group] = None
            return
        before = self._generations.get(group, -1)
        if to < before and not again:
            assert group in self._ended, f"{group} went from {before} to {to}"
            self.eras[group] = self.eras.get(group, 0) + 1
        self._ended.pop(group, None)
        self._generations[group] = to

    def _take_current(
        self, group: str, member: str, value: ConsumerGroupCurrentMemberAssignmentValue | None, *, again: bool
    ) -> None:
        owned = self._owned.setdefault(group, {})
        if value is None:
            owned.pop(member, None)
            self._epochs.pop((group, member), None)
            return
        self._member_moves_on(group, member, value.member_epoch, again=again)
        owned[member] = _partitions((*value.assigned_partitions, *value.partitions_pending_revocation))
        if not again:
            _check_disjoint(group, "members", owned)

    def _member_moves_on(self, group: str, member: str, to: int, *, again: bool) -> None:
        """Sets the epoch of a member. It is negative while a static member is away."""
        before = self._epochs.get((group, member), -1)
        assert to >= before or to < 0 or again, f"{member} of {group} went from {before} to {to}"
        if to >= 0:
            self._epochs[group, member] = to


def group_of(key: ConsumerOffsetsKey) -> str:
    """The group of a record with this key."""
    if isinstance(key, LegacyOffsetCommitKey | OffsetCommitKey | GroupMetadataKey):
        return key.group
    return key.group_id


def _partitions(
    listed: Iterable[TargetTopicPartitions | CurrentTopicPartitions],
) -> frozenset[_IdPartition]:
    return frozenset((each.topic_id, number) for each in listed for number in each.partitions)


def _check_disjoint(group: str, what: str, had: dict[str, frozenset[_IdPartition]]) -> None:
    seen: dict[_IdPartition, str] = {}
    for member, partitions in had.items():
        for partition in sorted(partitions):
            other = seen.setdefault(partition, member)
            assert other == member, f"{what} of {group}: {other} and {member} both have {partition}"
