"""The producer of a source task: librdkafka's, with the limits and errors of Java's producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.connect.tasks.control import Control
from kcli.connect.tasks.conversion import Outgoing
from kcli.connect.tasks.tolerance import Stopping
from kcli.errors import KafkaError, ProducerFencedException, RecordTooLargeException
from kcli.model.java_text import parse_long
from kcli.rdkafka.client import is_fatal, kafka_error, new_client
from kcli.rdkafka.objects import ClientError, Delivered, Producer
from kcli.rdkafka.producer import producer_config, serialized_bytes, too_large

MESSAGE_BYTES_MIN = 1000
"""The smallest message.max.bytes of librdkafka. A smaller limit of Java is checked here."""
REQUEST_BYTES = 1_048_576
"""The default of max.request.size in Java."""
FULL_QUEUE_WAIT_S = 0.1


class RecordProducer:
    """Gives records to librdkafka, and waits while its queue is full."""

    def __init__(self, properties: Mapping[str, str], control: Control) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka import Producer as RdProducer

        # Without reports of success, a record costs a third of the time. `confluent_kafka` then calls `on_delivery`
        # only for failures.
        self.reports_success = False
        self._control = control
        self._properties = properties
        self._max_bytes = parse_long(properties.get("max.request.size", str(REQUEST_BYTES)))
        self._new = RdProducer
        self._refused: type[Exception] = KafkaException
        self.checks_size = self._max_bytes < MESSAGE_BYTES_MIN
        self.client: Producer

    def open(self, *, reports_success: bool) -> None:
        config = producer_config(self._properties)
        self.client = new_client(self._new, {**config, "delivery.report.only.error": not reports_success})

    def fast_put(self, on_delivery: Delivered) -> Callable[[Outgoing], KafkaError | None]:
        """Returns a function that does the same as `put`, with fewer steps for a record that is accepted at once."""
        produce, put = self.client.produce, self.put
        if self.checks_size:
            return lambda record: put(record, on_delivery)

        def fast(record: Outgoing) -> KafkaError | None:
            topic, value, key, partition, timestamp, headers = record
            try:
                produce(topic, value, key, partition, on_delivery, timestamp=timestamp, headers=headers)
            except Exception:
                return put(record, on_delivery)  # which waits for room in the queue, or finds the reason
            return None

        return fast

    def put(self, record: Outgoing, on_delivery: Delivered) -> KafkaError | None:
        """Gives a record to librdkafka as soon as its queue has room.

        Returns the error if the record is refused. Raises KafkaException after a fatal error, and Stopping if the task
        must stop while the queue is full.
        """
        topic, value, key, partition, timestamp, headers = record
        if self.checks_size:
            size_bytes = serialized_bytes(key, value, headers or [])
            if size_bytes > self._max_bytes:
                return too_large(size_bytes, self._max_bytes)
        while True:
            try:
                self.client.produce(
                    topic, value, key, partition, on_delivery, timestamp=timestamp, headers=headers
                )
                return None
            except BufferError:
                self.client.poll(FULL_QUEUE_WAIT_S)
                if self._control.is_stopping:
                    raise Stopping from None
            except self._refused as error:
                if is_fatal(error.args[0]):
                    raise
                refused = kafka_error(error.args[0])
                if not isinstance(refused, RecordTooLargeException):
                    return refused
                return too_large(serialized_bytes(key, value, headers or []), self._max_bytes)


def delivery_error(error: ClientError) -> KafkaError:
    """The error of a record or a transaction. A fenced producer has Java's exception."""
    from confluent_kafka import KafkaError as RdError

    if error.code() == RdError._FENCED:
        return ProducerFencedException()
    return kafka_error(error)
