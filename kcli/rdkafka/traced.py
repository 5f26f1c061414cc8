"""A librdkafka producer that makes a span for each record. This module is imported only if traces are switched on."""

from __future__ import annotations

from functools import partial

import confluent_kafka

from kcli.rdkafka.client import kafka_error
from kcli.rdkafka.objects import ClientError, Delivered, Headers, Message
from kcli.tracing.record_spans import Place, ProducerSpans, Sending

PARTITION_UA = -1
REPORT_ALL = {"delivery.report.only.error": False}
"""The setting that makes librdkafka report the delivery of every record. Without this report, the span of the record
would not end."""


class TracedProducer(confluent_kafka.Producer):  # type: ignore[misc]  # the class has no types
    """Adds a trace context to the headers of each record, and exports a span when the record is acknowledged.

    A record that librdkafka refuses immediately has no span, because it is never sent.
    """

    def __init__(self, config: dict[str, object], spans: ProducerSpans) -> None:
        super().__init__({**config, **REPORT_ALL})
        delivered = config.get("on_delivery")
        self._delivered: Delivered | None = delivered if callable(delivered) else None
        self._spans = spans

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = PARTITION_UA,
        on_delivery: Delivered | None = None,
        *,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        sending = self._spans.begin(topic, headers)
        then = partial(self._reported, sending, key, value is None, on_delivery or self._delivered)
        super().produce(topic, value, key, partition, then, timestamp=timestamp, headers=sending.headers)

    def _reported(
        self,
        sending: Sending,
        key: bytes | None,
        is_tombstone: bool,
        then: Delivered | None,
        error: ClientError | None,
        message: Message,
    ) -> None:
        if then is not None:
            then(error, message)  # first, because the other calls may fail while a fatal error is raised
        place = Place(message.topic(), message.partition(), None if error is not None else message.offset())
        name = None if error is None else kafka_error(error).code.name
        self._spans.end(sending, place, key=key, is_tombstone=is_tombstone, error=name)
