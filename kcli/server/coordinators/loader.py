"""Reads a coordinator's partition from its start, and applies the records to a new shard.

The log is read in pieces of `offsets.load.buffer.size`. A piece that is not in the page cache is read in a thread.
After every `RECORDS_PER_TURN` records, the event loop can do other work. If several records in a piece have the same
key, only the last of these records is replayed. Large pieces without transactions are decoded with numpy. For small
pieces, the import of numpy would take too long.

A new leader also reads records above its high watermark. The shard begins to serve when all these records are
committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from kcli.errors import TimeoutException
from kcli.model.ids import NO_PRODUCER_ID, Offset
from kcli.protocol.batches.batch import BatchHeader, iter_batches, read_records
from kcli.protocol.batches.control import EndTransactionMarker, decode_control
from kcli.runtime.threads import READS
from kcli.server.partitions.leader_partition import LeaderPartition

_log = logging.getLogger("kcli.server.CoordinatorLoader")

RECORDS_PER_TURN = 2_000
"""The number of records that are replayed in one iteration of the event loop. This takes about 10 ms, and a heartbeat
on another shard may have to wait for this time."""
COLUMNS_FROM_BYTES = 1 << 20
"""The smallest piece that is decoded with numpy. For a piece of this size, numpy saves more than the 100 ms that its
import takes."""

COMMIT_WARNING_SECONDS = 10.0
"""The pause between two warnings while the load waits for the commit of the records that it has read."""

Entry = tuple[int, bytes, bytes | None, int]
"""A record: offset, key, value, and the producer id of its transaction."""


class Replay(Protocol):
    """Applies a record of the log to the shard."""

    def __call__(self, key: bytes, value: bytes | None, offset: int, producer_id: int) -> None: ...


async def load(
    leader: LeaderPartition,
    *,
    replay: Replay,
    end_transaction: Callable[[int, bool], None],
    buffer_bytes: int,
) -> int:
    """Replays the log up to its end, and waits until everything that was replayed is committed. Returns the number of
    records that were read. Raises KafkaError or StorageError if the log cannot be read."""
    offset = leader.log.log_start_offset
    count = 0
    while offset < (end_offset := leader.log.log_end_offset):
        # `leader.log` is read in each round, because the log may move to another directory in the meantime.
        piece = leader.log.read(offset, buffer_bytes, end_offset=end_offset)
        cached = piece.read_cached()
        raw = bytes(await READS.run(piece.read) if cached is None else cached)
        headers = tuple(iter_batches(raw))
        offset = headers[-1][1].next_offset
        if any(header.is_transactional or header.is_control for _, header in headers):
            count += await _replay_transactions(raw, headers, replay, end_transaction)
            continue
        by_columns = len(raw) >= COLUMNS_FROM_BYTES
        entries = _by_columns(raw, str(leader)) if by_columns else _one_by_one(raw, headers)
        count += await _replay_last(entries, replay)
    await _committed(leader, offset)
    return count


async def _committed(leader: LeaderPartition, offset: Offset) -> None:
    """Waits until all records before `offset` are committed.

    A new leader has records that its followers may not have yet. The shard must not use these records for answers,
    because they may be lost at another election. The shard must not ignore them either, because it could then make the
    same decision twice.
    """
    while True:
        try:
            await leader.wait_committed(offset, COMMIT_WARNING_SECONDS)
            return
        except TimeoutException:
            _log.warning(
                "The coordinator of %s waits until offset %d is committed; the high watermark is %d, and the ISR "
                "needs %d members",
                leader,
                offset,
                leader.log.high_watermark,
                leader.state.isr.required,
            )


async def _replay_last(entries: Iterator[Entry], replay: Replay) -> int:
    last: dict[bytes, Entry] = {}
    count = 0
    for entry in entries:
        # The key is removed and added again, so that the keys of the table are in the order of their last records.
        last.pop(entry[1], None)
        last[entry[1]] = entry
        count += 1
        if count % RECORDS_PER_TURN == 0:
            await asyncio.sleep(0)
    for nth, (offset, key, value, producer_id) in enumerate(last.values(), 1):
        replay(key, value, offset, producer_id)
        if nth % RECORDS_PER_TURN == 0:
            await asyncio.sleep(0)
    return count


async def _replay_transactions(
    raw: bytes,
    headers: tuple[tuple[int, BatchHeader], ...],
    replay: Replay,
    end_transaction: Callable[[int, bool], None],
) -> int:
    """Replays in the order of the log, because the effect of a marker depends on the records before it."""
    count = 0
    for batch in headers:
        position, header = batch
        if header.is_control:
            for record in read_records(raw, position):
                control = decode_control(record.key, record.value)
                if isinstance(control, EndTransactionMarker):
                    end_transaction(header.producer_id, control.committed)
            continue
        for offset, key, value, producer_id in _one_by_one(raw, (batch,)):
            replay(key, value, offset, producer_id)
            count += 1
            if count % RECORDS_PER_TURN == 0:
                await asyncio.sleep(0)
    return count


def _one_by_one(raw: bytes, headers: tuple[tuple[int, BatchHeader], ...]) -> Iterator[Entry]:
    for position, header in headers:
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in read_records(raw, position):
            if record.key is not None:
                yield record.offset, record.key, record.value, producer_id


def _by_columns(raw: bytes, name: str) -> Iterator[Entry]:
    from kcli.protocol.batches.batch_headers import read_headers
    from kcli.protocol.batches.columns import Depth, decode

    for columns in decode(read_headers(raw, name), Depth.VALUE):
        assert columns.keys is not None and columns.values is not None, "asked for both"
        buffer = columns.buffer
        for offset, key_at, key_length, value_at, value_length in zip(
            columns.offsets.tolist(),
            columns.keys.starts.tolist(),
            columns.keys.lengths.tolist(),
            columns.values.starts.tolist(),
            columns.values.lengths.tolist(),
            strict=True,
        ):
            if key_length >= 0:
                value = None if value_length < 0 else buffer[value_at : value_at + value_length]
                yield offset, buffer[key_at : key_at + key_length], value, NO_PRODUCER_ID
