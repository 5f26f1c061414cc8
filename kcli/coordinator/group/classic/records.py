"""The record of a classic group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kcli.protocol.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

CLASSIC_NAME = "classic"
"""The name of the type on the wire."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    group_type: ClassVar[str] = CLASSIC_NAME

    group_id: str
    metadata: GroupMetadataValue | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        value = None if self.metadata is None else encode_value(self.metadata)
        return encode_key(GroupMetadataKey(group=self.group_id)), value


def decode_group_record(key: bytes, value: bytes | None) -> GroupRecord:
    parsed = decode_key(key)
    assert isinstance(parsed, GroupMetadataKey)
    metadata = None if value is None else decode_value(parsed, value)[0]
    assert metadata is None or isinstance(metadata, GroupMetadataValue)
    return GroupRecord(parsed.group, metadata)
