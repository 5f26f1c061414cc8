"""A broker in this process, and the stores and memberships of Connect workers on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from kcli.client.admin.admin import AdminClient
from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.table import TopicTable
from kcli.client.topic_table.topic import TableTopic
from kcli.connect.config.worker import GroupConfig, distributed_config
from kcli.connect.stores.internal_topics import InternalTopics
from kcli.model.addresses import Address
from kcli.runtime.clock import SystemClock
from rigs import node

SETTINGS = {
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}


class ConnectCluster:
    """Makes the parts of workers. The end of the block that made it closes all clients."""

    def __init__(self, broker: Broker, stack: contextlib.AsyncExitStack) -> None:
        self.broker = broker
        self._stack = stack
        self.config = ClientConfig(
            servers=(Address("127.0.0.1", broker.port),), retry_backoff_ms=5, retry_backoff_max_ms=50
        )

    async def admin(self) -> AdminClient:
        return await self._stack.enter_async_context(AdminClient(self.config))

    async def client(self) -> Client:
        return await self._stack.enter_async_context(Client(self.config))

    async def topics(self, **properties: str) -> InternalTopics:
        """The internal topics as one worker sees them."""
        return InternalTopics(group_config(**properties), self.config, await self.client(), SystemClock())

    async def records(self, topic: str, *, committed: bool = False) -> list[Change]:
        """All records of a topic, in the order of each partition."""
        changes: list[Change] = []
        table = TopicTable(
            TableTopic(name=topic),
            await self.client(),
            fetching=await self.client(),
            on_change=changes.append,
            read_committed=committed,
        )
        async with table:
            return changes

    def at_end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Calls `close` at the end of the block."""
        self._stack.push_async_callback(close)


def group_config(**properties: str) -> GroupConfig:
    """The configuration of a worker of group g. In the names of `properties`, an underscore stands for a dot."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    config = distributed_config(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "group.id": "g",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "3",
            "status.storage.partitions": "2",
            **given,
        }
    )
    assert config.group is not None
    return config.group


@contextlib.asynccontextmanager
async def connect_cluster(directory: Path, port: int = 0) -> AsyncIterator[ConnectCluster]:
    """A broker, on a port of its own if it must stop and start again."""
    async with Broker(directory, port) as broker, contextlib.AsyncExitStack() as stack:
        yield ConnectCluster(broker, stack)


class Broker:
    """A broker that can stop and start again on the same port."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"
        self._stack = contextlib.AsyncExitStack()
        self.port = port

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        running = node.running(self._directory, listeners=self._listeners, **SETTINGS)
        self.port = (await self._stack.enter_async_context(running)).port()

    async def stop(self) -> None:
        await self._stack.aclose()
