"""A scripted cluster of thousands of topics in its own process, without logs.

    python tests/rigs/large_cluster.py [--topics 5000] [--partitions 20] [--brokers 6] [--port 0]

The process prints its port. It answers Metadata, DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, ListOffsets
and DescribeConfigs. The large answers are encoded once, so that they cost a client what a real cluster would cost it.
Every 97th topic has an under-replicated partition, and every 991st an offline one.
"""

from __future__ import annotations

import argparse
import asyncio
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kcli.protocol.messages import (
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    list_offsets,
    metadata,
)
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import decode_request, decode_request_header, encode_response

REPLICAS = 3
REPLICA_BYTES = 1_000_000
NO_LEADER = -1
_SIZE = struct.Struct(">i")
# The correlation id follows the size.
_ID_FROM, _ID_TO = 4, 8


@dataclass
class LargeCluster:
    """The answers. The names look like those of forty teams."""

    topics: int = 5000
    partitions: int = 20
    brokers: int = 6
    port: int = 0
    _encoded: dict[Hashable, bytes] = field(default_factory=dict)

    async def serve(self, port: int) -> None:
        """Listens, prints the port, and answers until the process ends."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        self.port = server.sockets[0].getsockname()[1]
        print(self.port, flush=True)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                writer.write(self._answer(await reader.readexactly(size)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, frame: bytes) -> bytes:
        header = decode_request_header(frame)
        key, version = ApiKey(header.api_key), header.api_version
        request = decode_request(key, version, frame, header.body_offset)
        make, cached = self.script[key]
        whole = cached and getattr(request, "topics", None) is None
        if not whole:
            return encode_response(make(request), key, version, header.correlation_id)
        if (key, version) not in self._encoded:
            self._encoded[key, version] = encode_response(make(request), key, version, 0)
        found = self._encoded[key, version]
        return found[:_ID_FROM] + _SIZE.pack(header.correlation_id) + found[_ID_TO:]

    @cached_property
    def script(self) -> dict[ApiKey, tuple[Callable[[Any], Any], bool]]:
        """The function of each API, and whether its answer about all topics is encoded once."""
        return {
            ApiKey.API_VERSIONS: (self.versions, False),
            ApiKey.METADATA: (self.metadata, True),
            ApiKey.DESCRIBE_CLUSTER: (self.cluster, False),
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: (self.describe, False),
            ApiKey.DESCRIBE_LOG_DIRS: (self.log_dirs, True),
            ApiKey.LIST_OFFSETS: (self.offsets, False),
            ApiKey.DESCRIBE_CONFIGS: (self.configs, False),
        }

    @cached_property
    def names(self) -> dict[str, int]:
        """The number of each topic."""
        return {f"team-{number % 40:02}.events-{number:05}": number for number in range(self.topics)}

    def replicas(self, topic: int, partition: int) -> tuple[int, ...]:
        first = topic + partition
        return tuple((first + each) % self.brokers + 1 for each in range(min(REPLICAS, self.brokers)))

    def isr(self, topic: int, partition: int) -> tuple[int, ...]:
        replicas = self.replicas(topic, partition)
        if partition == 0 and topic % 991 == 1:
            return ()
        return replicas[:-1] if partition == 0 and topic % 97 == 1 else replicas

    def leader(self, topic: int, partition: int) -> int:
        return next(iter(self.isr(topic, partition)), NO_LEADER)

    def versions(self, request: Any) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=tuple(
                ApiVersion(
                    api_key=int(key), min_version=API[key].min_version, max_version=API[key].max_version
                )
                for key in self.script
            )
        )

    def metadata(self, request: Any) -> metadata.MetadataResponse:
        wanted = self.names if request.topics is None else [each.name for each in request.topics]
        return metadata.MetadataResponse(
            brokers=tuple(
                metadata.MetadataResponseBroker(node_id=number + 1, host="127.0.0.1", port=self.port)
                for number in range(self.brokers)
            ),
            controller_id=1,
            topics=tuple(
                metadata.MetadataResponseTopic(
                    name=name,
                    topic_id=uuid.UUID(int=self.names[name] + 1),
                    partitions=tuple(
                        metadata.MetadataResponsePartition(
                            partition_index=partition,
                            leader_id=self.leader(self.names[name], partition),
                            replica_nodes=self.replicas(self.names[name], partition),
                            isr_nodes=self.isr(self.names[name], partition),
                        )
                        for partition in range(self.partitions)
                    ),
                )
                for name in wanted
                if name in self.names
            ),
        )

    def cluster(self, request: Any) -> describe_cluster.DescribeClusterResponse:
        nodes = tuple(
            describe_cluster.DescribeClusterBroker(
                broker_id=number + 1, host="127.0.0.1", port=self.port, rack=f"rack-{number % 3}"
            )
            for number in range(self.brokers)
        )
        return describe_cluster.DescribeClusterResponse(cluster_id="large", controller_id=1, brokers=nodes)

    def describe(self, request: Any) -> describe_topic_partitions.DescribeTopicPartitionsResponse:
        topics, room = [], request.response_partition_limit
        for each in request.topics:
            number = self.names[each.name]
            count = min(self.partitions, room)
            room -= count
            topics.append(
                describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                    name=each.name,
                    topic_id=uuid.UUID(int=number + 1),
                    partitions=tuple(
                        describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                            partition_index=partition,
                            leader_id=self.leader(number, partition),
                            replica_nodes=self.replicas(number, partition),
                            isr_nodes=self.isr(number, partition),
                        )
                        for partition in range(count)
                    ),
                )
            )
        return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=tuple(topics))

    def log_dirs(self, request: Any) -> describe_log_dirs.DescribeLogDirsResponse:
        # All brokers have the same address, so each one answers with its share of an average broker.
        share = max(1, self.brokers // REPLICAS)
        topics = tuple(
            describe_log_dirs.DescribeLogDirsTopic(
                name=name,
                partitions=tuple(
                    describe_log_dirs.DescribeLogDirsPartition(
                        partition_index=partition, partition_size=REPLICA_BYTES + number
                    )
                    for partition in range(0, self.partitions, share)
                ),
            )
            for name, number in self.names.items()
            if request.topics is None or any(each.topic == name for each in request.topics)
        )
        return describe_log_dirs.DescribeLogDirsResponse(
            results=(
                describe_log_dirs.DescribeLogDirsResult(
                    log_dir="/data/a", topics=topics, total_bytes=10**13, usable_bytes=6 * 10**12
                ),
            )
        )

    def offsets(self, request: Any) -> list_offsets.ListOffsetsResponse:
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=1000 if each.timestamp == -1 else 10
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def configs(self, request: Any) -> describe_configs.DescribeConfigsResponse:
        entry = describe_configs.DescribeConfigsResourceResult(
            name="retention.ms", value="604800000", config_source=5
        )
        return describe_configs.DescribeConfigsResponse(
            results=tuple(
                describe_configs.DescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name, configs=(entry,)
                )
                for each in request.resources
            )
        )


@contextmanager
def large_cluster(topics: int, partitions: int, brokers: int = 6) -> Iterator[str]:
    """The cluster in another process. Gives its address."""
    command = [sys.executable, __file__, "--topics", str(topics), "--partitions", str(partitions)]
    with subprocess.Popen(
        [*command, "--brokers", str(brokers)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("topics", 5000), ("partitions", 20), ("brokers", 6), ("port", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    asyncio.run(LargeCluster(options.topics, options.partitions, options.brokers).serve(options.port))


if __name__ == "__main__":
    main()
