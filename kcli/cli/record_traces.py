"""The traces of a tool that sends or reads records. The environment variables of OpenTelemetry switch the traces on, so
the tools need no options that Kafka's tools do not have."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from kcli.cli.syntax.options import CommandError

if TYPE_CHECKING:
    from kcli.rdkafka import objects
    from kcli.tracing.export_queue import ExportQueue
    from kcli.tracing.record_spans import ConsumerSpans, ProducerSpans
    from kcli.tracing.tracer import Tracer

_PREFIX = "OTEL_"


class Formatter(Protocol):
    """Returns the text of a record."""

    def __call__(self, message: objects.Message) -> bytes: ...


class RecordTraces:
    """Exports the spans of the records that one tool sends or reads."""

    def __init__(self, tracer: Tracer, queue: ExportQueue) -> None:
        self._tracer = tracer
        self._queue = queue

    def producer(self, config: Mapping[str, object]) -> ProducerSpans:
        from kcli.tracing.record_spans import ProducerSpans

        return ProducerSpans(self._tracer, str(config.get("client.id", "")))

    def consumer(self, config: Mapping[str, object], *, is_in_group: bool) -> ConsumedRecords:
        from kcli.tracing.record_spans import ConsumerSpans

        group = str(config["group.id"]) if is_in_group and "group.id" in config else None
        return ConsumedRecords(ConsumerSpans(self._tracer, str(config.get("client.id", "")), group))

    def close(self) -> None:
        """Waits for the export, for a few seconds at most. Logs how many spans were lost."""
        from kcli.rdkafka.log import logger

        self._queue.close()
        if self._queue.dropped:
            logger().warning(
                "%d of %d spans were not exported.",
                self._queue.dropped,
                self._queue.dropped + self._queue.exported,
            )


class ConsumedRecords:
    """The spans of the records that a tool reads. A record without a trace context gets no span, because the span would
    be alone in its trace. The span of the poll includes such a record in its count of records."""

    def __init__(self, spans: ConsumerSpans) -> None:
        self._spans = spans
        self._unfinished: list[tuple[objects.Message, int, Exception | None]] = []

    def timed(self, show: Formatter) -> Formatter:
        """Returns a formatter that also stores when the work on a record began. `finished` exports the spans."""

        def show_timed(message: objects.Message) -> bytes:
            started_ns = now_ns()
            problem: Exception | None = None
            try:
                return show(message)
            except Exception as error:
                problem = error
                raise
            finally:
                self._unfinished.append((message, started_ns, problem))

        return show_timed

    def finished(self) -> None:
        """Exports the spans of the records that were processed since the last call. These spans end at the present
        time."""
        for message, started_ns, problem in self._unfinished:
            self.processed(message, started_ns, problem)
        self._unfinished.clear()

    def polled(self, messages: Iterable[objects.Message], started_ns: int) -> None:
        """Exports the span of a poll, unless it returned no record."""
        from kcli.tracing.trace_context import of_headers

        records = [message for message in messages if message.error() is None]
        if records:
            links = (of_headers(message.headers()) for message in records)
            contexts = [context for context in links if context is not None]
            topics = [message.topic() for message in records]
            self._spans.polled(topics, contexts, count=len(records), started_ns=started_ns)

    def processed(
        self, message: objects.Message, started_ns: int, error: BaseException | None = None
    ) -> None:
        """Exports the span of the work on a record, if the record has a trace context."""
        from kcli.tracing.record_spans import Place
        from kcli.tracing.trace_context import of_headers

        created = of_headers(message.headers())
        if created is not None:
            self._spans.processed(
                Place(message.topic(), message.partition(), message.offset()),
                created,
                key=message.key(),
                is_tombstone=message.value() is None,
                started_ns=started_ns,
                error=None if error is None else type(error).__name__,
            )


def now_ns() -> int:
    """Returns the present time in nanoseconds since the epoch, the unit of spans."""
    return time.time_ns()


def record_traces(tool: str) -> RecordTraces | None:
    """Returns the traces of a tool, or None if no environment variable switches them on.

    Raises CommandError if the environment variables are invalid, or name an export that is not supported.
    """
    if not any(name.startswith(_PREFIX) for name in os.environ):
        return None
    from kcli.tracing.settings import TracingError, asked, settings_of

    try:
        if not asked(os.environ):
            return None
        settings = settings_of(os.environ, f"kcli-{tool}")
    except TracingError as error:
        raise CommandError(str(error)) from error
    from kcli.tracing.otlp import sampler
    from kcli.tracing.tracer import Tracer, export_queue

    queue = export_queue(settings)
    return RecordTraces(Tracer(queue, sampler()), queue)


def new_producer(config: dict[str, object], traces: RecordTraces | None) -> objects.Producer:
    """Returns a librdkafka producer. With `traces`, each record that it sends gets a span."""
    from kcli.rdkafka.client import new_client

    if traces is None:
        from confluent_kafka import Producer

        producer: objects.Producer = new_client(Producer, config)
        return producer
    from kcli.rdkafka.traced import TracedProducer

    spans = traces.producer(config)
    traced: objects.Producer = new_client(lambda checked: TracedProducer(checked, spans), config)
    return traced
