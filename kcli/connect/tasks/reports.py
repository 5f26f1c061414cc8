"""Reports of records that failed: to the log, and to a dead-letter topic (KIP-298, KIP-610)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.connect.tasks.channel import Channel, WorkerError
from kcli.connect.tasks.spec import ErrorSpec, TaskSpec
from kcli.connect.tasks.tolerance import ErrorCounts, Failure, Reporter, Stage, Tolerance
from kcli.connect.tasks.traces import java_class, java_trace, summary
from kcli.connectors.records import SinkRecord, SourceRecord
from kcli.formats.connect.errors import ConnectException
from kcli.rdkafka.client import kafka_error, new_client
from kcli.rdkafka.objects import ClientError, Headers, Message, Producer
from kcli.rdkafka.producer import producer_config

_LOG = logging.getLogger("org.apache.kafka.connect.runtime.errors.LogReporter")
_DEAD_LETTERS = logging.getLogger("org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter")

HEADER_PREFIX = "__connect.errors."
FLUSH_TIMEOUT_S = 30.0
"""The longest wait for dead letters when a task ends, or when a sink reports a record."""
TOPIC_EXISTS = "org.apache.kafka.common.errors.TopicExistsException"
_TIMESTAMP_TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}
"""librdkafka's numbers of the types of timestamps, and Java's names."""


@dataclass(slots=True)
class LogReporter:
    """Logs each failure (errors.log.enable)."""

    task: str
    with_record: bool
    counts: ErrorCounts

    def report(self, failure: Failure) -> None:
        record = ""
        if self.with_record and failure.record is not None:
            record = f", where {_described(failure.record)}"
        text = f"Executing stage '{failure.stage}' with class '{failure.class_name}'{record}."
        _LOG.error("Error encountered in task %s. %s", self.task, text, exc_info=failure.error)
        self.counts.logged += 1


def _described(record: object) -> str:
    if isinstance(record, SourceRecord):
        from kcli.connect.tasks.record_text import source_record_text

        return f"source record is = {source_record_text(record)}"
    message: Message = record  # type: ignore[assignment]  # a sink task reports consumed messages
    kind, timestamp = message.timestamp()
    return (
        f"consumed record is {{topic='{message.topic()}', partition={message.partition()}, "
        f"offset={message.offset()}, timestamp={timestamp}, timestampType={_TIMESTAMP_TYPES[kind]}}}"
    )


@dataclass(slots=True)
class DeadLetters:
    """Produces the original bytes of each failed record to the dead-letter topic."""

    spec: TaskSpec
    producer: Producer
    counts: ErrorCounts

    def report(self, failure: Failure) -> None:
        from confluent_kafka import KafkaException

        message: Message = failure.record  # type: ignore[assignment]  # only sink tasks have dead letters
        headers: Headers = list(message.headers() or ())
        if self.spec.errors.dead_letter_headers:
            headers += self._context(failure, message)
        kind, timestamp = message.timestamp()
        self.counts.dead_letter_requests += 1
        while True:
            try:
                self.producer.produce(
                    self.spec.errors.dead_letter_topic,
                    message.value(),
                    message.key(),
                    on_delivery=self._delivered,
                    timestamp=timestamp if kind else 0,
                    headers=headers or None,
                )
                return
            except BufferError:
                self.producer.poll(0.1)
            except KafkaException as error:  # for example, the dead letter is too large
                self._delivered(error.args[0], message)
                return

    def flush(self) -> None:
        """Waits until the reports are in the topic, or have failed. Raises ConnectException after the time-out."""
        if left := self.producer.flush(FLUSH_TIMEOUT_S):
            raise ConnectException(
                f"Dead letters that were not written to {self.spec.errors.dead_letter_topic} "
                f"in {FLUSH_TIMEOUT_S:.0f} s: {left}"
            )

    def _delivered(self, error: ClientError | None, message: Message) -> None:
        if error is not None:
            self.counts.dead_letter_failures += 1
            _DEAD_LETTERS.error(
                "Could not produce message to dead letter queue. topic=%s",
                self.spec.errors.dead_letter_topic,
                exc_info=kafka_error(error),
            )

    def _context(self, failure: Failure, message: Message) -> Headers:
        error = failure.error
        values = {
            "topic": message.topic(),
            "partition": str(message.partition()),
            "offset": str(message.offset()),
            "connector.name": self.spec.connector,
            "task.id": str(self.spec.task),
            "stage": str(failure.stage),
            "class.name": failure.class_name,
            "exception.class.name": java_class(error),
            "exception.message": str(error),
            "exception.stacktrace": java_trace(error),
        }
        return [(HEADER_PREFIX + name, text.encode()) for name, text in values.items()]


class ExecutionException(ConnectException):
    """Wraps the error of a request that ran in the background, as Java's futures do."""

    java_class = "java.util.concurrent.ExecutionException"


def dead_letters(spec: TaskSpec, channel: Channel, counts: ErrorCounts) -> DeadLetters:
    """Creates the dead-letter topic if it does not exist, and a producer for it. Raises ConnectException."""
    errors, sink = spec.errors, spec.sink
    assert sink is not None
    topic = errors.dead_letter_topic
    try:
        if not channel.ask("topic_exists", {"topic": topic}):
            _DEAD_LETTERS.error("Topic %s doesn't exist. Will attempt to create topic.", topic)
            _create(errors, channel)
    except WorkerError as error:
        cause = ExecutionException(summary(error))
        cause.__cause__ = error
        raise ConnectException(f"Could not initialize dead letter queue with topic={topic}") from cause
    from confluent_kafka import Producer as RdProducer

    producer: Producer = new_client(RdProducer, producer_config(sink.dead_letter_producer))
    return DeadLetters(spec, producer, counts)


def _create(errors: ErrorSpec, channel: Channel) -> None:
    body = {
        "topic": errors.dead_letter_topic,
        "partitions": 1,
        "replication_factor": errors.dead_letter_replication_factor,
        "configs": {},
    }
    try:
        channel.ask("create_topic", body)
    except WorkerError as error:
        if error.java_class != TOPIC_EXISTS:
            raise


def reporters(
    spec: TaskSpec, channel: Channel, counts: ErrorCounts
) -> tuple[Sequence[Reporter], DeadLetters | None]:
    """The reporters of a task, and the dead-letter topic among them."""
    chosen: list[Reporter] = []
    letters = None
    if spec.errors.log:
        chosen.append(LogReporter(spec.id, spec.errors.log_records, counts))
    if spec.errors.dead_letter_topic and spec.sink is not None:
        letters = dead_letters(spec, channel, counts)
        chosen.append(letters)
    return chosen, letters


@dataclass(slots=True)
class SinkErrorReporter:
    """Takes records that a sink task could not write, as if `put` were a stage (KIP-610)."""

    tolerance: Tolerance
    letters: DeadLetters | None

    def report(self, record: SinkRecord, error: Exception) -> None:
        message = getattr(record, "message", None)
        if message is None:
            raise ConnectException("The reported record is not one that this task was given")
        letters = self.letters
        if letters is not None:
            letters.flush()  # so that the failures after it are those of this record
        failures = self.tolerance.counts.dead_letter_failures
        self.tolerance.failed(
            Failure(message, Stage.TASK_PUT, "org.apache.kafka.connect.sink.SinkTask", error)
        )
        if letters is not None:
            letters.flush()
            if self.tolerance.counts.dead_letter_failures > failures:
                # The task takes the record as handled, and it would be nowhere.
                raise ConnectException(
                    f"The reported record was not written to {letters.spec.errors.dead_letter_topic}"
                ) from error
