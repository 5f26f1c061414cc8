"""The blocking client and the range reader against a server that fails in every way a cluster does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from kcli.errors import CorruptRecordError, ErrorCode, ProtocolError, UnknownTopicOrPartitionException
from kcli.model.request_values import EARLIEST, LATEST
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Depth, decode
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.spark.client import cluster as cluster_module
from kcli.spark.client.cluster import ClientSettings, Cluster, UnreachableError, parse_servers
from kcli.spark.options import source_options
from kcli.spark.source.fetcher import bytes_per_offset, check_order, fetch_range
from kcli.spark.source.offsets import DataLossError, OffsetRange
from rigs.scripted_server import ScriptedAnswer, ScriptedServer

PART = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting is for clusters; a test has other ends."""
    monkeypatch.setattr(cluster_module, "FIRST_BACKOFF_SECONDS", 0.001)
    monkeypatch.setattr(cluster_module, "LAST_BACKOFF_SECONDS", 0.002)
    monkeypatch.setattr(cluster_module, "BOOTSTRAP_SECONDS", 0.05)
    monkeypatch.setattr(cluster_module, "UNKNOWN_TOPIC_SECONDS", 0.05)


class OnePartition:
    """A broker with one partition of ten records in batches of two. It answers the first fetches with `faults`."""

    def __init__(self) -> None:
        self.faults: list[ErrorCode] = []
        self.first, self.end = 0, 10
        self.fetched: list[int] = []
        self.topic_error = ErrorCode.NONE
        self.aborted: tuple[AbortedTransaction, ...] | None = None
        self.drop_fetches = 0
        self.spoil = -1
        """The offset of a batch in which a bit is flipped."""
        self.base_shift = 0
        """The error that is added to the base offset of each batch."""
        self.cut = 0
        """The number of bytes that are missing at the end of each batch."""
        script: dict[ApiKey, ScriptedAnswer] = {
            ApiKey.METADATA: self.metadata,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.FETCH: self.fetch,
        }
        self.server = ScriptedServer(script)

    def metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1)
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port),),
            topics=(
                MetadataResponseTopic(
                    name="t",
                    error_code=self.topic_error,
                    partitions=() if self.topic_error else (partition,),
                ),
            ),
        )

    def list_offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        timestamp = request.topics[0].partitions[0].timestamp
        offset = {EARLIEST: self.first, LATEST: self.end}.get(timestamp, timestamp)
        partition = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=(partition,)),))

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse | None:
        offset = request.topics[0].partitions[0].fetch_offset
        self.fetched.append(offset)
        if self.drop_fetches:
            self.drop_fetches -= 1
            return None
        error, records = ErrorCode.NONE, b""
        if self.faults:
            error = self.faults.pop(0)
        elif not self.first <= offset <= self.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif offset < self.end:
            base = offset // 2 * 2
            records = encode_batch([Record(value=b"%d" % (base + nth)) for nth in range(2)], base_offset=base)
            if base == self.spoil:
                records = records[:-2] + bytes([records[-2] ^ 1]) + records[-1:]
            records = (base + self.base_shift).to_bytes(8, "big") + records[8 : len(records) - self.cut]
        data = PartitionData(
            partition_index=0, error_code=error, records=records, aborted_transactions=self.aborted
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(data,)),))


@pytest.fixture
def broker() -> Iterator[OnePartition]:
    made = OnePartition()
    with made.server:
        yield made


def read(broker: OnePartition, start: int = 0, end: int = 10, **more: str) -> list[int]:
    settings = {"kafka.bootstrap.servers": broker.server.address, "subscribe": "t", **more}
    options = source_options(settings, streaming=False)
    offsets: list[int] = []
    with Cluster(options.client) as cluster:
        for fetched in fetch_range(cluster, OffsetRange(PART, start, end), options):
            for chunk in decode(
                fetched.table,
                Depth.VALUE,
                first_offset=fetched.first_offset,
                end_offset=end,
                aborted=fetched.aborted,
            ):
                offsets += chunk.offsets.tolist()
    return offsets


def test_a_range_is_read_exactly(broker: OnePartition) -> None:
    assert read(broker, 3, 8) == [3, 4, 5, 6, 7]
    assert broker.fetched == [3, 4, 6]


@pytest.mark.parametrize(
    "faults",
    [
        [ErrorCode.NOT_LEADER_OR_FOLLOWER],
        [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH],
    ],
)
def test_a_moved_leader_is_looked_up_again(broker: OnePartition, faults: list[ErrorCode]) -> None:
    broker.faults = list(faults)
    assert read(broker) == list(range(10))
    lookups = [key for key, _, _ in broker.server.requests if key is ApiKey.METADATA]
    assert len(lookups) == 1 + len(faults)


def test_a_lost_connection_is_made_again(broker: OnePartition) -> None:
    broker.drop_fetches = 2
    assert read(broker) == list(range(10))


def test_deleted_records_fail_the_read(broker: OnePartition) -> None:
    broker.first = 4
    with pytest.raises(DataLossError, match="offset 0 of t-0 cannot be read: the log holds 4 up to 10"):
        read(broker)


def test_deleted_records_are_skipped_where_allowed(
    broker: OnePartition, caplog: pytest.LogCaptureFixture
) -> None:
    broker.first = 5  # in the middle of a batch, which is sent whole
    assert read(broker, failOnDataLoss="false") == [5, 6, 7, 8, 9]
    assert "failOnDataLoss is false, so reading continues" in caplog.text


