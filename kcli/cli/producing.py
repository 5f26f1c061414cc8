"""A librdkafka producer that does what Java's does: its defaults, and where it puts records without a key."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

from kcli.cli import rdkafka
from kcli.cli.options import CommandError

PARTITION_UA = -1  # librdkafka's "choose one"

# The Java producer's defaults where librdkafka's differ, so that the same command behaves the same.
JAVA_DEFAULTS: dict[str, object] = {
    "partitioner": "murmur2_random",
    "message.max.bytes": 1_048_576,
    "queue.buffering.max.messages": 1_000_000,
}

BATCH_BYTES = 16_384
"""Java's default batch.size: so many bytes without a key go to one partition before the next is chosen (KIP-794)."""
LINGER_MS, REQUEST_TIMEOUT_MS, DELIVERY_TIMEOUT_MS = 5, 30_000, 120_000  # Java's, too
IN_FLIGHT_MAX = 5  # of an idempotent producer
# How long a topic that is being created may take to have partitions, before librdkafka is left to choose.
PARTITIONS_TIMEOUT_S = 5.0
PARTITIONS_PAUSE_S = 0.05


def configuration(properties: Mapping[str, str], **more: object) -> dict[str, object]:
    """librdkafka's configuration from Java's properties, idempotent as Java is: unless they rule it out (KIP-679)."""
    config = {**rdkafka.translate(properties), **more}
    may_be_idempotent = (
        properties.get("acks", "all") in ("all", "-1")
        and properties.get("retries") != "0"
        and int(properties.get("max.in.flight.requests.per.connection", IN_FLIGHT_MAX)) <= IN_FLIGHT_MAX
    )
    # A record may wait for company and then for its answer: Java makes the time for both, unless a time is asked for.
    linger_ms = int(properties.get("linger.ms", LINGER_MS))
    needed_ms = linger_ms + int(properties.get("request.timeout.ms", REQUEST_TIMEOUT_MS))
    if int(properties.get("delivery.timeout.ms", needed_ms)) < needed_ms:
        raise CommandError(
            "org.apache.kafka.common.config.ConfigException: "
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
        )
    defaults = {
        "enable.idempotence": may_be_idempotent,
        "queue.buffering.max.ms": linger_ms,
        "message.timeout.ms": max(DELIVERY_TIMEOUT_MS, needed_ms),
    }
    return {**JAVA_DEFAULTS, **defaults, **config}


class StickyPartition:
    """Java's partitioner for records without a key: a run of them stays together, and so in order.

    librdkafka's own changes by time, which scatters the few records of a short run over all partitions.
    """

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._partitions: list[int] | None = None
        self._partition = PARTITION_UA
        self._left_bytes = 0

    def take(self, size_bytes: int) -> int:
        """The partition of the next record, which is so long."""
        if self._left_bytes <= 0:
            self._left_bytes = BATCH_BYTES
            self._partition = self._chosen()
        self._left_bytes -= size_bytes + 1
        return self._partition

    def _chosen(self) -> int:
        if not self._partitions:
            # Who waited in vain once does not hold up every run of records.
            timeout_s = PARTITIONS_TIMEOUT_S if self._partitions is None else 0.0
            self._partitions = self._with_leader(time.monotonic() + timeout_s)
        return random.choice(self._partitions) if self._partitions else PARTITION_UA

    def _with_leader(self, deadline: float) -> list[int]:
        """The topic's partitions that can be written to; none while it is not there."""
        from confluent_kafka import KafkaError, KafkaException

        while True:
            try:
                topic = self._producer.list_topics(self._topic, PARTITIONS_TIMEOUT_S).topics[self._topic]
            except KafkaException:
                return []
            found = [each.id for each in topic.partitions.values() if each.leader >= 0]
            refused = topic.error is not None and topic.error.code() == KafkaError.TOPIC_EXCEPTION
            if found or refused or time.monotonic() >= deadline:
                return found
            time.sleep(PARTITIONS_PAUSE_S)
