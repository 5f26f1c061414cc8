"""The list of the types of groups, and the decoding of all records of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcli.coordinator.group.classic.classic_type import CLASSIC
from kcli.coordinator.group.consumer.consumer_type import CONSUMER
from kcli.coordinator.group.group_type import GroupTypeRow
from kcli.coordinator.group.records import OFFSET_TYPES, LogRecord, decode_key_head, decode_offset
from kcli.coordinator.group.share.share_type import SHARE
from kcli.coordinator.group.streams.streams_type import STREAMS

GROUP_TYPES: tuple[GroupTypeRow, ...] = (CLASSIC, CONSUMER, SHARE, STREAMS)
"""The order matters: a group that has only offsets belongs to the first type, and a type can use the types before
it."""


def decoder(rows: Iterable[GroupTypeRow]) -> Callable[[bytes, bytes | None], LogRecord | None]:
    """Makes a function that decodes the records of offsets and of these types.

    The function returns None for the record of a newer Kafka (KIP-915), and raises CorruptRecordError for invalid
    bytes.
    """
    decode_by_type: dict[int, Callable[[bytes, bytes | None], LogRecord]] = {
        **dict.fromkeys(OFFSET_TYPES, decode_offset),
        **{key_type: row.decode for row in rows for key_type in row.record_types},
    }

    def decode_record(key: bytes, value: bytes | None) -> LogRecord | None:
        key_type, _ = decode_key_head(key)
        decode_one = decode_by_type.get(key_type)
        return None if decode_one is None else decode_one(key, value)

    return decode_record


decode = decoder(GROUP_TYPES)
