"""The offset stores of source connectors, some of which have an offsets topic of their own (KIP-618)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kcli.client.client import Client
from kcli.client.config import client_config
from kcli.connect.config.worker import WorkerConfig
from kcli.connect.model import Config, TaskId
from kcli.connect.stores.internal_topics import InternalTopics
from kcli.connect.stores.offsets import ConnectorOffsets
from kcli.connect.stores.store import OffsetStore
from kcli.model.java_text import trim

TOPIC_KEY = "offsets.storage.topic"


class OwnOffsets:
    """Opens the store of a topic when a connector needs it first, and keeps it until `stop`."""

    def __init__(self, worker: WorkerConfig, topics: InternalTopics, workers: OffsetStore) -> None:
        """`workers` is the store of the worker, for connectors without a topic of their own."""
        self._worker = worker
        self._topics = topics
        self._workers = workers
        self._opened: dict[tuple[tuple[str, str], ...], tuple[Client, ConnectorOffsets]] = {}
        self._lock = asyncio.Lock()

    async def of(self, config: Config) -> OffsetStore:
        """The store of a connector, by its configuration. An empty one means the worker's store."""
        topic = trim(config.get(TOPIC_KEY) or "")
        if not topic:
            return self._workers
        name = config.get("name") or ""
        properties = self._worker.clients.admin(f"connector-adminclient-{TaskId(name, 0)}", config)
        key = (("topic", topic), *_without_client_id(properties))
        async with self._lock:
            if key not in self._opened:
                self._opened[key] = await self._open(topic, properties)
            return self._opened[key][1]

    async def _open(self, topic: str, properties: Mapping[str, str]) -> tuple[Client, ConnectorOffsets]:
        """The topic may be in another cluster than the worker's topics, so it has a client of its own."""
        settings = client_config(properties)
        client = Client(settings)
        await client.__aenter__()
        client_id = properties.get("client.id", "")
        store = self._topics.connector_offsets(topic, client_id, settings, client, self._workers)
        try:
            await store.start()
        except BaseException:
            await client.__aexit__(None, None, None)
            raise
        return client, store

    async def stop(self) -> None:
        for client, store in self._opened.values():
            await store.stop()
            await client.__aexit__(None, None, None)
        self._opened.clear()


def _without_client_id(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted((key, text) for key, text in properties.items() if key != "client.id")
