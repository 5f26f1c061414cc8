"""The periodic work of the active controller: no-op records, fencing, new snapshots, removal of old snapshots."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from kcli.config.broker import BrokerConfig
from kcli.controller.bootstrap import encode_records
from kcli.errors import KafkaError, StorageError
from kcli.metadata.image import MetadataImage
from kcli.metadata.snapshot import image_records
from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.ids import Offset
from kcli.runtime.clock import Clock
from kcli.server.quorum.active_controller import ActiveController
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import MetadataLog, QuorumVoters

_log = logging.getLogger("kcli.server.QuorumController")

# The interval at which expired sessions, old snapshots and the need of a new snapshot are checked.
INTERVAL_S = 1.0
# Kafka looks for old snapshots once a minute.
CLEAN_INTERVAL_MS = 60_000


class QuorumHousekeeping:
    """The periodic work. Call `start` when the controller leads, and `stop` before it resigns."""

    def __init__(
        self,
        active: ActiveController,
        log: MetadataLog,
        loader: MetadataLoader,
        quorum_voters: QuorumVoters,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        self._active = active
        self._log = log
        self._loader = loader
        self._quorum_voters = quorum_voters
        self._config = config
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._snapshot_ms = clock.now_ms()
        self._cleaned_ms = clock.now_ms()

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._idle_loop(), name="quorum-idle"),
            asyncio.create_task(self._loop(), name="quorum-housekeeping"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _idle_loop(self) -> None:
        """Appends a no-op record at an interval, which shows that the quorum is alive (KIP-835)."""
        interval_ms = self._config.integer("metadata.max.idle.interval.ms")
        while interval_ms > 0:
            await asyncio.sleep(interval_ms / 1000)
            if self._active.has_failed:
                return
            with contextlib.suppress(StorageError, KafkaError):
                await self._active.write(self._active.controller.no_op())

    async def _loop(self) -> None:
        own_broker = self._config.node_id if self._config.is_broker else None
        while not self._active.has_failed:
            await asyncio.sleep(INTERVAL_S)
            try:
                controller = self._active.controller
                await self._active.write(controller.fence_expired(self._clock.now_ms(), exempt=own_broker))
                if self._wants_snapshot():
                    await self.take_snapshot()
                await self._clean()
            except KafkaError as error:
                _log.error("Housekeeping of the metadata failed: %s", error.message)
            except StorageError as error:
                self._active.fail(error)

    def _wants_snapshot(self) -> bool:
        newest = self._log.snapshots[-1].end_offset if self._log.snapshots else 0
        if self._loader.image.offset < newest or self._active.controller.in_transaction:
            return False
        if self._log.bytes_since_snapshot >= self._config.integer(
            "metadata.log.max.record.bytes.between.snapshots"
        ):
            return True
        interval_ms = self._config.integer("metadata.log.max.snapshot.interval.ms")
        return 0 < interval_ms <= self._clock.now_ms() - self._snapshot_ms

    async def take_snapshot(self) -> None:
        """Writes a snapshot of the committed image, in a thread."""
        image = self._loader.image
        snapshot_id = SnapshotId(Offset(image.offset + 1), image.epoch)
        if snapshot_id in self._log.snapshots:
            return
        covered = self._log.bytes_since_snapshot
        self._snapshot_ms = self._clock.now_ms()
        await asyncio.to_thread(self._write_snapshot, snapshot_id, image)
        self._log.took_snapshot(snapshot_id, covered)

    def _write_snapshot(self, snapshot_id: SnapshotId, image: MetadataImage) -> None:
        values = encode_records(list(image_records(image)), image.metadata_version)
        self._log.write_snapshot(snapshot_id, values, image.timestamp_ms, self._quorum_voters)

    async def _clean(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._cleaned_ms < CLEAN_INTERVAL_MS:
            return
        self._cleaned_ms = now_ms
        self._log.clean(
            self._config.integer("metadata.max.retention.bytes"),
            self._config.integer("metadata.max.retention.ms"),
        )
