"""MirrorCheckpointConnector: translates the committed offsets of groups, and commits them in the target."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CLASSIC, CONSUMER, CONSUMER_PROTOCOL_TYPES, GroupListing
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.reader import TableReader
from kcli.connectors.interface import Config, Offset, Partition, SourceConnector, SourceTask
from kcli.connectors.keys import names
from kcli.connectors.mirror.background import Background, Closed, Scheduler
from kcli.connectors.mirror.copying import source_offset
from kcli.connectors.mirror.decisions import divided
from kcli.connectors.mirror.filters import NameFilter
from kcli.connectors.mirror.groups import Translator, has_topic, offsets_to_commit, task_groups
from kcli.connectors.mirror.internal_topics import create_internal_topic
from kcli.connectors.mirror.keys import (
    CHECKPOINT_KEYS,
    CHECKPOINT_SETTINGS,
    EMIT_CHECKPOINTS,
    PACKAGE,
    TASK_GROUPS,
    TASK_INDEX,
    checkpoint_errors,
)
from kcli.connectors.mirror.offset_checks import check_offsets
from kcli.connectors.mirror.offset_syncs import OffsetSyncStore
from kcli.connectors.mirror.records import Checkpoint, InvalidMirrorRecord, OffsetSync
from kcli.connectors.mirror.settings import Settings
from kcli.connectors.records import SourceRecord
from kcli.errors import (
    GroupAuthorizationException,
    GroupIdNotFoundException,
    KafkaError,
    KcliError,
    TopicAuthorizationException,
    UnknownMemberIdException,
)
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.schema import BYTES_SCHEMA
from kcli.model.topic_partition import TopicPartition

_connector_log = logging.getLogger(f"{PACKAGE}MirrorCheckpointConnector")
_log = logging.getLogger(f"{PACKAGE}MirrorCheckpointTask")
_store_log = logging.getLogger(f"{PACKAGE}CheckpointStore")

_RETRY_S = 1.0
"""The pause before the topics are read again after an error."""
_EMPTY, _DEAD = "Empty", "Dead"


class MirrorCheckpointTask(SourceTask):
    """Writes checkpoints of some groups, and commits their offsets in the target."""

    java_class = f"{PACKAGE}MirrorCheckpointTask"

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._background: Background | None = None
        self._failure: Exception | None = None

    def start(self, config: Config) -> None:
        self._settings = settings = Settings.of(CHECKPOINT_SETTINGS, config, is_task=True)
        self._groups = tuple(task_groups(config.get(TASK_GROUPS, "")))
        self._interval_s = settings.interval_s(EMIT_CHECKPOINTS) or 0.0
        self._next_poll = time.monotonic() + self._interval_s
        self._background = background = Background("mirror-checkpoint")
        self._source = background.client(settings.client("source", "admin", "checkpoint-source-admin"))
        self._target = background.client(settings.client("target", "admin", "checkpoint-target-admin"))
        syncs = OffsetSyncStore(keeps_history=False)
        self._translator = Translator(
            settings.policy, settings.source, settings.target, settings.topic_filter(), syncs
        )
        background.spawn(self._follow_syncs(background))
        scheduler = Scheduler(background, f"MirrorCheckpointTask: {settings.label}", settings.admin_timeout_s)
        scheduler.repeat(
            self._sync_groups,
            settings.interval_s("sync.group.offsets"),
            "sync idle consumer group offset from source to target",
            is_delayed=True,
        )
        _log.info(
            "%s checkpointing %d consumer groups %s->%s: %s.",
            threading.current_thread().name,
            len(self._groups),
            settings.source,
            settings.target,
            ", ".join(self._groups),
        )

    def poll(self) -> Sequence[SourceRecord] | None:
        background = self._background
        assert background is not None, "the worker has started the task"
        wait_s = min(max(self._next_poll - time.monotonic(), 0.0), self._settings.poll_timeout_s)
        if self._stopping.wait(wait_s) or time.monotonic() < self._next_poll:
            return None
        self._next_poll = time.monotonic() + self._interval_s
        if self._failure is not None:
            raise ConnectException("The topic of offset syncs cannot be read") from self._failure
        try:
            checkpoints = background.run(self._checkpoints())
        except Closed:
            return None
        now_ms = int(time.time() * 1000)
        return [self._record(checkpoint, now_ms) for checkpoint in checkpoints] or None

    def _record(self, checkpoint: Checkpoint, now_ms: int) -> SourceRecord:
        partition = {
            "partition": checkpoint.partition.partition,
            "topic": checkpoint.partition.topic,
            "group": checkpoint.group,
        }  # in the order of Java's map
        topic = self._settings.checkpoints_topic
        return SourceRecord(
            partition, source_offset(0), topic, checkpoint.value(), BYTES_SCHEMA, checkpoint.key(), BYTES_SCHEMA,
            0, now_ms,
        )  # fmt: skip

    async def _checkpoints(self) -> list[Checkpoint]:
        if not self._translator.syncs.is_loaded:
            return []
        source, checkpoints = self._settings.source, []
        try:
            offsets = await self._source.list_all_offsets(self._groups)
        except KcliError as error:
            _log.warning("Failure polling consumer state for checkpoints.", exc_info=error)
            return []
        for group in self._groups:
            committed = offsets.get(group, {})
            if isinstance(committed, KafkaError):
                _log.error(
                    "Error querying offsets for consumer group %s on cluster %s.", group, source,
                    exc_info=committed,
                )  # fmt: skip
            else:
                checkpoints += self._translator.new_checkpoints(group, committed)
        return checkpoints

    # The topics that the task reads.

    async def _follow_syncs(self, background: Background) -> None:
        """Reads the checkpoints that this flow wrote before, and then follows the topic of offset syncs."""
        settings = self._settings
        keeps_history = await self._load_checkpoints(background)
        side = settings.syncs_side
        properties = settings.client(side, "consumer", f"offset-syncs-{side}-consumer")
        client, fetching = background.client(properties), background.client(properties)
        while True:
            syncs = self._translator.syncs = OffsetSyncStore(keeps_history=keeps_history)

            def take(change: Change, syncs: OffsetSyncStore = syncs) -> None:
                try:
                    syncs.add(OffsetSync.parse(change.key, change.value))
                except InvalidMirrorRecord as error:
                    _log.warning("Ignored invalid offset sync at offset %d: %s", change.offset, error)

            try:
                async with _reading(client, fetching, settings.syncs_topic, take) as reader:
                    await reader.read_to_end()
                    syncs.loaded()
                    await reader.ended()
            except TopicAuthorizationException as error:
                self._failure = error
                return
            except (KcliError, OSError) as error:
                _log.warning("The topic %s is read again: %s", settings.syncs_topic, error)
                await asyncio.sleep(_RETRY_S)

    async def _load_checkpoints(self, background: Background) -> bool:
        """Reads the last checkpoints of the groups. Returns False if they cannot be read."""
        topic = self._settings.checkpoints_topic
        properties = self._settings.client("target", "consumer", "checkpoints-target-consumer")
        client, fetching = background.client(properties), background.client(properties)
        groups = frozenset(self._groups)

        def take(change: Change) -> None:
            try:
                checkpoint = Checkpoint.parse(change.key, change.value)
            except InvalidMirrorRecord as error:
                _store_log.warning("Ignored invalid checkpoint record at offset %d: %s", change.offset, error)
                return
            if checkpoint.group in groups:
                self._translator.remember(checkpoint)

        try:
            async with _reading(client, fetching, topic, take) as reader:
                await reader.read_to_end()
        except TopicAuthorizationException as error:
            _store_log.warning(_NOT_AUTHORIZED, topic, exc_info=error)
        except (KcliError, OSError) as error:
            _store_log.info(_NOT_LOADED, topic, exc_info=error)
        else:
            return True
        self._translator.last.clear()
        return False

    # The offsets of groups in the target.

    async def _sync_groups(self) -> None:
        """Commits translated offsets for the groups that are missing or idle in the target."""
        groups = [group for group in self._groups if self._translator.last.get(group)]
        if not groups:
            return
        descriptions = await self._target.describe_groups(groups)
        for group in groups:
            description = descriptions[group]
            if isinstance(description, GroupIdNotFoundException):
                await self._commit(group, is_new=True)
            elif isinstance(description, KafkaError):
                _log.error(
                    "Error querying for consumer group %s on cluster %s.", group, self._settings.target,
                    exc_info=description,
                )  # fmt: skip
            elif description.state in (_EMPTY, _DEAD):
                await self._commit(group, is_new=description.state == _DEAD)

    async def _commit(self, group: str, *, is_new: bool) -> None:
        offsets = self._translator.offsets(group)
        try:
            if not is_new:
                offsets = offsets_to_commit(offsets, await self._target.list_group_offsets(group))
            if not offsets:
                return
            errors = await self._target.alter_group_offsets(group, offsets)
        except KafkaError as error:
            _log.error("Unable to sync offsets for consumer group %s.", group, exc_info=error)
            return
        refusal = next(filter(None, errors.values()), None)
        if isinstance(refusal, UnknownMemberIdException):
            _log.warning(_IN_USE, group)
        elif refusal is not None:
            _log.error("Unable to sync offsets for consumer group %s.", group, exc_info=refusal)

    def stop(self) -> None:
        self._stopping.set()
        if self._background is not None:
            self._background.close()


_NOT_AUTHORIZED = (
    "Not authorized to access checkpoints topic %s - this may degrade offset translation as only checkpoints for "
    "offsets which were mirrored after the task started will be emitted"
)
_NOT_LOADED = (
    "Exception encountered loading checkpoints topic %s - this may degrade offset translation as only checkpoints for "
    "offsets which were mirrored after the task started will be emitted"
)
_IN_USE = (
    "Unable to sync offsets for consumer group %s. This is likely caused by consumers currently using this group in "
    "the target cluster."
)


class _reading:
    """Reads partition 0 of a topic inside `async with`."""

    def __init__(
        self, client: AdminClient, fetching: AdminClient, topic: str, take: Callable[[Change], None]
    ) -> None:
        partitions = [TopicPartition(topic, 0)]
        self._reader = TableReader(client, fetching, partitions, take, read_committed=True)

    async def __aenter__(self) -> _reading:
        self._running = asyncio.create_task(self._reader.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def read_to_end(self) -> None:
        await self._reader.read_to_end()

    async def ended(self) -> None:
        """Waits for the error that ends the reader, and raises it."""
        await self._running


class MirrorCheckpointConnector(SourceConnector):
    """Finds the groups whose offsets are translated, and divides them among tasks."""

    java_class = f"{PACKAGE}MirrorCheckpointConnector"
    config_def = CHECKPOINT_KEYS
    task_class = MirrorCheckpointTask
    monitors = True

    def __init__(self) -> None:
        self._background: Background | None = None
        self._groups: list[str] = []

    def start(self, config: Config) -> None:
        super().start(config)
        self._settings = settings = Settings.of(CHECKPOINT_SETTINGS, config)
        if not settings.is_enabled:
            return
        values = settings.values
        self._group_filter = NameFilter.of(names(values, "groups"), names(values, "groups.exclude"))
        self._topic_filter = settings.topic_filter()
        self._background = background = Background("mirror-checkpoint-connector")
        self._source = background.client(settings.client("source", "admin", "checkpoint-source-admin"))
        self._target = background.client(settings.client("target", "admin", "checkpoint-target-admin"))
        scheduler = Scheduler(
            background, f"MirrorCheckpointConnector: {settings.label}", settings.admin_timeout_s
        )
        scheduler.execute(self._create_topic, "creating internal topics")
        scheduler.execute(self._load_groups, "loading initial consumer groups")
        scheduler.repeat(
            self._refresh,
            settings.interval_s("refresh.groups"),
            "refreshing consumer groups",
            is_delayed=True,
        )
        _connector_log.info("Started %s with %d consumer groups.", config.get("name"), len(self._groups))

    async def _create_topic(self) -> None:
        settings = self._settings
        factor = settings.number("checkpoints.topic.replication.factor")
        await create_internal_topic(self._target, settings.checkpoints_topic, factor)

    async def _load_groups(self) -> None:
        listed = await self._source.list_groups()
        groups = [
            group.group_id
            for group in listed
            if _has_consumers(group) and self._group_filter.accepts(group.group_id)
        ]
        offsets = await self._source.list_all_offsets(groups)
        kept = []
        for group in groups:
            committed = offsets.get(group, {})
            if isinstance(committed, GroupAuthorizationException):
                _connector_log.error("Not authorized to read the offsets of consumer group %s.", group)
            elif isinstance(committed, KafkaError):
                raise committed
            elif has_topic(committed, self._topic_filter):
                kept.append(group)
        self._groups = kept

    async def _refresh(self) -> None:
        before = set(self._groups)
        await self._load_groups()
        now = set(self._groups)
        if now != before:
            _connector_log.info(
                "Found %d consumer groups for %s->%s. %d are new. %d were removed. Previously had %d.",
                len(now), self._settings.source, self._settings.target, len(now - before), len(before - now),
                len(before),
            )  # fmt: skip
            self.context.request_task_reconfiguration()

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        settings = self._settings
        if not settings.is_enabled or settings.interval_s(EMIT_CHECKPOINTS) is None:
            return []
        return [
            {**self.config, TASK_GROUPS: ",".join(groups), TASK_INDEX: str(index)}
            for index, groups in enumerate(divided(self._groups, max_tasks))
        ]

    def stop(self) -> None:
        if self._background is not None:
            self._background.close()

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        return checkpoint_errors(config)

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        check_offsets(offsets, ("group", "topic"), has_partition=True, only_zero=True)
        return True


def _has_consumers(group: GroupListing) -> bool:
    """Whether a group is one of consumers, in the old or in the new protocol. Old brokers send no type."""
    return group.type.title() in (CLASSIC, CONSUMER, "") and group.protocol in CONSUMER_PROTOCOL_TYPES
