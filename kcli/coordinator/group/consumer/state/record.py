"""A record of a consumer group: one of seven kinds of keys, with its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from kcli.protocol.records import consumer_offsets as co
from kcli.protocol.records.schema import schema_of

CONSUMER_NAME = "consumer"
"""The name of the type on the wire."""

ConsumerKey = (
    co.ConsumerGroupMetadataKey
    | co.ConsumerGroupPartitionMetadataKey
    | co.ConsumerGroupMemberMetadataKey
    | co.ConsumerGroupTargetAssignmentMetadataKey
    | co.ConsumerGroupTargetAssignmentMemberKey
    | co.ConsumerGroupCurrentMemberAssignmentKey
    | co.ConsumerGroupRegularExpressionKey
)
ConsumerValue = (
    co.ConsumerGroupMetadataValue
    | co.ConsumerGroupPartitionMetadataValue
    | co.ConsumerGroupMemberMetadataValue
    | co.ConsumerGroupTargetAssignmentMetadataValue
    | co.ConsumerGroupTargetAssignmentMemberValue
    | co.ConsumerGroupCurrentMemberAssignmentValue
    | co.ConsumerGroupRegularExpressionValue
)
RECORD_TYPES: tuple[int, ...] = tuple(schema_of(key).key for key in get_args(ConsumerKey))


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    group_type: ClassVar[str] = CONSUMER_NAME

    key: ConsumerKey
    value: ConsumerValue | None

    @property
    def group_id(self) -> str:
        return self.key.group_id

    def encoded(self) -> tuple[bytes, bytes | None]:
        return co.encode_key(self.key), None if self.value is None else co.encode_value(self.value)


def decode_consumer_record(key: bytes, value: bytes | None) -> ConsumerRecord:
    parsed = co.decode_key(key)
    assert isinstance(parsed, ConsumerKey)
    detail = None if value is None else co.decode_value(parsed, value)[0]
    assert detail is None or isinstance(detail, ConsumerValue)
    return ConsumerRecord(parsed, detail)
