"""Reads and checks runs of batches that a follower has fetched from its leader. A run is appended with one write.

The batches keep their offsets, epochs and timestamps. A follower trusts its leader's checks of the records, but not the
network or the leader's disk. So it checks the checksum of each batch and the order of the offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import CorruptRecordError, CorruptRecordException, InvalidRecordException
from kcli.model.buffers import Buffer
from kcli.model.ids import MAX_OFFSET, NO_LEADER_EPOCH, NO_TIMESTAMP, LeaderEpoch, Offset
from kcli.protocol.batches.batch import crc_is_valid, iter_batches
from kcli.storage.log.markers import read_marker
from kcli.storage.log.validation import PlacedBatch

STEP_BYTES = 1 << 20
"""The most bytes of a run. A larger run would block the event loop for more than a millisecond."""

STEP_BATCHES = 256
"""The most batches of a run. Checking this many small batches takes about a millisecond too."""


@dataclass(frozen=True, slots=True)
class Run:
    """Several batches that follow one another in a buffer. `end` is the position after the last batch."""

    batches: list[PlacedBatch]
    end: int


def read_run(
    records: Buffer,
    position: int,
    *,
    leader_epoch: LeaderEpoch,
    run_max_bytes: int,
    topic_partition: str,
) -> Run:
    """Reads the headers of the next run. Raises CorruptRecordException if a header is invalid.

    The run is empty if no complete batch follows, or if the epoch of the next batch is newer than `leader_epoch`. A run
    has at most `run_max_bytes`, unless its only batch is larger.
    """
    batches: list[PlacedBatch] = []
    limit = position + min(STEP_BYTES, run_max_bytes)
    end = position
    try:
        for at, header in iter_batches(records, position):
            size = header.size_bytes
            if batches and (at + size > limit or len(batches) == STEP_BATCHES):
                break
            # A newer leader wrote this batch. The follower must compare its log with the log of this leader first, so
            # it does not append the batch.
            if header.partition_leader_epoch > leader_epoch != NO_LEADER_EPOCH:
                break
            end = at + size
            batches.append(
                PlacedBatch(header, header.base_offset, size, (memoryview(records)[at:end],), NO_TIMESTAMP)
            )
    except CorruptRecordError as error:
        if not batches:  # otherwise the batches before the invalid header are appended first
            raise CorruptRecordException(f"{error} in topic partition {topic_partition}") from None
    return Run(batches, end)


def check_run(records: Buffer, run: Run, next_offset: Offset, topic_partition: str) -> None:
    """Raises KafkaError if a batch of the run has a wrong checksum, or begins before the end of the batch before it."""
    for batch in run.batches:
        header = batch.header
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise InvalidRecordException(
                f"Append to {topic_partition} at offset {header.base_offset}, expected {next_offset} or more"
            )
        if not crc_is_valid(batch.buffers[0], 0, header):
            raise CorruptRecordException(
                f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic_partition}."
            )
        if header.next_offset > MAX_OFFSET:
            raise InvalidRecordException(
                f"Append to {topic_partition} ends after the largest offset {MAX_OFFSET}"
            )
        if header.is_control:
            _check_control(batch, topic_partition)
        next_offset = header.next_offset


def _check_control(batch: PlacedBatch, topic_partition: str) -> None:
    """Raises KafkaError if the record of a control batch cannot be read. Without this check, the append would write the
    batch and then fail."""
    try:
        read_marker(batch.buffers[0])
    except CorruptRecordError as error:
        raise CorruptRecordException(f"{error} in topic partition {topic_partition}") from None
