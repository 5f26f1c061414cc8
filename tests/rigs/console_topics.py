"""Topics of a running node for the tests of the console: created and filled by kcli's own client."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.client.client import raise_for
from kcli.client.config import ClientConfig
from kcli.client.records.records import Records, value_of
from kcli.console.messages.events import Event
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec
from rigs.node import RunningNode, running

NOW = 1_767_225_600_000


@contextlib.asynccontextmanager
async def cluster(directory: Path, **overrides: str) -> AsyncIterator[tuple[AdminClient, RunningNode]]:
    """A node and a client of it."""
    async with running(directory, **overrides) as node:
        config = ClientConfig(servers=(Address("127.0.0.1", node.port()),), default_api_timeout_ms=10_000)
        async with AdminClient(config) as client:
            yield client, node


async def create(client: AdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    """Creates a topic. In the names of `configs`, an underscore stands for a dot."""
    # The records are older than the default retention, and the node must not delete them.
    settings = {"retention.ms": "-1"} | {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(name=topic, partitions=partitions, replication_factor=1, configs=settings)
    results = await client.create_topics([new])
    for result in results.values():
        if isinstance(result, Exception):
            raise result


async def produce(
    client: AdminClient,
    topic: str,
    records: Iterable[Record],
    partition: int = 0,
    codec: Codec = Codec.NONE,
) -> None:
    """Writes records as one batch."""
    await write(client, topic, encode_batch(records, codec=codec), partition)


async def write(client: AdminClient, topic: str, batch: bytes, partition: int = 0) -> None:
    """Sends a batch to the leader of a partition, also if the leader is not known yet."""

    records, place = Records(client), TopicPartition(topic, partition)

    async def attempt() -> None:
        answer = value_of((await records.produce({place: batch}, timeout_ms=10_000))[place])
        raise_for(answer.error_code)

    await client.call("produce", attempt)


def record(number: int, **changes: object) -> Record:
    """A record with a number in its key and its value, one second after the record before."""
    fields: dict = {
        "timestamp_ms": NOW + number * 1000,
        "key": f"k{number}".encode(),
        "value": b'{"n": %d}' % number,
    }
    return Record(**(fields | changes))


def data_of(event: Event) -> Any:
    """The data of an event as a page gets it, through JSON."""
    return json.loads(json.dumps(dict(event.data)))
