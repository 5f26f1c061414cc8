"""Reads a coordinator's partition from its start and replays it into a new shard.

The log is read in pieces of `offsets.load.buffer.size`, off the event loop where the page cache does not have them, and
the loop gets its turn after every `RECORDS_PER_TURN` records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from kcli.protocol.batch import BatchHeader, iter_batches, read_records
from kcli.protocol.control import EndTransactionMarker, decode_control
from kcli.storage.log import PartitionLog

RECORDS_PER_TURN = 2_000
"""About 10 ms of replaying: what a heartbeat on another shard may have to wait."""
NO_PRODUCER_ID = -1


class Replayed(Protocol):
    """What loading needs of a shard: it takes the key and value of a record, and the end of a transaction."""

    def __call__(self, key: bytes, value: bytes | None, offset: int, producer_id: int) -> None: ...


async def load(
    log: PartitionLog,
    *,
    replay: Replayed,
    end_transaction: Callable[[int, bool], None],
    buffer_bytes: int,
) -> int:
    """Replays everything up to the present end of the log; returns the number of records. Raises KafkaError and
    StorageError as the log does."""
    offset = log.log_start_offset
    end_offset = log.log_end_offset
    count = 0
    while offset < end_offset:
        piece = log.read(offset, buffer_bytes, end_offset=end_offset)
        raw = piece.read_cached()
        if raw is None:
            raw = await asyncio.to_thread(piece.read)
        for position, header in iter_batches(raw):
            offset = header.next_offset
            if header.is_control:
                _replay_control(raw, position, header, end_transaction)
                continue
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in read_records(raw, position):
                if record.key is not None:
                    replay(record.key, record.value, record.offset, producer_id)
                count += 1
                if count % RECORDS_PER_TURN == 0:
                    await asyncio.sleep(0)
    return count


def _replay_control(
    raw: bytes | bytearray, position: int, header: BatchHeader, end_transaction: Callable[[int, bool], None]
) -> None:
    for record in read_records(raw, position):
        control = decode_control(record.key, record.value)
        if isinstance(control, EndTransactionMarker):
            end_transaction(header.producer_id, control.committed)
