"""The topic `_schemas`: creates and checks it, reads all of it, and writes the records of a leader.

A write is complete when this registry has read its records again. Registries have no transactions, because Java's
registries have none. So a leader that is fenced only by time must bound its writes: a write ends before the session of
the leader can end.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from kcli.client.admin.topics import describe_topics
from kcli.client.client import Client
from kcli.client.config import ClientConfig, client_config
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.table import Fenced, TopicTable, in_parts
from kcli.client.topic_table.topic import NotCompacted, TableTopic, ensure_topic
from kcli.client.topic_table.writers import IdempotentWriter
from kcli.errors import ErrorCode, KafkaError, KcliError
from kcli.registry.config.settings import StoreSettings
from kcli.registry.decisions.records import Entry, IgnoredKey, KeyType, key_bytes

_log = logging.getLogger("kcli.registry.store")

NOOP: Entry = (key_bytes(IgnoredKey(KeyType.NOOP)), None)
"""A record without effect. A registry that has read its own NOOP has read all records before it."""

CLIENT_ID = "sr-1"


class CannotStart(KcliError):
    """The topic cannot be used. `str()` is the text of Confluent's registry, and what to do."""


class StoreFailed(KcliError):
    """A record was not written, or it is not known whether it was."""


class StoreTimedOut(StoreFailed):
    """The records are not read again in kafkastore.timeout.ms. They may come into the topic later."""


class RecordTooLarge(StoreFailed):
    """The topic does not accept a record of this size."""


class NotLeader(StoreFailed):
    """This registry does not lead any more, so nothing was written."""


