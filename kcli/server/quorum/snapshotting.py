"""Decides when this node takes a new snapshot of the metadata, and when it deletes old snapshots (KIP-630).

Every node takes its own snapshots, because every node has the committed metadata.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from kcli.config.broker import BrokerConfig
from kcli.controller.bootstrap import encode_records
from kcli.errors import ShortageError, StorageError
from kcli.metadata.image import MetadataImage
from kcli.metadata.snapshot import image_records
from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.ids import Offset
from kcli.raft.messages import LogCleaned, Message, VotersAt
from kcli.runtime.clock import Clock
from kcli.runtime.threads import run_in
from kcli.server.quorum.committed import CommittedMetadata
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.server.quorum.view import QuorumView

_log = logging.getLogger("kcli.server.SnapshotGenerator")

INTERVAL_S = 1.0
"""The interval at which this node checks whether it needs a new snapshot."""
CLEAN_INTERVAL_MS = 60_000
"""The interval at which this node looks for old snapshots, as in Kafka."""
LAST_SNAPSHOT_BYTES = 1 << 20
"""If the log has grown by at least this number of bytes since the last snapshot, a stop of the node takes a new
snapshot. The next start would otherwise replay these bytes, and this number of bytes takes about 0.3 s. Each stop and
start of a node writes two records for each partition that the node leads."""


class Snapshotting:
    """Takes and deletes snapshots from `start` to `stop`."""

    def __init__(
        self,
        log: MetadataLog,
        committed: CommittedMetadata,
        view: QuorumView,
        config: BrokerConfig,
        clock: Clock,
        *,
        post: Callable[[Message], None],
        on_fatal: Callable[[BaseException], None],
        executor: Executor | None = None,
    ) -> None:
        """`post` reports to the raft node which snapshots and which part of the log exist. `executor` writes the
        snapshots."""
        self._executor = executor
        self._log = log
        self._committed = committed
        self._view = view
        self._config = config
        self._clock = clock
        self._post = post
        self._on_fatal = on_fatal
        self._task: asyncio.Task[None] | None = None
        self._snapshot_ms = clock.now_ms()
        self._latest_ms = clock.now_ms()
        self.latest_bytes = 0
        """The size of the newest snapshot that this node has taken, or of the snapshot that it has loaded."""
        self._cleaned_ms = clock.now_ms()

    @property
    def latest_age_ms(self) -> int:
        """The time since the last new snapshot. Before the first new snapshot, the time since the node started."""
        return self._clock.now_ms() - self._latest_ms

    def start(self) -> None:
        self.latest_bytes = self._log.snapshots.newest_bytes
        self._task = asyncio.create_task(self._loop(), name="metadata-snapshots")

    async def stop(self, *, clean: bool) -> None:
        """Ends the work. If `clean` is True and the log is long, takes a last snapshot, so that the next start replays
        less of the log."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if clean and self._may_write_snapshot() and self._log.bytes_since_snapshot >= LAST_SNAPSHOT_BYTES:
            try:
                await self.write_snapshot()
            except StorageError as error:
                _log.warning("The stop has not taken a snapshot: %s", error)

    async def _loop(self) -> None:
        try:
            while True:
                await asyncio.sleep(INTERVAL_S)
                # The log directory logs a shortage of descriptors. The next round tries again.
                with contextlib.suppress(ShortageError):
                    if self.wants_snapshot():
                        await self.write_snapshot()
                    self._clean()
        except StorageError as error:
            self._on_fatal(error)

    def wants_snapshot(self) -> bool:
        """Whether a snapshot is due, because of the bytes of the log or the time since the last snapshot."""
        if not self._may_write_snapshot():
            return False
        if self._log.bytes_since_snapshot >= self._config.integer(
            "metadata.log.max.record.bytes.between.snapshots"
        ):
            return True
        interval_ms = self._config.integer("metadata.log.max.snapshot.interval.ms")
        return 0 < interval_ms <= self._clock.now_ms() - self._snapshot_ms

    def _may_write_snapshot(self) -> bool:
        point = self._committed.point
        return point.image.offset >= self._log.snapshots.newest.end_offset and point.transaction is None

    async def write_snapshot(self) -> None:
        """Writes a snapshot of the committed image, in a thread. Raises StorageError."""
        image = self._committed.point.image
        snapshot_id = SnapshotId(Offset(image.offset + 1), image.epoch)
        if snapshot_id in self._log.snapshots.ids:
            return
        covered = self._log.bytes_since_snapshot
        self._snapshot_ms = self._clock.now_ms()
        await run_in(self._executor, self._write, snapshot_id, image, self._view.voters_at(image.offset))
        if snapshot_id.end_offset < self._log.snapshots.newest.end_offset:
            return  # the leader's snapshot was installed meanwhile; the next start deletes this one
        self._log.took_snapshot(snapshot_id, covered)
        self.latest_bytes, self._latest_ms = self._log.snapshots.newest_bytes, self._clock.now_ms()
        self.report()

    def _write(self, snapshot_id: SnapshotId, image: MetadataImage, voters: VotersAt) -> None:
        values = encode_records(list(image_records(image)), image.metadata_version)
        self._log.write_snapshot(snapshot_id, values, image.timestamp_ms, voters)

    def _clean(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._cleaned_ms < CLEAN_INTERVAL_MS:
            return
        self._cleaned_ms = now_ms
        before = self._log.snapshots.ids
        self._log.clean(
            self._config.integer("metadata.max.retention.bytes"),
            self._config.integer("metadata.max.retention.ms"),
        )
        if self._log.snapshots.ids != before:
            self.report()

    def report(self) -> None:
        """Reports to the raft node which snapshots and which part of the log exist."""
        self._post(LogCleaned(self._log.log.log_start_offset, tuple(self._log.snapshots.ids)))
