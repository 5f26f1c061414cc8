"""The sink `kcli`: rows with key, value, headers, topic and partition columns, produced by the executors.

At-least-once. A task has an idempotent producer of its own (KIP-98), so nothing it retries is written twice; but a
task or a micro-batch that Spark runs again writes its rows again, as with Spark's own Kafka sink.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.protocol.api import ApiKey
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.spark.cluster import Cluster, Retry, TopicPartition
from kcli.spark.connection import Pending
from kcli.spark.options import SINK_COLUMNS, SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

REQUEST_BYTES = 8 << 20
"""Batches for one leader that travel together; far below socket.request.max.bytes (100 MiB)."""

ACKS_ALL = -1
MAX_SEQUENCE = 0x7FFF_FFFF


@dataclass
class Written(WriterCommitMessage):
    """A task's report: rows written."""

    rows: int


class _Writer:
    """What batch and stream share: check the schema on the driver, produce in the executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from kcli.spark.rows import Router

        rows = 0
        with Cluster(self.options.client) as cluster:
            producer = Producer(cluster, self.options)
            router = Router(cluster, self.options.topic)
            for batch in iterator:
                for part, area in router.areas(batch):
                    producer.add(part, area)
                rows += batch.num_rows
            producer.flush()
        return Written(rows)


class BatchWriter(_Writer, DataSourceArrowWriter):
    pass


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Nothing to do at commit: rows are in their topics when a task ends (at-least-once)."""

    def commit(self, messages: list[Any], batchId: int) -> None:
        pass

    def abort(self, messages: list[Any], batchId: int) -> None:
        pass


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """ValueError names the column that is missing, unknown or of the wrong type."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, given in types.items():
        if name not in SINK_COLUMNS:
            raise ValueError(f"column {name} cannot be written to a topic; {', '.join(SINK_COLUMNS)} can")
        if given not in SINK_COLUMNS[name]:
            raise ValueError(f"column {name} is {given}; {' or '.join(SINK_COLUMNS[name])} is meant")
    if "value" not in types:
        raise ValueError("Required attribute 'value' not found: name the column to write value")
    if "topic" not in types and options.topic is None:
        raise ValueError("topic option required when no 'topic' attribute is present")


class Producer:
    """An idempotent producer with one request in flight per leader, so that batches keep their order."""

    def __init__(self, cluster: Cluster, options: SinkOptions) -> None:
        self._cluster, self._options = cluster, options
        self._producer_id, self._epoch = cluster.init_producer_id()
        self._sequences: dict[TopicPartition, int] = {}
        self._waiting: dict[TopicPartition, deque[bytes]] = {}
        self._waiting_bytes = 0

    def add(self, part: TopicPartition, area: Any) -> None:
        """Take one batch; it is sent when enough has gathered."""
        from kcli.spark.encoder import seal

        sequence = self._sequences.get(part, 0)
        self._sequences[part] = (sequence + area.count) & MAX_SEQUENCE
        now_ms = time.time_ns() // 1_000_000
        batch = seal(area, self._options.codec, now_ms, self._producer_id, self._epoch, sequence)
        self._waiting.setdefault(part, deque()).append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= REQUEST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send all that waits and see it acknowledged. A request holds one batch per partition (KIP-98)."""
        while self._waiting:
            self._produce({part: batches.popleft() for part, batches in self._waiting.items()})
            self._waiting = {part: batches for part, batches in self._waiting.items() if batches}
        self._waiting_bytes = 0

    def _produce(self, batches: dict[TopicPartition, bytes]) -> None:
        retry = Retry(self._cluster.settings.api_timeout_ms, "producing")
        while batches:
            failed: OSError | KafkaError | None = None
            sent: list[tuple[int, Pending]] = []
            try:
                for node, parts in self._cluster.by_leader(batches).items():
                    request = self._request({part: batches[part] for part in parts})
                    sent.append((node, self._cluster.connection(node).send(request, ApiKey.PRODUCE)))
            except (OSError, KafkaError) as error:
                failed = error
            for node, pending in sent:
                try:
                    answer = self._cluster.connection(node).receive(pending)
                    failed = self._settle(answer, batches) or failed
                except OSError as error:
                    failed = error
            if failed is not None:
                retry.after(failed)
                if isinstance(failed, OSError):
                    self._cluster.close()
                for part in batches:
                    self._cluster.forget(part)

    def _settle(self, answer: Any, batches: dict[TopicPartition, bytes]) -> KafkaError | None:
        """Drop what is written from `batches`; an error of one that may be tried again."""
        failed = None
        for topic in answer.responses:
            for each in topic.partition_responses:
                part = TopicPartition(topic.name, each.index)
                if each.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    del batches[part]
                    continue
                what = f": {each.error_message}" if each.error_message else ""
                error = error_for(each.error_code, f"producing to {part}: {each.error_code.name}{what}")
                if not error.retriable:
                    raise error
                failed = error
        return failed

    def _request(self, batches: dict[TopicPartition, bytes]) -> ProduceRequest:
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for part, batch in batches.items():
            by_topic.setdefault(part.topic, []).append(
                PartitionProduceData(index=part.partition, records=batch)
            )
        return ProduceRequest(
            transactional_id=None,
            acks=ACKS_ALL,
            timeout_ms=self._options.client.request_timeout_ms,
            topic_data=tuple(
                TopicProduceData(name=name, partition_data=tuple(parts)) for name, parts in by_topic.items()
            ),
        )