def test_a_log_that_ends_early_ends_the_range_where_allowed(broker: OnePartition) -> None:
    broker.end = 4
    assert read(broker, 6, 10, failOnDataLoss="false") == []


def test_a_final_error_names_partition_and_offset(broker: OnePartition) -> None:
    broker.faults = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(Exception, match="reading t-0 at offset 0: TOPIC_AUTHORIZATION_FAILED"):
        read(broker)


def test_waiting_for_records_ends(broker: OnePartition) -> None:
    with pytest.raises(UnreachableError, match=r"gave up on reading t-0 0\.\.99 after 20 ms"):
        read(broker, 0, 99, **{"kafkaConsumer.pollTimeoutMs": "20"})


def test_read_committed_hands_on_aborted_transactions(broker: OnePartition) -> None:
    broker.aborted = (AbortedTransaction(producer_id=5, first_offset=0),)
    settings = {"kafka.bootstrap.servers": broker.server.address, "subscribe": "t"}
    options = source_options(settings | {"kafka.isolation.level": "read_committed"}, streaming=False)
    with Cluster(options.client) as cluster:
        [first, *_] = fetch_range(cluster, OffsetRange(PART, 0, 2), options)
    assert first.aborted is not None
    assert [transaction.producer_id for transaction in first.aborted] == [5]
    fetches = [message for key, _, message in broker.server.requests if key is ApiKey.FETCH]
    assert {fetch.isolation_level for fetch in fetches} == {1}


def test_a_corrupt_batch_is_named(broker: OnePartition) -> None:
    broker.spoil = 4
    with pytest.raises(CorruptRecordError, match=r"the batch at offset 4 of t-0 .* has CRC"):
        read(broker)


def test_a_batch_that_is_never_whole_or_never_further_is_named(broker: OnePartition) -> None:
    """The broker would be asked the same again and again."""
    broker.cut = 3
    with pytest.raises(CorruptRecordError, match="offset 2 of t-0 has bytes, but no whole batch"):
        read(broker, start=2)
    broker.cut, broker.base_shift = 0, -4
    with pytest.raises(
        CorruptRecordError, match=r"at offset 2 of t-0 .* ends before offset 6, which was requested"
    ):
        read(broker, start=6)


def test_offsets_that_go_back_are_named() -> None:
    batches = [encode_batch([Record(value=b"x")] * 3, base_offset=base) for base in (0, 6, 5)]
    with pytest.raises(CorruptRecordError, match=r"at offset 5 of t-0 .* before it, which ends at offset 9"):
        check_order(read_headers(b"".join(batches), "t-0"))
    with pytest.raises(CorruptRecordError, match=r"at offset 0 of t-0 .* before it, which ends at offset 1"):
        check_order(read_headers(batches[0], "t-0"), 1)


def test_how_densely_a_range_begins(broker: OnePartition) -> None:
    options = source_options(
        {"kafka.bootstrap.servers": broker.server.address, "subscribe": "t"}, streaming=False
    )
    with Cluster(options.client) as cluster:
        size = len(encode_batch([Record(value=b"2"), Record(value=b"3")], base_offset=2))
        for _ in range(2):  # leaves nothing behind on the connection
            fetched = fetch_range(cluster, OffsetRange(PART, 2, 3), options)
            assert bytes_per_offset(fetched, 2) == size / 2
        assert bytes_per_offset(iter(()), 2) == 1.0


def test_an_unknown_topic_is_named(broker: OnePartition) -> None:
    broker.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with (
        Cluster(ClientSettings(broker.server.address)) as cluster,
        pytest.raises(UnknownTopicOrPartitionException, match="topic t does not exist"),
    ):
        cluster.partitions(["t"])


def test_an_older_broker_gets_older_requests(broker: OnePartition) -> None:
    broker.server.versions = {ApiKey.FETCH: (0, 4), ApiKey.LIST_OFFSETS: (0, 2), ApiKey.METADATA: (0, 4)}
    assert read(broker) == list(range(10))
    assert {version for key, version, _ in broker.server.requests if key is ApiKey.FETCH} == {4}


def test_a_broker_too_old_is_named(broker: OnePartition) -> None:
    broker.server.versions = {ApiKey.METADATA: (0, 1)}
    with (
        Cluster(ClientSettings(broker.server.address)) as cluster,
        pytest.raises(ProtocolError, match="speaks Metadata 0 to 1; this client 4 to"),
    ):
        cluster.partitions(["t"])


def test_an_unreachable_server_is_named() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=f"no broker can be reached \\({address}: "):
            Cluster(ClientSettings(address)).partitions(["t"])


def answering(answer: bytes) -> tuple[socket.socket, threading.Thread]:
    """A listener that answers the first connection with `answer`, whatever is said."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1000)
            peer.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return listener, thread


@pytest.mark.parametrize(
    "answer, message",
    [
        (bytes.fromhex("15030300020246"), "speaks TLS"),
        (b"HTTP/1.1 400 Bad Request", "does not speak Kafka's protocol"),
    ],
)
def test_other_protocols_are_recognised(answer: bytes, message: str) -> None:
    listener, thread = answering(answer)
    with listener, pytest.raises(ProtocolError, match=message):
        Cluster(ClientSettings(f"127.0.0.1:{listener.getsockname()[1]}")).partitions(["t"])
    thread.join()


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:99999", "a:1,b"])
def test_wrong_servers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bootstrap\.servers"):
        parse_servers(text)


def test_servers_are_read() -> None:
    assert parse_servers(" a:1, [::1]:2 ,") == [("a", 1), ("::1", 2)]
