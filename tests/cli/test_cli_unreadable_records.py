"""Consumers at a batch that cannot be read: they name the topic, the partition, the offset and the reason."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.client.config import client_config
from kcli.client.unreadable import unreadable_batch
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch, read_header, seal
from kcli.protocol.batches.compression import Codec, compress
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kcli.protocol.wire.api import ApiKey
from kcli.testing.broker_process import BrokerProcess

KCLI = [sys.executable, "-m", "kcli"]
PLACE = TopicPartition("poisoned", 0)
NOW_MS = int(time.time() * 1000)


def batch(body: bytes) -> bytes:
    header = read_header(encode_batch([Record(0, NOW_MS, b"k", b"v")], codec=Codec.LZ4))
    return bytes(seal(header, (body,)))


GOOD = compress(Codec.LZ4, encode_batch([Record(0, NOW_MS, b"k", b"good")])[HEADER_SIZE:])
POISON = compress(Codec.LZ4, b"\xff" * 50)


async def produce(broker: BrokerProcess, *bodies: bytes) -> str:
    """Writes batches, and returns the reason why the batch at offset 1 cannot be read."""
    async with AdminClient(client_config({"bootstrap.servers": broker.bootstrap})) as client:
        await client.create_topics([NewTopic(name=PLACE.topic, partitions=1, replication_factor=1)])
        for body in bodies:
            part = PartitionProduceData(index=0, records=batch(body))
            leader = (await client.leaders([PLACE]))[PLACE]
            metadata = await client.metadata([PLACE.topic])
            topic = TopicProduceData(
                name=PLACE.topic, topic_id=metadata.topics[0].topic_id, partition_data=(part,)
            )
            request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=(topic,))
            answer = await client.send(request, ApiKey.PRODUCE, to=leader)
            assert isinstance(answer, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code is ErrorCode.NONE
        assert await unreadable_batch(client, PLACE, 0) is None
        assert await unreadable_batch(client, PLACE, 2) is None
        assert await unreadable_batch(client, PLACE, 3) is None
        unreadable = await unreadable_batch(client, PLACE, 1)
        assert unreadable is not None
        assert (unreadable.partition, unreadable.offset, unreadable.next_offset) == (PLACE, 1, 2)
        return unreadable.reason


def test_consumers_end_with_an_error_that_names_the_batch(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, overrides={"kcli.validate.records": "none"}) as broker:
        reason = asyncio.run(produce(broker, GOOD, POISON, GOOD))
        servers = ["--bootstrap-server", broker.bootstrap, "--topic", PLACE.topic]
        consumer = ["console-consumer", *servers]
        programs = {
            "group": [*consumer, "--from-beginning"],
            "partition": [*consumer, "--partition", "0", "--offset", "1"],
            "time limit": [*consumer, "--from-beginning", "--timeout-ms", "5000"],
            "last": [*consumer, "--last", "2"],
            "verifiable": ["verifiable-consumer", *servers, "--group-id", "verifiable"],
            "perf test": ["consumer-perf-test", *servers, "--messages", "3", "--timeout", "60000"],
            "trace": ["trace", *servers, "--partition", "0", "--offset", "1"],
        }
        running = {
            name: subprocess.Popen([*KCLI, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for name, words in programs.items()
        }
        texts = {name: process.communicate(timeout=60) for name, process in running.items()}
    for name, process in running.items():
        assert process.returncode == 1, name
        expected = f"The batch of topic poisoned, partition 0 at offset 1 cannot be read: {reason}."
        assert expected in texts[name][1], name
    assert [texts[name][0] for name in ("group", "partition", "time limit")] == ["good\n", "", "good\n"]
