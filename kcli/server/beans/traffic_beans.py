"""The beans of the traffic of topics: kafka.server:type=BrokerTopicMetrics."""

from __future__ import annotations

from typing import NamedTuple

from kcli.server.beans.bean import meter
from kcli.server.beans.sources import SERVER, Beans, BeanSources
from kcli.server.metrics.meters import Attributes, Meter


class _Row(NamedTuple):
    """A field of `Traffic`: its name in Kafka, its unit, and whether each topic also has a bean for this field."""

    name: str
    event_type: str
    by_topic: bool = True


_TRAFFIC = {
    "messages_in": _Row("MessagesInPerSec", "messages"),
    "bytes_in": _Row("BytesInPerSec", "bytes"),
    "bytes_out": _Row("BytesOutPerSec", "bytes"),
    "bytes_rejected": _Row("BytesRejectedPerSec", "bytes"),
    "produces": _Row("TotalProduceRequestsPerSec", "requests"),
    "fetches": _Row("TotalFetchRequestsPerSec", "requests"),
    "failed_produces": _Row("FailedProduceRequestsPerSec", "requests"),
    "failed_fetches": _Row("FailedFetchRequestsPerSec", "requests"),
    "keyless_records": _Row("NoKeyCompactedTopicRecordsPerSec", "requests"),
    "invalid_magic": _Row("InvalidMagicNumberRecordsPerSec", "requests"),
    "corrupt_batches": _Row("InvalidMessageCrcRecordsPerSec", "requests"),
    "invalid_sequences": _Row("InvalidOffsetOrSequenceRecordsPerSec", "requests"),
    "replication_bytes_in": _Row("ReplicationBytesInPerSec", "bytes", by_topic=False),
    "replication_bytes_out": _Row("ReplicationBytesOutPerSec", "bytes", by_topic=False),
    "reassignment_bytes_in": _Row("ReassignmentBytesInPerSec", "bytes", by_topic=False),
    "reassignment_bytes_out": _Row("ReassignmentBytesOutPerSec", "bytes", by_topic=False),
}
_ISR_CHANGES = {
    "isr_expands": _Row("IsrExpandsPerSec", "expands", by_topic=False),
    "isr_shrinks": _Row("IsrShrinksPerSec", "shrinks", by_topic=False),
    "failed_isr_updates": _Row("FailedIsrUpdatesPerSec", "failedUpdates", by_topic=False),
}


def traffic_beans(sources: BeanSources) -> Beans:
    """Yields the beans of all topics together, then the beans of each topic whose counts are not 0."""
    if sources.broker is None:
        return
    metrics = sources.metrics
    steps = metrics.of_all_topics()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            total: dict[str, Meter] = end.value
            break
        yield None
    now = sources.now
    for type_, rows in (("BrokerTopicMetrics", _TRAFFIC), ("ReplicaManager", _ISR_CHANGES)):
        for field, row in rows.items():
            yield meter(SERVER, type_, row.name, _attributes(total.get(field), row.event_type, now))
    for topic in list(metrics.traffic.topics):
        yield from _of_topic(sources, topic)


def _of_topic(sources: BeanSources, topic: str) -> Beans:
    now = sources.now
    meters = sources.metrics.of_topic(topic)
    if not meters:
        yield None
    for field, row in _TRAFFIC.items():
        if row.by_topic and field in meters:
            attributes = meters[field].attributes(row.event_type, now)
            yield meter(SERVER, "BrokerTopicMetrics", row.name, attributes, topic=topic)


def _attributes(topic_meter: Meter | None, event_type: str, now: float) -> Attributes:
    return (topic_meter or Meter(now)).attributes(event_type, now)
