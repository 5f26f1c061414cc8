"""The records of `__share_group_state`: snapshots and updates of the delivery state of share partitions (KIP-932)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kcli.model.ids import ZERO_ID
from kcli.protocol.fields import Int8, Int16, Int32, Int64, tag
from kcli.protocol.records.coordinator import CoordinatorRecords
from kcli.protocol.records.schema import NEVER_FLEXIBLE, Json, record


@record(0, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareSnapshotKey:
    group_id: str = ""
    topic_id: UUID = ZERO_ID
    partition: Int32 = 0


@record(1, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareUpdateKey:
    group_id: str = ""
    topic_id: UUID = ZERO_ID
    partition: Int32 = 0


@record()
class StateBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@record(versions=(0, 0))
class ShareSnapshotValue:
    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, tag(0)] = -1
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: tuple[StateBatch, ...] = ()


@record(versions=(0, 0))
class ShareUpdateValue:
    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, tag(0)] = -1
    state_batches: tuple[StateBatch, ...] = ()


ShareStateKey = ShareSnapshotKey | ShareUpdateKey
ShareStateValue = ShareSnapshotValue | ShareUpdateValue

SHARE_STATE: CoordinatorRecords[ShareStateKey, ShareStateValue] = CoordinatorRecords(
    {ShareSnapshotKey: (ShareSnapshotValue, 0), ShareUpdateKey: (ShareUpdateValue, 0)}
)


def encode_key(key: ShareStateKey) -> bytes:
    return SHARE_STATE.encode_key(key)


def decode_key(key: bytes) -> ShareStateKey:
    """Decodes a key. Raises UnknownRecordTypeError for a type of a newer Kafka, and CorruptRecordError for invalid
    bytes."""
    return SHARE_STATE.decode_key(key)


def encode_value(value: ShareStateValue, version: int | None = None) -> bytes:
    return SHARE_STATE.encode_value(value, version)


def decode_value(key: ShareStateKey, value: bytes) -> tuple[ShareStateValue, int]:
    return SHARE_STATE.decode_value(key, value)


def key_to_json(key: ShareStateKey) -> dict[str, Json]:
    return SHARE_STATE.key_to_json(key)


def value_to_json(value: ShareStateValue, version: int) -> dict[str, Json]:
    return SHARE_STATE.value_to_json(value, version)
