"""MirrorSourceConnector: copies the records of topics, and keeps the remote topics in step with their sources."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence

from kcli.client.admin.admin import AdminClient
from kcli.connectors.interface import (
    Config,
    Offset,
    Partition,
    RecordMetadata,
    SourceConnector,
    SourceTask,
)
from kcli.connectors.keys import names
from kcli.connectors.mirror.background import Background, Closed, Scheduler
from kcli.connectors.mirror.copying import (
    next_position,
    source_partition,
    source_records,
    task_partitions,
    upstream,
)
from kcli.connectors.mirror.decisions import dealt
from kcli.connectors.mirror.fetcher import Fetcher, FetchSettings
from kcli.connectors.mirror.filters import ConfigFilter, CopiedTopics, joined
from kcli.connectors.mirror.internal_topics import create_internal_topic
from kcli.connectors.mirror.keys import (
    EMIT_OFFSET_SYNCS,
    PACKAGE,
    SOURCE,
    SOURCE_KEYS,
    SOURCE_SETTINGS,
    TASK_INDEX,
    TASK_PARTITIONS,
    reads_committed,
    source_errors,
)
from kcli.connectors.mirror.offset_checks import check_offsets
from kcli.connectors.mirror.offset_syncs import OffsetSyncQueue
from kcli.connectors.mirror.remote_topics import Flow, RemoteTopics
from kcli.connectors.mirror.settings import Settings
from kcli.connectors.mirror.sync_writer import OffsetSyncWriter
from kcli.connectors.records import SourceRecord
from kcli.model.topic_partition import TopicPartition

_connector_log = logging.getLogger(f"{PACKAGE}MirrorSourceConnector")
_task_log = logging.getLogger(f"{PACKAGE}MirrorSourceTask")


class MirrorSourceTask(SourceTask):
    """Copies the records of some partitions."""

    java_class = f"{PACKAGE}MirrorSourceTask"

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._background: Background | None = None
        self._pending: Iterator[SourceRecord] = iter(())
        self._syncs: OffsetSyncWriter | None = None
        self._acknowledged: list[tuple[TopicPartition, int, int]] = []
        """Copied records of which the writer of offset syncs has not heard."""

    def start(self, config: Config) -> None:
        settings = Settings.of(SOURCE_SETTINGS, config, is_task=True)
        partitions = task_partitions(config.get(TASK_PARTITIONS, ""))
        self._poll_timeout_s = settings.poll_timeout_s
        self._partitions = {
            partition: (source_partition(settings.source, partition), self._remote(settings, partition))
            for partition in partitions
        }
        self._background = background = Background("mirror-source")
        properties = settings.client("source", "consumer", "replication-consumer")
        self._fetch_settings = FetchSettings.of(properties)
        self._fetcher = Fetcher(
            background.client(properties),
            background.client(properties),
            self._positions(partitions),
            self._fetch_settings,
        )
        if settings.flag(EMIT_OFFSET_SYNCS):
            side = settings.syncs_side
            client = background.client(settings.client(side, "producer", f"offset-syncs-{side}-producer"))
            queue = OffsetSyncQueue(settings.number("offset.lag.max"))
            self._syncs = OffsetSyncWriter(client, settings.syncs_topic, queue)
            background.spawn(self._syncs.run())
        _task_log.info(
            "%s replicating %d topic-partitions %s->%s: [%s].",
            threading.current_thread().name,
            len(partitions),
            settings.source,
            settings.target,
            ", ".join(map(str, partitions)),
        )

    @staticmethod
    def _remote(settings: Settings, partition: TopicPartition) -> str:
        return settings.policy.remote_topic(settings.source, partition.topic)

    def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        stored = self.context.offsets.offsets([self._partitions[partition][0] for partition in partitions])
        positions = dict(zip(partitions, map(next_position, stored), strict=True))
        uncommitted = sum(position is None for position in positions.values())
        _task_log.info("Starting with %d previously uncommitted partitions.", uncommitted)
        return positions

    def poll(self) -> Sequence[SourceRecord] | None:
        background = self._background
        assert background is not None, "the worker has started the task"
        if self._acknowledged:
            self._report(is_commit=False)
        records = self._next()
        if records or self._stopping.is_set():
            return records or None
        try:
            fetched = background.run(self._fetcher.next(self._poll_timeout_s))
        except Closed:
            return None
        self._pending = itertools.chain.from_iterable(
            source_records(part, *self._partitions[part.partition]) for part in fetched
        )
        return self._next() or None

    def _next(self) -> list[SourceRecord]:
        return list(itertools.islice(self._pending, self._fetch_settings.records_max))

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        if metadata is None:
            _task_log.debug("A record of %s was left out, so it has no offset sync.", record.topic)
            return
        self._acknowledged.append((*upstream(record), metadata.offset))
        if len(self._acknowledged) >= self._fetch_settings.records_max:
            self._report(is_commit=False)

    def commit(self) -> None:
        self._report(is_commit=True)

    def _report(self, *, is_commit: bool) -> None:
        records, self._acknowledged = self._acknowledged, []
        if self._syncs is not None and self._background is not None:
            self._background.call(lambda syncs: syncs.copied(records, is_commit=is_commit), self._syncs)

    def stop(self) -> None:
        self._stopping.set()
        if self._background is not None:
            self._background.close()


class MirrorSourceConnector(SourceConnector):
    """Creates remote topics, and divides the partitions of the source among tasks."""

    java_class = f"{PACKAGE}MirrorSourceConnector"
    config_def = SOURCE_KEYS
    task_class = MirrorSourceTask
    monitors = True

    def __init__(self) -> None:
        self._background: Background | None = None
        self._topics: RemoteTopics | None = None

    def start(self, config: Config) -> None:
        super().start(config)
        self._settings = settings = Settings.of(SOURCE_SETTINGS, config)
        if not settings.is_enabled:
            return
        self._background = background = Background("mirror-source-connector")
        self._topics = topics = RemoteTopics(
            _flow(settings),
            background.client(settings.client("source", "admin", "replication-source-admin")),
            background.client(settings.client("target", "admin", "replication-target-admin")),
            self.context.raise_error,
        )
        scheduler = Scheduler(
            background, f"MirrorSourceConnector: {settings.label}", settings.admin_timeout_s
        )
        if settings.flag(EMIT_OFFSET_SYNCS):
            scheduler.execute(self._create_syncs_topic, "creating upstream offset-syncs topic")
        scheduler.execute(topics.load, "loading initial set of topic-partitions")
        scheduler.execute(topics.create_missing, "creating downstream topic-partitions")
        scheduler.execute(topics.load_remote, "refreshing known target topics")
        scheduler.repeat(topics.sync_acls, settings.interval_s("sync.topic.acls"), "syncing topic ACLs")
        scheduler.repeat(
            topics.sync_configs, settings.interval_s("sync.topic.configs"), "syncing topic configs"
        )
        scheduler.repeat(
            self._refresh, settings.interval_s("refresh.topics"), "refreshing topics", is_delayed=True
        )
        _connector_log.info(
            "Started %s with %d topic-partitions.", config.get("name"), len(topics.partitions)
        )

    async def _create_syncs_topic(self) -> None:
        settings, background = self._settings, self._background
        assert background is not None
        side = settings.syncs_side
        client: AdminClient = background.client(settings.client(side, "admin", f"offset-syncs-{side}-admin"))
        factor = settings.number("offset-syncs.topic.replication.factor")
        await create_internal_topic(client, settings.syncs_topic, factor)

    async def _refresh(self) -> None:
        assert self._topics is not None
        if await self._topics.refresh():
            self.context.request_task_reconfiguration()

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        if self._topics is None:
            return []
        return [
            {
                **self.config,
                TASK_PARTITIONS: ",".join(map(str, partitions)),
                TASK_INDEX: str(index),
            }
            for index, partitions in enumerate(dealt(self._topics.partitions, max_tasks))
        ]

    def stop(self) -> None:
        if self._background is not None:
            self._background.close()

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        return source_errors(config)

    def exactly_once_support(self, config: Config) -> bool | None:
        return reads_committed(config)

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        check_offsets(offsets, ("cluster", "topic"), has_partition=True, only_zero=False)
        return True


def _flow(settings: Settings) -> Flow:
    values = settings.values
    return Flow(
        settings.source,
        settings.target,
        settings.policy,
        CopiedTopics(
            settings.topic_filter(),
            settings.policy,
            settings.target,
            copies_heartbeats=settings.flag("heartbeats.replication.enabled"),
        ),
        ConfigFilter(
            joined(names(values, "config.properties.exclude")),
            copies_defaults=values["use.defaults.from"] == SOURCE,
        ),
        settings.number("replication.factor"),
    )
