"""The row of streams groups (KIP-1071), and their state."""

from __future__ import annotations

import struct

from kcli.coordinator.group.unserved import UnservedGroup, key_type_of, unserved_row
from kcli.protocol.records import streams_groups as records

_EPOCH_TYPE = key_type_of(records.StreamsGroupMetadataKey)
_MEMBER_TYPE = key_type_of(records.StreamsGroupMemberMetadataKey)
_ASSIGNMENT_EPOCH_TYPE = key_type_of(records.StreamsGroupTargetAssignmentMetadataKey)
_CURRENT_TYPE = key_type_of(records.StreamsGroupCurrentMemberAssignmentKey)

_MEMBER = struct.Struct(">xxiib")  # value version, member epoch, previous member epoch, state
_STABLE_MEMBER = 0


def _state(group: UnservedGroup) -> str:
    epoch = group.epoch_of(_EPOCH_TYPE)
    if epoch > group.epoch_of(_ASSIGNMENT_EPOCH_TYPE):
        return "Assigning"
    reconciled = sum(_is_reconciled(value, epoch) for value in group.values_of(_CURRENT_TYPE))
    return "Stable" if reconciled == len(group.values_of(_MEMBER_TYPE)) else "Reconciling"


def _is_reconciled(value: bytes, epoch: int) -> bool:
    if len(value) < _MEMBER.size:
        return False
    member_epoch, _, state = _MEMBER.unpack_from(value)
    return bool(member_epoch == epoch and state == _STABLE_MEMBER)


STREAMS = unserved_row(
    "streams",
    keys=(
        records.StreamsGroupMetadataKey,
        records.StreamsGroupMemberMetadataKey,
        records.StreamsGroupTargetAssignmentMetadataKey,
        records.StreamsGroupTargetAssignmentMemberKey,
        records.StreamsGroupCurrentMemberAssignmentKey,
        records.StreamsGroupTopologyKey,
    ),
    member_key=records.StreamsGroupMemberMetadataKey,
    state_of=_state,
)
