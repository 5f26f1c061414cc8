"""Groups whose records another broker wrote, and which this broker lists but does not serve yet.

The records are kept as bytes, because this broker must not change the state of such a group. The types of the records
show the type of the group. The epochs at the start of the records' values show its state. The requests of members get
the answer for a group of another type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kcli.coordinator.group.group_type import Groups, GroupType, GroupTypeRow, Retention
from kcli.coordinator.group.offsets.requests import names_no_member
from kcli.coordinator.group.records import LogRecord, decode_key_head, group_id_of
from kcli.coordinator.group.requests import Kind
from kcli.coordinator.group.step import GroupStep
from kcli.errors import ErrorCode
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.records.consumer_offsets import ConsumerOffsetsKey, decode_key
from kcli.protocol.records.schema import schema_of

_EPOCH = struct.Struct(">xxi")  # value version, epoch


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as bytes."""

    group_type: str
    group_id: str
    key: bytes
    value: bytes | None

    @property
    def key_type(self) -> int:
        return decode_key_head(self.key)[0]

    def encoded(self) -> tuple[bytes, bytes | None]:
        return self.key, self.value


class UnservedGroup:
    def __init__(self, group_id: str, group_type: str) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self._values: dict[int, dict[bytes, bytes]] = {}

    def replay(self, record: RawRecord) -> None:
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
    def record_keys(self) -> Iterator[bytes]:
        """The keys of all records of the group."""
        return (key for values in self._values.values() for key in values)

    def has(self, key_type: int) -> bool:
        """Whether the group has a record of this type."""
        return key_type in self._values

    def values_of(self, key_type: int) -> Collection[bytes]:
        """The values of the records of one type."""
        return self._values.get(key_type, {}).values()

    def epoch_of(self, key_type: int) -> int:
        """The epoch in the record of this type. 0 if the group has no such record."""
        epochs = (
            _EPOCH.unpack_from(value)[0] for value in self.values_of(key_type) if len(value) >= _EPOCH.size
        )
        epoch: int = next(epochs, 0)
        return epoch


class UnservedType(GroupType):
    """`member_type` is the type of the records that members have. `state_of` returns the state of a group with
    members."""

    requests: Mapping[Kind, Callable[..., Any]] = {}

    def __init__(
        self, name: str, groups: Groups, member_type: int, state_of: Callable[[UnservedGroup], str]
    ) -> None:
        self._name = name
        self._groups = groups
        self._member_type = member_type
        self._state_of = state_of

    def _own(self, group_id: str) -> UnservedGroup:
        group = self._groups[group_id]
        assert isinstance(group, UnservedGroup)
        return group

    def _has_members(self, group_id: str) -> bool:
        return self._own(group_id).has(self._member_type)

    # Offsets

    def admit_commit(self, request: OffsetCommitRequest, _api_version: int, _now_ms: int) -> ErrorCode:
        is_outsider = request.generation_id_or_member_epoch < 0 and not self._has_members(request.group_id)
        return ErrorCode.NONE if is_outsider else ErrorCode.UNKNOWN_MEMBER_ID

    def admit_transactional_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        return ErrorCode.NONE if names_no_member(request) else self.admit_commit(request, 0, 0)

    def admit_fetch(self, _group_id: str, _member_id: str, _member_epoch: int) -> ErrorCode:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def is_subscribed_to(self, _group_id: str, _topic: str) -> bool:
        return False

    def delete_offsets_error(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._has_members(group_id) else ErrorCode.NONE

    def retention(self, _group_id: str) -> Retention | None:
        return None

    # Groups

    def listed(self, group_id: str) -> ListedGroup:
        state = self._state_of(self._own(group_id)) if self._has_members(group_id) else "Empty"
        return ListedGroup(
            group_id=group_id, protocol_type=self._name, group_state=state, group_type=self._name
        )

    def delete_error(self, group_id: str) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self._has_members(group_id) else ErrorCode.UNSUPPORTED_VERSION

    def delete(self, group_id: str, step: GroupStep) -> None:
        """Deletes all records of a group, of any kind. `delete_error` refuses this while the type is not served."""
        for key in self._own(group_id).record_keys:
            step.append(RawRecord(self._name, group_id, key, None))

    # The log

    def replay(self, record: LogRecord, *, live: bool) -> None:
        assert isinstance(record, RawRecord)
        group = self._groups.get(record.group_id)
        if isinstance(group, UnservedGroup) and group.group_type == self._name:
            group.replay(record)
            if group.is_gone:
                del self._groups[record.group_id]
        elif record.value is not None:
            # This record is newer than the records of the group in the table. So a new group replaces that group.
            replacement = self._groups[record.group_id] = UnservedGroup(record.group_id, self._name)
            replacement.replay(record)


def unserved_row(
    name: str,
    keys: Iterable[type[ConsumerOffsetsKey]],
    member_key: type[ConsumerOffsetsKey],
    state_of: Callable[[UnservedGroup], str],
) -> GroupTypeRow:
    """Makes the row of a type that has records with these keys."""

    def decode(key: bytes, value: bytes | None) -> RawRecord:
        decode_key(key)  # raises an error if the key is invalid
        return RawRecord(name, group_id_of(key), key, value)

    return GroupTypeRow(
        name=name,
        record_types=tuple(map(key_type_of, keys)),
        decode=decode,
        create=lambda parts: UnservedType(name, parts.groups, key_type_of(member_key), state_of),
    )


def key_type_of(key: type[ConsumerOffsetsKey]) -> int:
    """The record type of a class of keys."""
    return schema_of(key).key
