"""A share or streams group, whose records another broker wrote. This broker lists such a group, but cannot serve its
members.

Its records are kept as bytes. ListGroups needs the type and the state of the group. The types of the records show the
type of the group. The epochs at the start of the records' values show its state.
"""

from __future__ import annotations

import struct

from kcli.coordinator.group.group_type import GroupType
from kcli.coordinator.group.records import OtherRecord

_EPOCH = struct.Struct(">xxi")  # value version, epoch
_MEMBER = struct.Struct(">xxiib")  # value version, member epoch, previous member epoch, state
_STABLE_MEMBER = 0


_MEMBER_TYPES = {GroupType.SHARE: 10, GroupType.STREAMS: 19}
_EPOCH_TYPES = {GroupType.SHARE: 11, GroupType.STREAMS: 17}
_ASSIGNMENT_EPOCH_TYPES = {GroupType.SHARE: 12, GroupType.STREAMS: 20}
_CURRENT_TYPES = {GroupType.SHARE: 14, GroupType.STREAMS: 22}


def type_of_key(key_type: int) -> GroupType | None:
    """The type of the groups that have records of this key type: share or streams. None if the key type is unknown. Do
    not call this function with a key type of classic or consumer groups."""
    if 10 <= key_type <= 15:
        return GroupType.SHARE
    if key_type == 17 or 19 <= key_type <= 23:
        return GroupType.STREAMS
    return None


class OtherGroup:
    def __init__(self, group_id: str, group_type: GroupType) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self._values: dict[int, dict[bytes, bytes]] = {}

    def replay(self, record: OtherRecord) -> None:
        if record.value is not None:
            self._values.setdefault(record.key_type, {})[record.key] = record.value
            return
        values = self._values.get(record.key_type, {})
        values.pop(record.key, None)
        if not values:
            self._values.pop(record.key_type, None)

    @property
    def is_gone(self) -> bool:
        """Whether all records of the group have been deleted."""
        return not self._values

    @property
    def has_members(self) -> bool:
        return _MEMBER_TYPES[self.group_type] in self._values

    @property
    def state(self) -> str:
        if not self.has_members:
            return "Empty"
        if self.group_type is GroupType.SHARE:
            return "Stable"
        epoch = self._epoch(_EPOCH_TYPES[self.group_type])
        if epoch > self._epoch(_ASSIGNMENT_EPOCH_TYPES[self.group_type]):
            return "Assigning"
        current = self._values.get(_CURRENT_TYPES[self.group_type], {})
        members = len(self._values[_MEMBER_TYPES[self.group_type]])
        reconciled = sum(_is_reconciled(value, epoch) for value in current.values())
        return "Stable" if reconciled == members else "Reconciling"

    def _epoch(self, key_type: int) -> int:
        for value in self._values.get(key_type, {}).values():
            if len(value) >= _EPOCH.size:
                return int(_EPOCH.unpack_from(value)[0])
        return 0


def _is_reconciled(value: bytes, epoch: int) -> bool:
    if len(value) < _MEMBER.size:
        return False
    member_epoch, _, state = _MEMBER.unpack_from(value)
    return bool(member_epoch == epoch and state == _STABLE_MEMBER)
