"""Snapshots of the metadata log: their file names and their bytes (KIP-630).

A snapshot is a sequence of record batches. The first batch is a control batch with SnapshotHeader. From kraft.version 1
on, it also has KRaftVersion and Voters. Data batches follow. The last batch is a control batch with SnapshotFooter.
Offsets start at 0 and count the records of the file. All batches have the epoch of the snapshot's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kcli.errors import CorruptRecordError
from kcli.model.ids import FIRST_LEADER_EPOCH, FIRST_OFFSET, LeaderEpoch, Offset
from kcli.model.java_text import natural
from kcli.protocol.batches.batch import (
    BatchHeader,
    Record,
    crc_is_valid,
    encode_batch,
    iter_batches,
    read_records,
)
from kcli.protocol.batches.control import (
    Control,
    KRaftVersionRecord,
    RaftControl,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control,
    encode_raft_batch,
)

MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Kafka's limit for a batch of the metadata log (internal.metadata.max.batch.size.in.bytes)."""

RECORD_OVERHEAD_BYTES = 21
"""The most bytes that a record has in addition to its value: varints for its length, deltas and counts."""

CHECKPOINT_SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """The id of a snapshot. `end_offset` is the first offset that the snapshot does not contain. `epoch` is the epoch
    of the last offset in the snapshot."""

    end_offset: Offset
    epoch: LeaderEpoch

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{CHECKPOINT_SUFFIX}"


BOOTSTRAP_SNAPSHOT_ID = SnapshotId(FIRST_OFFSET, FIRST_LEADER_EPOCH)
"""The id of the snapshot with only the voters, which `kcli storage format` writes."""


def snapshot_id_of(file_name: str) -> SnapshotId | None:
    """The id in the file name of a finished snapshot. None for other file names."""
    match = _NAME.fullmatch(file_name)
    end_offset, epoch = (None, None) if match is None else (natural(match[1]), natural(match[2]))
    if end_offset is None or epoch is None:
        return None
    return SnapshotId(Offset(end_offset), LeaderEpoch(epoch))


def encode_snapshot(
    values: Iterable[bytes],
    *,
    epoch: LeaderEpoch,
    last_contained_log_timestamp_ms: int,
    now_ms: int,
    kraft_version: int = 0,
    voters: VotersRecord | None = None,
) -> Iterator[bytes]:
    """Yields the batches of a snapshot with these record values."""
    controls: list[RaftControl] = [
        SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp_ms)
    ]
    if kraft_version > 0:
        assert voters is not None, "kraft.version 1 keeps its voters in the log"
        controls += [KRaftVersionRecord(k_raft_version=kraft_version), voters]
    yield encode_raft_batch(tuple(controls), base_offset=0, leader_epoch=epoch, timestamp_ms=now_ms)
    offset = len(controls)
    for chunk in _chunks(values):
        records = [Record(timestamp_ms=now_ms, value=value) for value in chunk]
        yield encode_batch(records, base_offset=offset, leader_epoch=epoch)
        offset += len(records)
    yield encode_raft_batch(
        (SnapshotFooterRecord(),), base_offset=offset, leader_epoch=epoch, timestamp_ms=now_ms
    )


def _chunks(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size_bytes = 0
    for value in values:
        record_bytes = len(value) + RECORD_OVERHEAD_BYTES
        if chunk and size_bytes + record_bytes > MAX_BATCH_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(value)
        size_bytes += record_bytes
    if chunk:
        yield chunk


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that was read completely. `batches` has the record values of each data batch."""

    last_contained_log_timestamp_ms: int
    kraft_version: int
    voters: VotersRecord | None
    batches: tuple[tuple[bytes, ...], ...]


def decode_snapshot(content: bytes, name: str) -> Snapshot:
    """Reads a snapshot. Raises CorruptRecordError, with the file name, if the header or footer is missing or a batch is
    damaged."""
    controls: list[Control] = []
    batches: list[tuple[bytes, ...]] = []
    read_to = 0
    for position, header in iter_batches(content):
        _check_crc(content, position, header, name)
        records = read_records(content, position)
        if header.is_control:
            controls += [decode_control(record.key, record.value) for record in records]
        else:
            batches.append(tuple(record.value or b"" for record in records))
        read_to = position + header.size_bytes
    if read_to != len(content) or not controls:
        raise CorruptRecordError(f"{name} is cut short at byte {read_to} of {len(content)}")
    first, last = controls[0], controls[-1]
    if not isinstance(first, SnapshotHeaderRecord) or not isinstance(last, SnapshotFooterRecord):
        raise CorruptRecordError(
            f"{name} does not begin with a snapshot header and end with a snapshot footer"
        )
    kraft_version = next(
        (item.k_raft_version for item in controls if isinstance(item, KRaftVersionRecord)), 0
    )
    voters = next((item for item in controls if isinstance(item, VotersRecord)), None)
    return Snapshot(first.last_contained_log_timestamp, kraft_version, voters, tuple(batches))


def _check_crc(content: bytes, position: int, header: BatchHeader, name: str) -> None:
    if not crc_is_valid(content, position, header):
        raise CorruptRecordError(f"{name} has a batch with a wrong checksum at byte {position}")
