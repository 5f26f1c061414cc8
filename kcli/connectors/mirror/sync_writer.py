"""Writes offset syncs to their topic, beside the records that the worker produces."""

from __future__ import annotations

import asyncio
import logging
import time

from kcli.client.admin.admin import AdminClient
from kcli.client.topic_table.writers import IdempotentWriter
from kcli.connectors.mirror.offset_syncs import OffsetSyncQueue
from kcli.connectors.mirror.records import OffsetSync
from kcli.errors import KcliError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record

_log = logging.getLogger("org.apache.kafka.connect.mirror.OffsetSyncWriter")


class OffsetSyncWriter:
    """Writes the syncs that are due, one batch at a time. Its methods are called in one event loop."""

    def __init__(self, client: AdminClient, topic: str, queue: OffsetSyncQueue) -> None:
        self._client = client
        self._writer = IdempotentWriter(client)
        self._partition = TopicPartition(topic, 0)
        self._queue = queue
        self._wake = asyncio.Event()

    def copied(self, records: list[tuple[TopicPartition, int, int]], *, is_commit: bool) -> None:
        """Records of the source stand in the target: partition, offset in the source, offset in the target."""
        for partition, upstream, downstream in records:
            self._queue.copied(partition, upstream, downstream)
        if is_commit:
            self._queue.commit()
        self._wake.set()

    async def run(self) -> None:
        """Writes until it is cancelled. A sync that cannot be written is written later."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while syncs := self._queue.take():
                try:
                    await self._write(syncs)
                except (KcliError, OSError) as error:
                    _log.error("Failure sending offset sync.", exc_info=error)
                    self._queue.give_back(syncs)
                    break  # the next record or commit tries again

    async def _write(self, syncs: list[OffsetSync]) -> None:
        now_ms = int(time.time() * 1000)
        records = [
            Record(offset=-1, timestamp_ms=now_ms, key=sync.key(), value=sync.value()) for sync in syncs
        ]
        await self._writer.write({self._partition: records})