class Store:
    """Reads from `start` to `stop`. `take` gets each record of the topic, also those that this registry writes."""

    def __init__(
        self,
        settings: StoreSettings,
        take: Callable[[Change], None],
        may_write: Callable[[], bool],
        *,
        write_max_ms: int,
        open_client: Callable[[ClientConfig], Client] = Client,
    ) -> None:
        """`may_write` returns whether this registry leads. `write_max_ms` is the longest time of a write."""
        self._settings = settings
        self._take = take
        self._may_write = may_write
        self._open_client = open_client
        self._config = dataclasses.replace(client_config(settings.client), client_id=CLIENT_ID)
        self._writing_config = dataclasses.replace(
            self._config,
            request_timeout_ms=min(self._config.request_timeout_ms, write_max_ms),
            default_api_timeout_ms=write_max_ms,
        )
        self._stack = contextlib.AsyncExitStack()
        self._table: TopicTable | None = None
        self._writes: set[asyncio.Task[None]] = set()
        self._is_taking_over = False
        self.cluster_id = ""

    @property
    def error(self) -> Exception | None:
        """The error that has ended the reader, so that the state is out of date."""
        return None if self._table is None else self._table.error

    async def start(self) -> None:
        """Reads the whole topic. Raises CannotStart, KafkaError, or OSError."""
        try:
            async with asyncio.timeout(self._settings.init_timeout_ms / 1000):
                await self._open()
        except TimeoutError:
            raise CannotStart(
                f"The topic {self._settings.topic} was not read in {self._settings.init_timeout_ms} ms "
                "(kafkastore.init.timeout.ms). If no broker answers, run: kcli doctor --bootstrap-server "
                f"{self._settings.client['bootstrap.servers']}"
            ) from None

    async def _open(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            client, fetching = [
                await stack.enter_async_context(self._open_client(self._config)) for _ in range(2)
            ]
            writing = await stack.enter_async_context(self._open_client(self._writing_config))
            topic = await self._ensured(client)
            self.cluster_id = (await client.call("metadata", client.metadata)).cluster_id or ""
            table = TopicTable(
                topic,
                client,
                fetching=fetching,
                writer=IdempotentWriter(writing),
                on_change=self._take,
                may_write=lambda: self._is_taking_over or self._may_write(),
            )
            self._table = await stack.enter_async_context(table)
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        await self.give_up()
        await self._stack.aclose()

    # The topic.

    async def _ensured(self, client: Client) -> TableTopic:
        """Creates the topic if it is missing, and checks it. Returns the topic for the table."""
        settings = self._settings
        if settings.skips_validation:
            _log.info("Skipping auto topic creation and verification")
            return TableTopic(name=settings.topic, must_exist=True)
        if settings.read_only:
            topic = TableTopic(name=settings.topic, must_exist=True)
        else:
            topic = TableTopic(
                name=settings.topic,
                replication_factor=await self._possible_replicas(client),
                configs=settings.topic_configs,
            )
        try:
            partitions = await ensure_topic(client, topic)
        except NotCompacted as error:
            raise CannotStart(_wrong_policy(settings, error.policy)) from None
        if len(partitions) != 1:
            raise CannotStart(
                f"The schema topic {settings.topic} should have only 1 partition but has {len(partitions)}"
            )
        await self._check_replicas(client)
        return topic

    async def _possible_replicas(self, client: Client) -> int:
        brokers = len(await client.call("describeCluster", client.nodes))
        return min(brokers, self._settings.replication_factor)

    async def _check_replicas(self, client: Client) -> None:
        name = self._settings.topic
        description = (await describe_topics(client, [name]))[name]
        if isinstance(description, KafkaError):
            raise description
        if len(description.partitions[0].replicas) < self._settings.replication_factor:
            _log.warning(
                "The replication factor of the schema topic %s is less than the desired one of %d. If this is a "
                "production environment, it's crucial to add more brokers and increase the replication factor of the "
                "topic.",
                name,
                self._settings.replication_factor,
            )

    # Reads and writes.

    async def put(self, entries: Sequence[Entry]) -> None:
        """Writes records in their order. Returns when this registry has read them. Raises StoreFailed."""
        write = asyncio.create_task(self._write(entries))
        self._writes.add(write)
        write.add_done_callback(self._forget)
        await asyncio.wait((write,), timeout=self._settings.timeout_ms / 1000)
        if not write.done():
            raise StoreTimedOut(f"the write took longer than {self._settings.timeout_ms} ms")
        write.result()

    def _forget(self, write: asyncio.Task[None]) -> None:
        self._writes.discard(write)
        if not write.cancelled() and (error := write.exception()) is not None:
            _log.warning("A write to topic %s has failed: %s", self._settings.topic, error)

    async def _write(self, entries: Sequence[Entry]) -> None:
        assert self._table is not None, "started"
        try:
            for part in in_parts(entries):
                await self._table.put_all(part)
        except Fenced as error:
            raise NotLeader(str(error)) from error
        except KafkaError as error:
            kind = RecordTooLarge if error.code is ErrorCode.MESSAGE_TOO_LARGE else StoreFailed
            raise kind(str(error)) from error
        except (KcliError, OSError) as error:
            raise StoreFailed(str(error)) from error

    async def take_over(self) -> None:
        """Reads all records that the leaders before have written. Raises StoreFailed or KafkaError."""
        await self.give_up()
        # A record of an earlier leader may be in the log without being committed, so that the end of the topic is not
        # known yet. But it is committed before this NOOP.
        async with self._taking_over():
            await self._write([NOOP])

    @contextlib.asynccontextmanager
    async def _taking_over(self) -> AsyncIterator[None]:
        self._is_taking_over = True
        try:
            yield
        finally:
            self._is_taking_over = False

    async def give_up(self) -> None:
        """Waits until no write is on its way. A write has a limit of time."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=self._writing_config.default_api_timeout_ms / 1000)

    async def read_to_end(self) -> None:
        """Reads all records that the topic has now. Raises KafkaError."""
        assert self._table is not None, "started"
        await self._table.read_to_end()


def _wrong_policy(settings: StoreSettings, policy: str) -> str:
    name = settings.topic
    _log.error(
        "The retention policy of the schema topic %s is incorrect. You must configure the topic to 'compact' cleanup "
        "policy to avoid Kafka deleting your schemas after a week. Refer to Kafka documentation for more details on "
        "cleanup policies",
        name,
    )
    servers = settings.client["bootstrap.servers"]
    return (
        f"The retention policy of the schema topic {name} is incorrect. Expected cleanup.policy to be 'compact' but it "
        f"is {policy}. To repair the topic, run: kcli configs --bootstrap-server {servers} --alter "
        f"--entity-type topics --entity-name {name} --add-config cleanup.policy=compact"
    )
