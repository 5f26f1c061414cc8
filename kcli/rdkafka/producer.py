"""A librdkafka producer with the defaults and time-outs of Java's producer. It chooses partitions as Java's producer
does."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from kcli.errors import (
    ErrorCode,
    InvalidTopicException,
    KafkaError,
    RecordTooLargeException,
    TimeoutException,
    TopicAuthorizationException,
)
from kcli.model.java_text import INT_MAX, parse_int, parse_long, trim
from kcli.rdkafka.client import is_fatal, kafka_error
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.errors import ConfigurationError
from kcli.rdkafka.log import warn_as_java
from kcli.rdkafka.objects import ClientError, Delivered, Headers, Producer, TopicMetadata

PARTITION_UA = -1  # librdkafka then chooses the partition

# The Java producer's defaults that differ from librdkafka's, so that a command behaves as in Kafka.
JAVA_DEFAULTS: dict[str, object] = {
    "partitioner": "murmur2_random",
    "message.max.bytes": 1_048_576,
    "queue.buffering.max.messages": 1_000_000,
}

RECORD_OVERHEAD_BYTES = 61 + 21
"""The header of a batch, and the longest encoding of a record's own fields.

Java's producer adds both sizes to the size of a record.
"""
BATCH_BYTES = 16_384
"""The default of batch.size in Java. After this number of bytes in records without a key, a new partition is chosen for
such records (KIP-794)."""
LINGER_MS, REQUEST_TIMEOUT_MS, DELIVERY_TIMEOUT_MS = 5, 30_000, 120_000  # the defaults of Java's producer
IN_FLIGHT_MAX = 5  # the limit for an idempotent producer
MAX_BLOCK_MS = 60_000  # max.block.ms
# The time-out of a metadata request, and the pause before the next metadata request.
METADATA_TIMEOUT_S = 5.0
METADATA_PAUSE_S = 0.05
_RECOVERABLE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
"""Errors of a topic that may end while the producer waits for the topic."""
# If the queue is full, the pause before a record is passed to the queue again.
FULL_QUEUE_WAIT_S = 0.01


def producer_config(properties: Mapping[str, str], **more: object) -> dict[str, object]:
    """Returns librdkafka's configuration for Java's properties.

    As in Java, idempotence is on if these properties permit it (KIP-679).
    """
    config = {**translate(properties), **more}
    may_be_idempotent = (
        trim(properties.get("acks", "all")) in ("all", "-1")
        and _integer(properties, "retries", INT_MAX) != 0
        and _integer(properties, "max.in.flight.requests.per.connection", IN_FLIGHT_MAX) <= IN_FLIGHT_MAX
    )
    # A record may wait for its batch (linger.ms) and then for the response (request.timeout.ms). So the default must be
    # at least the sum of both times.
    linger_ms = _integer(properties, "linger.ms", LINGER_MS)
    needed_ms = min(INT_MAX, linger_ms + _integer(properties, "request.timeout.ms", REQUEST_TIMEOUT_MS))
    if _integer(properties, "delivery.timeout.ms", needed_ms) < needed_ms:
        raise ConfigurationError(
            "org.apache.kafka.common.config.ConfigException: "
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        )
    defaults = {
        "enable.idempotence": may_be_idempotent,
        "queue.buffering.max.ms": linger_ms,
        "message.timeout.ms": max(DELIVERY_TIMEOUT_MS, needed_ms),
    }
    return {**JAVA_DEFAULTS, **defaults, **config}


def _integer(properties: Mapping[str, str], key: str, default: int) -> int:
    """The value of a key that `translate` has checked."""
    return parse_long(trim(properties.get(key, str(default))))


class Destination:
    """Sends records to one topic as Java's producer does: waits for the metadata of the topic, and chooses
    partitions."""

    def __init__(self, producer: Producer, topic: str, config: Mapping[str, object]) -> None:
        from confluent_kafka import KafkaException

        self._producer = producer
        self._produce = producer.produce
        self._refused: type[Exception] = KafkaException
        self._topic = topic
        self._max_bytes = parse_int(str(config.get("message.max.bytes", JAVA_DEFAULTS["message.max.bytes"])))
        self._batch_bytes = parse_int(str(config.get("batch.size", BATCH_BYTES)))
        self._client_id = str(config.get("client.id", ""))
        self._existed: bool | None = (
            None  # whether the topic existed before the first request that may create it
        )
        self._issue: int | None = None  # the error of the topic that was reported last
        self._max_block_ms = parse_int(str(config.get("topic.metadata.propagation.max.ms", MAX_BLOCK_MS)))
        self._partitions: list[int] = []
        self._partition = 0
        self._left_bytes = 0

    def awaited(self) -> KafkaError | None:
        """Waits until the topic's partitions are known. Returns an error if the client cannot get them.

        The caller must call this method before it sends the first record. Java's producer waits in the same way in each
        send.
        """
        if self._partitions:
            return None
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._max_block_ms / 1000
        while not self._partitions:
            timeout_s = min(METADATA_TIMEOUT_S, max(METADATA_PAUSE_S, deadline - time.monotonic()))
            try:
                topic = self._topic_metadata(timeout_s)
            except KafkaException:
                pass  # no broker answers, and librdkafka logs the reason
            else:
                self._partitions = [
                    partition.id for partition in topic.partitions.values() if partition.leader >= 0
                ]
                if topic.error is not None and topic.error.code() == ErrorCode.INVALID_TOPIC_EXCEPTION:
                    return InvalidTopicException(f"Invalid topics: [{self._topic}]")
                if topic.error is not None and topic.error.code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    return TopicAuthorizationException(f"Not authorized to access topics: [{self._topic}]")
                if not self._existed:
                    self._report_issue(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    self._existed = True
                self._report_issue(ErrorCode.NONE if topic.error is None else topic.error.code())
            if not self._partitions:
                if time.monotonic() >= deadline:
                    where = f"not present in metadata after {self._max_block_ms} ms."
                    return TimeoutException(f"Topic {self._topic} {where}")
                self._producer.poll(METADATA_PAUSE_S)
        return None

    def _topic_metadata(self, timeout_s: float) -> TopicMetadata:
        """Asks for the topic. Before the first such request, asks for all topics, which creates none.

        librdkafka sends two requests for a new topic. The first one may create it, and only the second one's answer is
        returned. So this answer may not tell that the topic was missing.
        """
        if self._existed is None:
            self._existed = self._topic in self._producer.list_topics(timeout=timeout_s).topics
        return self._producer.list_topics(self._topic, timeout_s).topics[self._topic]

    def _report_issue(self, code: int) -> None:
        """Warns as Java's client does that the topic has no leader or does not exist. A broker may then create it, for
        example because its name has a mistake. The same issue is reported once, and Java's client counts requests."""
        if code not in _RECOVERABLE or code == self._issue:
            return
        self._issue = code
        warn_as_java(
            f"[Producer clientId={self._client_id}] The metadata response from the cluster reported a recoverable "
            f"issue with correlation id 1 : {{{self._topic}={ErrorCode(code).name}}}",
            "org.apache.kafka.clients.NetworkClient",
        )

    def sticky(self, size_bytes: int) -> int:
        """Chooses the partition of the next record without a key, whose size is `size_bytes`.

        Consecutive records go to the same partition, so they stay in order. librdkafka's own partitioner chooses a new
        partition after a fixed time, so even a few records could go to different partitions.
        """
        if self._left_bytes <= 0:
            self._left_bytes = self._batch_bytes
            self._partition = random.choice(self._partitions)
        self._left_bytes -= size_bytes + 1
        return self._partition

    def send(
        self,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        *,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Delivered | None = None,
    ) -> KafkaError | None:
        """Passes a record to librdkafka as soon as its queue has room.

        Returns the error if librdkafka refuses the record. Raises KafkaException or SystemError after a fatal error.
        `DeliveryReports.flush` then learns its reason.
        """
        timestamp = timestamp_ms or 0  # for librdkafka 0 means the current time
        while True:
            try:
                self._produce(
                    self._topic,
                    value,
                    key,
                    partition,
                    on_delivery,
                    timestamp=timestamp,
                    headers=headers or None,
                )
                return None
            except BufferError:
                self._producer.poll(FULL_QUEUE_WAIT_S)
            except self._refused as error:
                if is_fatal(error.args[0]):
                    raise
                return self._refusal(error.args[0], key, value, headers or [])

    def _refusal(
        self, error: ClientError, key: bytes | None, value: bytes | None, headers: Headers
    ) -> KafkaError:
        refused = kafka_error(error)
        if not isinstance(refused, RecordTooLargeException):
            return refused
        return too_large(serialized_bytes(key, value, headers), self._max_bytes)


def too_large(size_bytes: int, max_bytes: int) -> RecordTooLargeException:
    """The error of Java's producer for a record that is larger than max.request.size."""
    return RecordTooLargeException(
        f"The message is {size_bytes} bytes when serialized which is larger than {max_bytes}, which is the "
        "value of the max.request.size configuration."
    )


def serialized_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The size of a record for max.request.size, as Java's producer computes it."""
    parts = [key, value, *(part for name, content in headers for part in (name.encode(), content))]
    return RECORD_OVERHEAD_BYTES + _varint_bytes(len(headers)) + sum(map(_sized_bytes, parts))


def _sized_bytes(part: bytes | None) -> int:
    return 1 if part is None else _varint_bytes(len(part)) + len(part)


def _varint_bytes(number: int) -> int:
    """Returns the length of a zigzag varint."""
    return max(1, -(-(number << 1).bit_length() // 7))
