"""An internal topic of Kafka Connect as a log of records."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.table import TopicTable, in_parts
from kcli.client.topic_table.topic import NotCompacted, TableTopic, ensure_topic
from kcli.client.topic_table.writers import IdempotentWriter, TransactionalWriter
from kcli.config.definition import ConfigError
from kcli.connect.decisions.json_values import Entry
from kcli.connect.stores.background import BackgroundWriter
from kcli.connect.stores.log import Take
from kcli.connect.stores.store import TaskProducer
from kcli.errors import InvalidReplicationFactorException, KcliError
from kcli.formats.connect.errors import ConnectException
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from kcli.runtime.clock import Clock

_log = logging.getLogger("kcli.connect.stores")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTopic:
    """An internal topic: how to create it, and what errors say of it."""

    topic: TableTopic
    key: str
    """The key of the worker that has the name of the topic."""
    purpose: str
    """The content of the topic, for errors."""
    client_id: str
    has_one_partition: bool = False
    read_committed: bool = False
    transactional_id: str | None = None
    """The id of the leader's transactions, if the leader writes in transactions (KIP-618)."""


class TopicLog:
    """Implements `RecordLog`. It has clients of its own, except for `admin`, with which it creates the topic."""

    def __init__(
        self,
        settings: LogTopic,
        config: ClientConfig,
        admin: Client,
        clock: Clock,
        open_client: Callable[[ClientConfig], Client] = Client,
    ) -> None:
        self._settings = settings
        self._config = config
        self._admin = admin
        self._clock = clock
        self._open_client = open_client
        self._stack = contextlib.AsyncExitStack()
        self._table: TopicTable | None = None
        self._leader: TransactionalWriter | None = None
        """The writer of a leader that has claimed the topic."""
        self._leader_client: Client | None = None
        self._background = BackgroundWriter(
            self._append, self.read_to_end, config.retry_backoff_max_ms / 1000
        )

    async def start(self, take: Take) -> None:
        """Raises ConfigError if the topic exists and cannot hold the records, and KafkaError."""
        await self._ensure_topic()

        def on_change(change: Change) -> None:
            take(change.offset, change.key, change.value)

        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._client(self._settings.client_id))
            fetching = await stack.enter_async_context(self._client(self._settings.client_id))
            table = TopicTable(
                self._settings.topic,
                client,
                fetching=fetching,
                writer=IdempotentWriter(client),
                on_change=on_change,
                read_committed=self._settings.read_committed,
                clock=self._clock,
            )
            self._table = await stack.enter_async_context(table)
            self._stack = stack.pop_all()
        self._background.start()

    async def stop(self) -> None:
        await self._background.stop()
        await self._give_up_claim()
        await self._stack.aclose()
        self._table = None

    def _client(self, client_id: str) -> Client:
        return self._open_client(dataclasses.replace(self._config, client_id=client_id))

    # The topic.

    async def _ensure_topic(self) -> None:
        settings = self._settings
        try:
            partitions = await self._create_patiently()
        except NotCompacted as error:
            raise ConfigError(
                f"Topic '{settings.topic.name}' supplied via the '{settings.key}' property is required to have "
                f"'cleanup.policy=compact' to guarantee consistency and durability of {settings.purpose}, but found "
                f"the topic currently has 'cleanup.policy={error.policy}'. Continuing would likely result in "
                f"eventually losing {settings.purpose} and problems restarting this Connect cluster in the future. "
                f"Change the '{settings.key}' property in the Connect worker configurations to use a topic with "
                "'cleanup.policy=compact'."
            ) from error
        if settings.has_one_partition and partitions > 1:
            raise ConfigError(
                f"Topic '{settings.topic.name}' supplied via the '{settings.key}' property is required to have a "
                f"single partition in order to guarantee consistency of {settings.purpose}, but found "
                f"{partitions} partitions."
            )

    async def _create_patiently(self) -> int:
        """Returns the number of partitions. Waits for enough brokers, because they may start together with workers."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._config.default_api_timeout_ms / 1000
        while True:
            try:
                return len(await ensure_topic(self._admin, self._settings.topic))
            except InvalidReplicationFactorException as error:
                left_s = deadline_s - loop.time()
                if left_s <= 0:
                    raise
                _log.info(
                    "'%s' topic creation failed due to '%s', retrying, %dms remaining",
                    self._settings.topic.name,
                    error,
                    left_s * 1000,
                )
                await asyncio.sleep(self._config.retry_backoff_max_ms / 1000)

    # Reads and writes.

    async def read_to_end(self) -> None:
        await self._opened.read_to_end()

    @property
    def _opened(self) -> TopicTable:
        assert self._table is not None, "the log has started"
        return self._table

    async def append(self, entries: Sequence[Entry], *, as_leader: bool) -> None:
        if as_leader and self._settings.transactional_id is not None:
            await self._append_in_transactions(entries)
        else:
            await self._append(entries)

    async def _append(self, entries: Sequence[Entry]) -> None:
        for part in in_parts(entries):
            await self._opened.put_all(part)

    async def append_as(self, producer: TaskProducer, entries: Sequence[Entry]) -> None:
        async with self._client(producer.client_id) as client:
            writer = TransactionalWriter(client, producer.transactional_id)
            await writer.claim()
            for part in in_parts(entries):
                await writer.write(self._batches(part))
        await self.read_to_end()

    def _batches(self, entries: Sequence[Entry]) -> dict[TopicPartition, list[Record]]:
        batches: dict[TopicPartition, list[Record]] = {}
        for partition, record in self._opened.records_of(entries):
            batches.setdefault(partition, []).append(record)
        return batches

    def send(self, entry: Entry, is_valid: Callable[[], bool] | None = None) -> None:
        self._background.send(entry, is_valid)

    async def flush(self) -> None:
        await self._background.flush()

    # The leader's transactions.

    async def claim(self) -> None:
        """Fences the writers of all earlier leaders, and reads what they have written.

        A writer of an earlier claim is given up, because another leader may have fenced it.
        """
        transactional_id = self._settings.transactional_id
        if transactional_id is None:
            return
        await self._give_up_claim()
        client = self._leader_client = self._client(f"{self._settings.client_id}-leader")
        writer = TransactionalWriter(client, transactional_id)
        try:
            await writer.claim()
            await self.read_to_end()
        except BaseException as error:
            await self._give_up_claim()
            if isinstance(error, (KcliError, OSError)):
                message = "Failed to create and initialize fencable producer for config topic"
                raise ConnectException(message) from error
            raise
        self._leader = writer

    async def _append_in_transactions(self, entries: Sequence[Entry]) -> None:
        if self._leader is None:
            raise ConnectException("Cannot produce to config topic without claiming write privileges first")
        try:
            for part in in_parts(entries):
                await self._leader.write(self._batches(part))
        except BaseException as error:
            # Another leader may have written since then. So this worker must claim again, if it is still the leader.
            await self._give_up_claim()
            if isinstance(error, (KcliError, OSError)):
                _log.warning("Failed to perform fencable send to config topic: %s", error)
                raise ConnectException("Failed to perform fencable send to config topic") from error
            raise
        await self.read_to_end()

    async def _give_up_claim(self) -> None:
        client, self._leader, self._leader_client = self._leader_client, None, None
        if client is not None:
            await client.close()
