"""Measures one broker per codec at the same time: the CPU time of a request, and of all parts of the broker."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from kcli.protocol.messages import (
    api_versions,
    create_topics,
    describe_configs,
    find_coordinator,
    list_offsets,
    metadata,
    offset_commit,
)
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import encode_request
from kcli.testing.broker_process import BrokerProcess

TOPICS = [f"orders.region-{number:05d}" for number in range(100)]
IN_FLIGHT = 8
TURN_SECONDS = 0.25
_INT32 = Struct(">i")
_NANOSECONDS = 1e-9

Times = dict[str, list[float]]


def _kcli(codec: str) -> list[str]:
    return [sys.executable, "-m", "codec_prototype.run", codec]


class CodecBroker(BrokerProcess):
    """A broker in a process that uses one of the codecs."""

    def __init__(self, directory: Path, codec: str, environment: dict[str, str]) -> None:
        super().__init__(directory, command=[*_kcli(codec), "server-start"], environment=environment)

    def cpu_seconds(self) -> float:
        """Returns the CPU time of all threads so far, with a resolution of a nanosecond."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")
        return (
            sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) * _NANOSECONDS
        )

    def resident_mb(self) -> float:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


class Client:
    """A connection that keeps some requests in flight."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        return self._response()

    def ask_many(self, frame: bytes, count: int) -> None:
        for _ in range(count // IN_FLIGHT):
            self._socket.sendall(frame * IN_FLIGHT)
            for _ in range(IN_FLIGHT):
                self._response()

    def _response(self) -> bytes:
        return self._receive(_INT32.unpack(self._receive(4))[0])

    def _receive(self, size: int) -> bytes:
        data = self._socket.recv(size, socket.MSG_WAITALL)
        if len(data) != size:
            raise ConnectionError("the broker closed the connection")
        return data


def measure(
    work: Path, environment: dict[str, str], codecs: tuple[str, ...], turns: int
) -> Iterator[tuple[str, Times, float]]:
    """Yields the rows of the table: name, times (or sizes) by codec, and the factor for printing them."""
    starts: Times = {codec: [] for codec in codecs}
    sizes: Times = {codec: [] for codec in codecs}
    brokers: dict[str, CodecBroker] = {}
    try:
        for turn in range(turns):
            for codec in codecs:
                broker = CodecBroker(work / f"broker-{codec:_<6}-{turn}", codec, environment).start()
                if codec in brokers:
                    brokers[codec].stop()
                brokers[codec] = broker
                # The broker reports that it is ready before it imports the codec, so the import needs a moment more.
                time.sleep(1)
                starts[codec].append(broker.cpu_seconds())
                sizes[codec].append(broker.resident_mb())
        yield "start of a broker: CPU ms", starts, 1e3
        yield "idle broker: resident MB", sizes, 1
        yield from _measure_requests(brokers, turns)
        yield "topics --list, a whole process: CPU ms", _measure_tool(brokers, environment, turns), 1e3
        used = {codec: [broker.resident_mb()] for codec, broker in brokers.items()}
        yield "broker after these requests: resident MB", used, 1
    finally:
        for broker in brokers.values():
            broker.kill()


def _measure_requests(brokers: dict[str, CodecBroker], turns: int) -> Iterator[tuple[str, Times, float]]:
    clients = {codec: Client(broker.port) for codec, broker in brokers.items()}
    for client in clients.values():
        client.ask(_create_topics())
    time.sleep(2)
    for name, frame in _requests():
        answers = {codec: client.ask(frame) for codec, client in clients.items()}
        sizes = {codec: len(answer) for codec, answer in answers.items()}
        assert len(set(sizes.values())) == 1, f"{name}: {sizes}"
        counts = {codec: _count(brokers[codec], clients[codec], frame) for codec in brokers}
        times: Times = {codec: [] for codec in brokers}
        for _ in range(turns):
            for codec, broker in brokers.items():
                begun = broker.cpu_seconds()
                clients[codec].ask_many(frame, counts[codec])
                times[codec].append((broker.cpu_seconds() - begun) / counts[codec])
        yield name, times, 1e6


def _count(broker: CodecBroker, client: Client, frame: bytes) -> int:
    """Returns the number of requests that take about TURN_SECONDS. It is a multiple of IN_FLIGHT."""
    client.ask_many(frame, 5 * IN_FLIGHT)
    begun = broker.cpu_seconds()
    client.ask_many(frame, 5 * IN_FLIGHT)
    one = (broker.cpu_seconds() - begun) / (5 * IN_FLIGHT)
    return max(1, round(TURN_SECONDS / one / IN_FLIGHT)) * IN_FLIGHT


def _measure_tool(brokers: dict[str, CodecBroker], environment: dict[str, str], turns: int) -> Times:
    """Measures the CPU time of a command that lists the topics, from the start of its process to the end."""
    times: Times = {codec: [] for codec in brokers}
    for _ in range(turns):
        for codec, broker in brokers.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [*_kcli(codec), "topics", "--list", "--bootstrap-server", broker.bootstrap]
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            assert TOPICS[-1] in done.stdout
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times[codec].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return times


def _create_topics() -> bytes:
    topics = tuple(
        create_topics.CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in TOPICS
    )
    message = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=60_000)
    return encode_request(message, ApiKey.CREATE_TOPICS, 7, 1, "bench")


def _requests() -> Iterator[tuple[str, bytes]]:
    names = TOPICS[:12]
    messages = (
        ("ApiVersions v4", ApiKey.API_VERSIONS, 4, _api_versions()),
        ("Metadata v13, 1 topic", ApiKey.METADATA, 13, _metadata(TOPICS[:1])),
        ("Metadata v13, 100 topics", ApiKey.METADATA, 13, _metadata(TOPICS)),
        ("FindCoordinator v6", ApiKey.FIND_COORDINATOR, 6, _find_coordinator()),
        ("ListOffsets v10, 36 partitions", ApiKey.LIST_OFFSETS, 10, _list_offsets(names)),
        ("OffsetCommit v9, 36 partitions", ApiKey.OFFSET_COMMIT, 9, _offset_commit(names)),
        ("DescribeConfigs v4, a broker", ApiKey.DESCRIBE_CONFIGS, 4, _describe_configs()),
    )
    for name, key, version, message in messages:
        yield name, encode_request(message, key, version, 1, "bench")


def _api_versions() -> api_versions.ApiVersionsRequest:
    return api_versions.ApiVersionsRequest(
        client_software_name="apache-kafka-java", client_software_version="4.1.0"
    )


def _metadata(names: list[str]) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(topics=tuple(metadata.MetadataRequestTopic(name=name) for name in names))


def _find_coordinator() -> find_coordinator.FindCoordinatorRequest:
    return find_coordinator.FindCoordinatorRequest(coordinator_keys=("orders-readers",))


def _list_offsets(names: list[str]) -> list_offsets.ListOffsetsRequest:
    partitions = tuple(
        list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(3)
    )
    topics = tuple(list_offsets.ListOffsetsTopic(name=name, partitions=partitions) for name in names)
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics)


def _offset_commit(names: list[str]) -> offset_commit.OffsetCommitRequest:
    partitions = tuple(
        offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in range(3)
    )
    topics = tuple(offset_commit.OffsetCommitRequestTopic(name=name, partitions=partitions) for name in names)
    return offset_commit.OffsetCommitRequest(group_id="orders-readers", topics=topics)


def _describe_configs() -> describe_configs.DescribeConfigsRequest:
    broker = describe_configs.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=None
    )
    return describe_configs.DescribeConfigsRequest(resources=(broker,), include_synonyms=True)
