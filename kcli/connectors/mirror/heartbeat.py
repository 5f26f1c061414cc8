"""MirrorHeartbeatConnector: writes heartbeats to the target, so that users see that the flow is alive."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from kcli.connectors.interface import Config, Offset, Partition, SourceConnector, SourceTask
from kcli.connectors.mirror.background import Background, Scheduler
from kcli.connectors.mirror.copying import source_offset
from kcli.connectors.mirror.internal_topics import create_internal_topic
from kcli.connectors.mirror.keys import EMIT_HEARTBEATS, HEARTBEAT_KEYS, PACKAGE
from kcli.connectors.mirror.offset_checks import check_offsets
from kcli.connectors.mirror.policy import HEARTBEATS
from kcli.connectors.mirror.records import Heartbeat
from kcli.connectors.mirror.settings import Settings
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.schema import BYTES_SCHEMA

_SOURCE, _TARGET = "sourceClusterAlias", "targetClusterAlias"


class MirrorHeartbeatTask(SourceTask):
    """Writes one heartbeat in each interval."""

    java_class = f"{PACKAGE}MirrorHeartbeatTask"

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def start(self, config: Config) -> None:
        self._settings = settings = Settings.of(HEARTBEAT_KEYS, config, is_task=True)
        self._interval_s = settings.interval_s(EMIT_HEARTBEATS) or 0.0
        self._partition = {_SOURCE: settings.source, _TARGET: settings.target}

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._stopping.wait(self._interval_s):
            return None
        now_ms = int(time.time() * 1000)
        heartbeat = Heartbeat(self._settings.source, self._settings.target, now_ms)
        return [
            SourceRecord(
                self._partition, source_offset(0), HEARTBEATS, heartbeat.value(), BYTES_SCHEMA, heartbeat.key(),
                BYTES_SCHEMA, 0, now_ms,
            )
        ]  # fmt: skip

    def stop(self) -> None:
        self._stopping.set()


class MirrorHeartbeatConnector(SourceConnector):
    """Creates the topic of heartbeats. It has one task."""

    java_class = f"{PACKAGE}MirrorHeartbeatConnector"
    config_def = HEARTBEAT_KEYS
    task_class = MirrorHeartbeatTask

    def start(self, config: Config) -> None:
        super().start(config)
        self._settings = settings = Settings.of(HEARTBEAT_KEYS, config)
        background = Background("mirror-heartbeat-connector")
        client = background.client(settings.client("target", "admin", "heartbeats-target-admin"))
        factor = settings.number("heartbeats.topic.replication.factor")
        scheduler = Scheduler(
            background, f"MirrorHeartbeatConnector: {settings.label}", settings.admin_timeout_s
        )
        try:
            scheduler.execute(
                lambda: create_internal_topic(client, HEARTBEATS, factor), "creating internal topics"
            )
        finally:
            background.close()

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [] if self._settings.interval_s(EMIT_HEARTBEATS) is None else [self.config]

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        check_offsets(offsets, (_SOURCE, _TARGET), has_partition=False, only_zero=True)
        return True
