"""Replays the committed records of the metadata log, and passes the new metadata to the loader (loader.py).

The active controller replays its own records when it appends them, and keeps the result in memory until these records
are committed. All other records are read from the log when they are committed. Records that are never committed do not
change the committed state, which is a separate object (`ReplayPoint`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from kcli.errors import KafkaError, NotControllerException, ShortageError
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.metadata.replay import ImageReplayer, ReplayPoint
from kcli.metadata.snapshot_file import Snapshot, SnapshotId
from kcli.model.ids import NO_OFFSET, Offset
from kcli.protocol.records.metadata import MetadataRecord
from kcli.runtime.descriptors import SHORTAGE_PAUSE_S
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import DiskContent, LogBatch, MetadataLog, replay_snapshot

RECORDS_PER_TURN = 200
"""Records of a batch that are decoded in one iteration of the event loop. A record takes about 10 µs, so a turn takes
2 ms. A batch has up to 10,000 records."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Records from `base_offset` on that are replayed but not yet committed. The future `done` is completed when they
    are committed.
    """

    base_offset: Offset
    last_offset: Offset
    delta: MetadataDelta | None
    point: ReplayPoint
    done: asyncio.Future[None] | None = None


class CommittedMetadata:
    """Replays the committed records, and holds the metadata that results from them. Call `start` first."""

    def __init__(
        self, log: MetadataLog, loader: MetadataLoader, *, on_fatal: Callable[[BaseException], None]
    ) -> None:
        self.point = ReplayPoint(loader.image)
        self.next_offset = Offset(0)
        """The first offset that is not replayed yet."""
        self.on_advance: Callable[[], None] = lambda: None
        """Called when `next_offset` has moved."""
        self._log = log
        self._loader = loader
        self._on_fatal = on_fatal
        self._high_watermark = NO_OFFSET
        self._ahead: deque[Ahead] = deque()
        self._from_disk: Ahead | None = None
        self._reader: asyncio.Task[None] | None = None

    def start(self, content: DiskContent) -> None:
        """Begins with the content of the disk. The records after the snapshot are replayed when they are committed."""
        self.point = ReplayPoint(content.snapshot_image)
        self._loader.image = content.snapshot_image
        if content.snapshot_image.offset > NO_OFFSET:
            self._loader.snapshot_count += 1
        self.next_offset = Offset(content.snapshot_image.offset + 1)
        end_offset = content.start.log_end_offset
        if self.next_offset < end_offset:
            self._from_disk = Ahead(self.next_offset, Offset(end_offset - 1), None, content.replayer.point)
            self._ahead.append(self._from_disk)

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    @property
    def newest(self) -> ReplayPoint:
        """The state after the newest replayed records, committed or not."""
        return self._ahead[-1].point if self._ahead else self.point

    @property
    def last_appended(self) -> asyncio.Future[None] | None:
        """The future of the newest records that are not committed yet."""
        return self._ahead[-1].done if self._ahead else None

    def replayed(self, ahead: Ahead) -> None:
        """Adds records that the active controller has appended and replayed."""
        self._ahead.append(ahead)

    def drop_ahead(self, error: KafkaError) -> None:
        """Forgets all uncommitted records. The callers that wait for the commit of these records get `error`."""
        while self._ahead:
            done = self._ahead.popleft().done
            if done is not None and not done.done():
                done.set_exception(error)
                done.exception()  # The caller may have left, and asyncio reports an exception that was not read.

    # Committing.

    def commit(self, high_watermark: Offset) -> None:
        """Publishes the records before `high_watermark`. Records in memory are published immediately. Other records are
        first read from the log.
        """
        self._high_watermark = high_watermark
        if self._reader is not None:
            return
        if (
            self._ahead
            and self._ahead[0] is self._from_disk
            and self._from_disk.last_offset >= high_watermark
        ):
            # The last records of the log that was found at the start are not committed yet. They may be dropped, so the
            # image with these records must not be published.
            self._ahead.clear()
        self._publish_ahead()
        if self.next_offset < high_watermark:
            self._reader = asyncio.get_running_loop().create_task(self._read(), name="metadata-reader")
        else:
            self._caught_up()

    def _publish_ahead(self) -> None:
        while self._ahead and self._ahead[0].base_offset == self.next_offset:
            ahead = self._ahead[0]
            if ahead.last_offset >= self._high_watermark:
                return
            self._ahead.popleft()
            self.point = ahead.point
            self.next_offset = Offset(ahead.last_offset + 1)
            records = ahead.last_offset - ahead.base_offset + 1
            self._loader.publish(ahead.delta, ahead.point.image, records)
            if ahead.done is not None and not ahead.done.done():
                ahead.done.set_result(None)

    def _caught_up(self) -> None:
        self._loader.caught_up()
        self.on_advance()

    async def _read(self) -> None:
        """Replays records from the log until the high watermark is reached. The event loop serves clients after each
        batch, and while the records of a large batch are decoded.
        """
        try:
            while self.next_offset < self._high_watermark:
                try:
                    await self._read_up_to_watermark()
                except ShortageError:  # the log directory has logged the error
                    await asyncio.sleep(SHORTAGE_PAUSE_S)
            self._reader = None
            self._caught_up()
        except Exception as error:
            self._on_fatal(error)

    async def _read_up_to_watermark(self) -> None:
        end = self._high_watermark
        if self._ahead:
            end = min(end, self._ahead[0].base_offset)
        assert self.next_offset < end, "a high watermark is never inside a batch"
        for batch in self._log.batches(self.next_offset, end):
            records = await _decoded(batch)
            replayer = ImageReplayer.at(self.point)
            delta = batch.replay(replayer, records)
            self.point = replayer.point
            self.next_offset = batch.header.next_offset
            self._loader.publish(delta, self.point.image, batch.header.records_count)
            await asyncio.sleep(0)
        self._publish_ahead()

    # Snapshots of the leader.

    def point_of(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> ReplayPoint:
        """The state after a snapshot. This method takes long for many records, so call it in a thread."""
        replayer = ImageReplayer(MetadataImage(cluster_id=self._loader.image.cluster_id))
        replay_snapshot(replayer, snapshot_id, snapshot)
        return replayer.point

    def install(self, snapshot_id: SnapshotId, point: ReplayPoint) -> None:
        """Replaces the metadata by a snapshot. Listeners get the difference, which also contains deletions."""
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        self.drop_ahead(NotControllerException())
        delta = MetadataDelta.between(self.point.image, point.image)
        self.point = point
        self.next_offset = snapshot_id.end_offset
        self._loader.snapshot_count += 1
        self._loader.publish(delta, point.image)
        self.on_advance()


async def _decoded(batch: LogBatch) -> list[MetadataRecord]:
    """The records of a batch. The event loop serves clients after each RECORDS_PER_TURN records."""
    records: list[MetadataRecord] = []
    for record in batch.records():
        records.append(record)
        if len(records) % RECORDS_PER_TURN == 0:
            await asyncio.sleep(0)
    return records
