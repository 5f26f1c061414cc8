"""Control records: the records of batches with the control bit. Readers skip control records of unknown types.

The key is `int16 version 0 | int16 type`. Types 0 and 1 end a transaction (KIP-98). The other types belong to the
metadata log (KIP-595, KIP-630, KIP-853). Their values begin with a version, which is always 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated
from uuid import UUID

from kcli.errors import InvalidRecordException
from kcli.model.ids import ZERO_ID
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.fields import Int16, Int32, Int64, UInt16, since
from kcli.protocol.records.schema import decode, encode, record, schema_of

_INT16_PAIR = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_KEY_VERSION = 0
_MARKER_VERSION = 0
_BODY_VERSION = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """The marker that ends a transaction in a partition. The header of the batch names the producer of the
    transaction."""

    committed: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownControlRecord:
    """A control record of an unknown type. A newer Kafka may have written it."""

    type: int


@record()
class Voter:
    voter_id: Int32 = 0
    voter_directory_id: Annotated[UUID, since(1)] = ZERO_ID


@record(ControlType.LEADER_CHANGE, versions=(0, 1))
class LeaderChangeMessage:
    version: Int16 = 0
    leader_id: Int32 = 0
    voters: tuple[Voter, ...] = ()
    granting_voters: tuple[Voter, ...] = ()


@record(ControlType.SNAPSHOT_HEADER, versions=(0, 0))
class SnapshotHeaderRecord:
    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


@record(ControlType.SNAPSHOT_FOOTER, versions=(0, 0))
class SnapshotFooterRecord:
    version: Int16 = 0


@record(ControlType.KRAFT_VERSION, versions=(0, 0))
class KRaftVersionRecord:
    version: Int16 = 0
    k_raft_version: Int16 = 0


@record()
class VoterEndpoint:
    name: str = ""
    host: str = ""
    port: UInt16 = 0


@record()
class KRaftVersionFeature:
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@record()
class VoterRecord:
    voter_id: Int32 = 0
    voter_directory_id: UUID = ZERO_ID
    endpoints: tuple[VoterEndpoint, ...] = ()
    k_raft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


@record(ControlType.KRAFT_VOTERS, versions=(0, 0))
class VotersRecord:
    version: Int16 = 0
    voters: tuple[VoterRecord, ...] = ()


RaftControl = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
Control = EndTransactionMarker | RaftControl | UnknownControlRecord

_RAFT_TYPES: dict[int, type[RaftControl]] = {schema_of(cls).key: cls for cls in RaftControl.__args__}


def decode_control(key: bytes | None, value: bytes | None) -> Control:
    """Decodes a control record. Raises InvalidRecordException if the key, or the value of a marker, is too short."""
    if key is None or len(key) < _INT16_PAIR.size:
        raise InvalidRecordException(f"Invalid value size found for control record key: {key!r}")
    version, control_type = _INT16_PAIR.unpack_from(key)
    if version < 0:
        raise InvalidRecordException(f"Invalid version found for control record: {version}")
    body = b"" if value is None else value
    if control_type in (ControlType.ABORT, ControlType.COMMIT):
        if len(body) < _MARKER_VALUE.size:
            raise InvalidRecordException(
                f"Invalid value size found for end transaction marker. Must have at least "
                f"{_MARKER_VALUE.size} bytes, but found only {len(body)}"
            )
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(body)
        return EndTransactionMarker(
            committed=control_type == ControlType.COMMIT, coordinator_epoch=coordinator_epoch
        )
    cls = _RAFT_TYPES.get(control_type)
    if cls is None:
        return UnknownControlRecord(type=control_type)
    return decode(cls, _BODY_VERSION, body, exact=False)


def encode_control(control: EndTransactionMarker | RaftControl, *, timestamp_ms: int) -> Record:
    """Encodes a control record, to be put into a control batch."""
    if isinstance(control, EndTransactionMarker):
        control_type = ControlType.COMMIT if control.committed else ControlType.ABORT
        value = _MARKER_VALUE.pack(_MARKER_VERSION, control.coordinator_epoch)
    else:
        control_type = ControlType(schema_of(type(control)).key)
        value = encode(control, _BODY_VERSION)
    return Record(key=_INT16_PAIR.pack(_KEY_VERSION, control_type), value=value, timestamp_ms=timestamp_ms)


def encode_marker_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch with the marker that ends a producer's transaction. The batch has no sequence number."""
    return encode_batch(
        (encode_control(marker, timestamp_ms=timestamp_ms),),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def encode_raft_batch(
    controls: tuple[RaftControl, ...], *, base_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """Encodes a control batch of the metadata log or of a snapshot."""
    return encode_batch(
        [encode_control(control, timestamp_ms=timestamp_ms) for control in controls],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        control=True,
    )


def control_type_of(key: bytes | None) -> int | None:
    """The type of a control record, read from its key. None if the key is too short."""
    return None if key is None or len(key) < 4 else _INT16_PAIR.unpack_from(key)[1]
