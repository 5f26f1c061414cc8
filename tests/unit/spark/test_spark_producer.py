"""The sink's producer against a server that refuses, loses answers or repeats itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from kcli.errors import ErrorCode, KafkaError  # noqa: E402
from kcli.model.topic_partition import TopicPartition  # noqa: E402
from kcli.protocol.batches.batch import iter_batches, read_header, read_records  # noqa: E402
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse  # noqa: E402
from kcli.protocol.messages.metadata import (  # noqa: E402
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.messages.produce import (  # noqa: E402
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.protocol.wire.api import ApiKey  # noqa: E402
from kcli.spark.client import cluster as cluster_module  # noqa: E402
from kcli.spark.client.cluster import Cluster  # noqa: E402
from kcli.spark.options import sink_options  # noqa: E402
from kcli.spark.sink import producer as producer_module  # noqa: E402
from kcli.spark.sink.encoder import RecordsArea, encode_records  # noqa: E402
from kcli.spark.sink.producer import Producer  # noqa: E402
from rigs.scripted_server import ScriptedServer  # noqa: E402


class Log:
    """A broker that keeps what it accepts; `answers` are error codes to give first, None a lost answer."""

    def __init__(self) -> None:
        self.answers: list[ErrorCode | None] = []
        self.batches: dict[int, list[bytes]] = {0: [], 1: []}
        self.server = ScriptedServer(
            {
                ApiKey.METADATA: self.metadata,
                ApiKey.INIT_PRODUCER_ID: self.init_producer_id,
                ApiKey.PRODUCE: self.produce,
            }
        )

    def metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        partitions = tuple(MetadataResponsePartition(partition_index=nth, leader_id=1) for nth in (0, 1))
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port),),
            topics=(MetadataResponseTopic(name="t", partitions=partitions),),
        )

    def init_producer_id(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        assert request.transactional_id is None
        return InitProducerIdResponse(producer_id=70, producer_epoch=3)

    def produce(self, request: ProduceRequest, version: int) -> ProduceResponse | None:
        assert request.acks == -1
        [topic] = request.topic_data
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        done = []
        for partition in topic.partition_data:
            records = partition.records or b""
            assert len(list(iter_batches(records))) == 1  # KIP-98: one batch per partition and request
            known = self.batches[partition.index]
            if code in (ErrorCode.NONE, None):
                if records in known:
                    done.append(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
                    continue
                known.append(records)
            done.append(code or ErrorCode.NONE)
        if code is None:
            return None
        partitions = tuple(
            PartitionProduceResponse(index=partition.index, error_code=error, error_message="why")
            for partition, error in zip(topic.partition_data, done, strict=True)
        )
        return ProduceResponse(responses=(TopicProduceResponse(name="t", partition_responses=partitions),))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    monkeypatch.setattr(cluster_module, "FIRST_BACKOFF_SECONDS", 0.001)
    made = Log()
    with made.server:
        yield made


def area(*values: bytes) -> RecordsArea:
    """These values without keys as one batch-to-be."""
    column = pa.array(values, pa.large_binary())
    keys = pa.nulls(len(values), pa.large_binary())
    [made] = encode_records(np.zeros(len(values), np.int64), keys, column, None)
    return made


def written(log: Log, partition: int) -> list[bytes | None]:
    return [record.value for batch in log.batches[partition] for record in read_records(batch)]


def send(log: Log, areas: list[tuple[int, RecordsArea]]) -> None:
    options = sink_options({"kafka.bootstrap.servers": log.server.address, "topic": "t"})
    with Cluster(options.client) as cluster:
        producer = Producer(cluster, options)
        for partition, rows in areas:
            producer.add(TopicPartition("t", partition), rows)
        producer.flush()


def test_batches_carry_producer_and_sequences(log: Log) -> None:
    send(log, [(0, area(b"a", b"b")), (1, area(b"c")), (0, area(b"d"))])
    assert (written(log, 0), written(log, 1)) == ([b"a", b"b", b"d"], [b"c"])
    headers = [read_header(batch) for batch in (*log.batches[0], *log.batches[1])]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(70, 3)}
    assert [header.base_sequence for header in headers] == [0, 2, 0]
    assert len(log.server.sent(ApiKey.PRODUCE)) == 2


@pytest.mark.parametrize(
    "answers",
    [
        [ErrorCode.NOT_LEADER_OR_FOLLOWER],
        [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT],
        [None],
        [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, None],
    ],
)
def test_a_batch_that_is_sent_again_is_written_once(log: Log, answers: list[ErrorCode | None]) -> None:
    log.answers = list(answers)
    send(log, [(0, area(b"a")), (1, area(b"b")), (0, area(b"c"))])
    assert (written(log, 0), written(log, 1)) == ([b"a", b"c"], [b"b"])


def test_a_final_refusal_names_the_partition_and_why(log: Log) -> None:
    log.answers = [ErrorCode.MESSAGE_TOO_LARGE]
    with pytest.raises(KafkaError, match="producing to t-0: MESSAGE_TOO_LARGE: why"):
        send(log, [(0, area(b"a"))])


def test_a_full_request_is_sent_without_flush(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "REQUEST_BYTES", 100)
    options = sink_options({"kafka.bootstrap.servers": log.server.address, "topic": "t"})
    with Cluster(options.client) as cluster:
        producer = Producer(cluster, options)
        producer.add(TopicPartition("t", 0), area(b"a" * 200))
        assert written(log, 0) == [b"a" * 200]


@pytest.fixture
def two_logs(log: Log) -> Iterator[tuple[Log, Log]]:
    """Two brokers: the first leads partition 0, the second partition 1."""
    other = Log()
    with other.server:

        def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
            brokers = tuple(
                MetadataResponseBroker(node_id=nth + 1, host="127.0.0.1", port=topic_log.server.port)
                for nth, topic_log in enumerate((log, other))
            )
            partitions = tuple(MetadataResponsePartition(partition_index=n, leader_id=n + 1) for n in (0, 1))
            topic = MetadataResponseTopic(name="t", partitions=partitions)
            return MetadataResponse(brokers=brokers, topics=(topic,))

        for topic_log in (log, other):
            topic_log.server.script = {**topic_log.server.script, ApiKey.METADATA: metadata}
        yield log, other


@pytest.mark.parametrize("refuses", [0, 1])
def test_a_final_error_leaves_no_answer_of_another_broker_behind(
    two_logs: tuple[Log, Log], refuses: int
) -> None:
    two_logs[refuses].answers = [ErrorCode.MESSAGE_TOO_LARGE]
    options = sink_options({"kafka.bootstrap.servers": two_logs[0].server.address, "topic": "t"})
    with Cluster(options.client) as cluster:
        producer = Producer(cluster, options)
        for partition in (0, 1):
            producer.add(TopicPartition("t", partition), area(b"first"))
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.flush()
        again = Producer(cluster, options)  # on the same connections
        again.add(TopicPartition("t", 1 - refuses), area(b"second"))
        again.flush()
    assert written(two_logs[1 - refuses], 1 - refuses) == [b"first", b"second"]


def test_a_lost_answer_beside_one_that_may_be_tried_again(two_logs: tuple[Log, Log]) -> None:
    for lost in (0, 1):
        two_logs[lost].answers = [None]
        two_logs[1 - lost].answers = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        send(two_logs[0], [(partition, area(b"%d" % lost)) for partition in (0, 1)])
    for partition in (0, 1):
        assert written(two_logs[partition], partition) == [b"0", b"1"]
