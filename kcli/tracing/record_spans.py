"""The spans of clients, by the messaging conventions of OpenTelemetry (semantic-conventions 1.44). `T` is a topic.

    send T      PRODUCER   a record, from `produce` to its acknowledgement. Its context goes into the record's headers.
    poll T      CLIENT     the records of a poll, with links to their contexts
    process T   CONSUMER   the work on one record. Its parent is the context of the record (docs/adr/0022).

If a record already has trace headers, `send T` is a CLIENT span with a link to the context in these headers, and the
headers are not changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.tracing.span import AttributeValue, Kind, Span
from kcli.tracing.trace_context import Header, TraceContext, has_context, of_headers, with_context
from kcli.tracing.tracer import Tracer

KEY_MAX_CHARS = 128
"""The number of characters of a key that an attribute shows. A whole key may have megabytes."""

LINKS_MAX = 128
"""The most links of a span, the same as the SDK's default of OTEL_SPAN_LINK_COUNT_LIMIT."""

SYSTEM = "messaging.system"
OPERATION, OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
DESTINATION, PARTITION = "messaging.destination.name", "messaging.destination.partition.id"
CLIENT_ID, GROUP = "messaging.client.id", "messaging.consumer.group.name"
BATCH_COUNT = "messaging.batch.message_count"
OFFSET, KEY, TOMBSTONE = (
    "messaging.kafka.offset",
    "messaging.kafka.message.key",
    "messaging.kafka.message.tombstone",
)

Attributes = dict[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class Place:
    """The topic, partition and offset of a record. `offset` is None if the broker has not reported it."""

    topic: str
    partition: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Sending:
    """A record that is being sent: its headers, and its open span, which ends when the record is acknowledged."""

    headers: list[Header]
    context: TraceContext
    kind: Kind
    links: tuple[TraceContext, ...]
    started_ns: int


class ProducerSpans:
    """The spans of one producer."""

    def __init__(self, tracer: Tracer, client_id: str) -> None:
        self._tracer = tracer
        self._client_id = client_id

    def begin(self, topic: str, headers: Sequence[Header] | None) -> Sending:
        """Begins the span of a record. The caller must send the record with the returned headers."""
        started_ns = time.time_ns()
        if has_context(headers):
            of_sender = of_headers(headers)
            context = self._tracer.begin(f"send {topic}", Kind.CLIENT, of_sender)
            links = () if of_sender is None else (of_sender,)
            return Sending(list(headers or ()), context, Kind.CLIENT, links, started_ns)
        context = self._tracer.begin(f"send {topic}", Kind.PRODUCER)
        return Sending(with_context(headers, context), context, Kind.PRODUCER, (), started_ns)

    def end(
        self,
        sending: Sending,
        place: Place,
        *,
        key: bytes | None,
        is_tombstone: bool,
        error: str | None = None,
    ) -> None:
        """Ends the span of a record. `error` is the name of Kafka's error."""
        if not sending.context.is_sampled:
            return
        attributes = _attributes("send", "send", place.topic, self._client_id)
        _add_record(attributes, place, key, is_tombstone=is_tombstone)
        self._tracer.end(
            Span(
                f"send {place.topic}",
                sending.kind,
                sending.context,
                sending.started_ns,
                time.time_ns(),
                sending.links[0].span_id if sending.links else None,
                attributes,
                sending.links,
                error,
            )
        )


class ConsumerSpans:
    """The spans of one consumer. `group` is None if the consumer is in no group."""

    def __init__(self, tracer: Tracer, client_id: str, group: str | None) -> None:
        self._tracer = tracer
        self._client_id = client_id
        self._group = group

    def polled(
        self, topics: Iterable[str], contexts: Iterable[TraceContext], *, count: int, started_ns: int
    ) -> None:
        """Exports the span of a poll that returned `count` records of these topics."""
        names = list(dict.fromkeys(topics))
        name = f"poll {names[0]}" if len(names) == 1 else "poll"
        context = self._tracer.begin(name, Kind.CLIENT)
        if not context.is_sampled:
            return
        attributes = _attributes("poll", "receive", names[0] if len(names) == 1 else None, self._client_id)
        attributes[BATCH_COUNT] = count
        self._add_group(attributes)
        links = tuple(dict.fromkeys(contexts))[:LINKS_MAX]
        self._tracer.end(
            Span(name, Kind.CLIENT, context, started_ns, time.time_ns(), None, attributes, links)
        )

    def processed(
        self,
        place: Place,
        created: TraceContext,
        *,
        key: bytes | None,
        is_tombstone: bool,
        started_ns: int,
        error: str | None = None,
    ) -> None:
        """Exports the span of the work on a record. `created` is the context in the headers of the record."""
        name = f"process {place.topic}"
        context = self._tracer.begin(name, Kind.CONSUMER, created)
        if not context.is_sampled:
            return
        attributes = _attributes("process", "process", place.topic, self._client_id)
        self._add_group(attributes)
        _add_record(attributes, place, key, is_tombstone=is_tombstone)
        self._tracer.end(
            Span(
                name,
                Kind.CONSUMER,
                context,
                started_ns,
                time.time_ns(),
                created.span_id,
                attributes,
                (created,),
                error,
            )
        )

    def _add_group(self, attributes: Attributes) -> None:
        if self._group is not None:
            attributes[GROUP] = self._group


def _attributes(operation: str, type_: str, topic: str | None, client_id: str) -> Attributes:
    attributes: Attributes = {SYSTEM: "kafka", OPERATION: operation, OPERATION_TYPE: type_}
    if topic is not None:
        attributes[DESTINATION] = topic
    if client_id:
        attributes[CLIENT_ID] = client_id
    return attributes


def _add_record(attributes: Attributes, place: Place, key: bytes | None, *, is_tombstone: bool) -> None:
    if place.partition >= 0:
        attributes[PARTITION] = str(place.partition)
    if place.offset is not None and place.offset >= 0:
        attributes[OFFSET] = place.offset
    if key is not None:
        attributes[KEY] = key[: 4 * KEY_MAX_CHARS].decode("utf-8", "replace")[:KEY_MAX_CHARS]
    if is_tombstone:
        attributes[TOMBSTONE] = True
