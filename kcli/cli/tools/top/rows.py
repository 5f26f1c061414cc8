"""Computes the rows of `kcli top` from two samples, without input or output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.cli.tools.top.sample import (
    BrokerSample,
    GroupSample,
    Sample,
    counts_by_topic,
    figure,
    request_count,
)
from kcli.errors import KafkaError
from kcli.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A partition with a problem."""

    topic: str
    partition: int
    problem: str
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicRow:
    """The traffic of a topic per second. Bytes are known only from the metrics of brokers."""

    topic: str
    partitions: int
    messages_in: float | None
    bytes_in: float | None
    bytes_out: float | None
    records: int | None
    """The sum of the partitions' end offsets."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The lag of a group: the number of unread records, and the age of the oldest unread record in seconds."""

    group: str
    type: str
    state: str
    partitions: int
    lag: int | None
    lag_seconds: float | None
    consumed: float | None
    """Records per second, computed from the group's committed offsets."""
    error: str


@dataclass(frozen=True, slots=True)
class SlowRow:
    """One of the slowest requests of the last minutes. All times are in milliseconds."""

    broker: int
    api: str
    version: int
    client_id: str
    host: str
    listener: str
    took_ms: float
    time_ms: int


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker. A value is None if the broker's metrics do not have the value, and `why_not` is the reason."""

    broker: int
    address: str
    is_controller: bool
    leaders: int
    replicas: int
    requests: float | None
    connections: int | None
    cpu_percent: float | None
    memory_bytes: int | None
    why_not: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of all tables at one moment."""

    problems: list[ProblemRow]
    topics: list[TopicRow]
    groups: list[GroupRow]
    slow: list[SlowRow]
    brokers: list[BrokerRow]


# The column by which --sort KEY sorts, largest value first. The key `name` sorts topics and groups by name.
TOPIC_SORTS: Mapping[str, Callable[[TopicRow], float]] = {
    "messages": lambda row: _or_least(row.messages_in),
    "in": lambda row: _or_least(row.bytes_in),
    "out": lambda row: _or_least(row.bytes_out),
    "records": lambda row: _or_least(row.records),
}
GROUP_SORTS: Mapping[str, Callable[[GroupRow], float]] = {
    "lag": lambda row: _or_least(row.lag),
    "seconds": lambda row: _or_least(row.lag_seconds),
    "consumed": lambda row: _or_least(row.consumed),
}
BY_NAME = "name"
SORTS = (*TOPIC_SORTS, *GROUP_SORTS, BY_NAME)


def rows_of(before: Sample, now: Sample, sort: str) -> Rows:
    """Returns the rows for the sample `now`.

    Rates are computed from the difference to the sample `before`. If both samples are the same, there are no rates.
    """
    elapsed = now.at - before.at
    topics = _topic_rows(before, now, elapsed)
    earlier = {group.listing.group_id: group for group in before.groups}
    groups = [_group_row(earlier.get(group.listing.group_id), group, now, elapsed) for group in now.groups]
    topics.sort(key=lambda row: row.topic)
    groups.sort(key=lambda row: row.group)
    if sort != BY_NAME:
        topics.sort(key=TOPIC_SORTS.get(sort, TOPIC_SORTS["messages"]), reverse=True)
        groups.sort(key=GROUP_SORTS.get(sort, GROUP_SORTS["lag"]), reverse=True)
    return Rows(
        problems=_problem_rows(now),
        topics=topics,
        groups=groups,
        slow=_slow_rows(now),
        brokers=[_broker_row(before, broker, now, elapsed) for broker in now.brokers],
    )


def _problem_rows(now: Sample) -> list[ProblemRow]:
    """Returns the partitions with problems. Partitions without a leader come first."""
    rows = [
        ProblemRow(
            topic,
            number,
            partition.problem,
            partition.leader if partition.leader >= 0 else None,
            partition.replicas,
            partition.isr,
        )
        for (topic, number), partition in now.partitions.items()
        if partition.problem
    ]
    return sorted(rows, key=lambda row: (row.leader is not None, row.topic, row.partition))


def _topic_rows(before: Sample, now: Sample, elapsed: float) -> list[TopicRow]:
    bytes_in = _rates(before, now, elapsed, "BytesInPerSec")
    bytes_out = _rates(before, now, elapsed, "BytesOutPerSec")
    by_topic: dict[str, list[TopicPartition]] = {}
    for key in now.partitions:
        by_topic.setdefault(key[0], []).append(key)
    rows = []
    for topic, keys in by_topic.items():
        known = [key for key in keys if key in now.ends]
        grown = [now.ends[key] - before.ends[key] for key in known if key in before.ends]
        rows.append(
            TopicRow(
                topic=topic,
                partitions=len(keys),
                messages_in=_a_second(sum(grown), elapsed) if grown else None,
                bytes_in=bytes_in.get(topic),
                bytes_out=bytes_out.get(topic),
                records=sum(now.ends[key] for key in known) if known else None,
            )
        )
    return rows


def _rates(before: Sample, now: Sample, elapsed: float, name: str) -> dict[str, float]:
    """Returns the rate of each topic. If a topic has no metric, its rate is 0.

    Returns no rates if no broker has metrics.
    """
    known = [broker for broker in now.brokers if broker.beans]
    if not known or elapsed <= 0:
        return {}
    counts = counts_by_topic(known, name)
    # A broker that has just started gets the rate 0, because its counts began at 0.
    earlier = counts_by_topic((_earlier(before, broker) or broker for broker in known), name)
    return {
        topic: _a_second(counts.get(topic, 0.0) - earlier.get(topic, 0.0), elapsed) or 0.0
        for topic in {topic for topic, _ in now.partitions}
    }


def _earlier(before: Sample, broker: BrokerSample) -> BrokerSample | None:
    sample = next((sample for sample in before.brokers if sample.node == broker.node and sample.beans), None)
    if sample is None or figure(sample, "app-info", "start-time-ms") != figure(
        broker, "app-info", "start-time-ms"
    ):
        return None
    return sample


def _group_row(before: GroupSample | None, group: GroupSample, now: Sample, elapsed: float) -> GroupRow:
    lags = [max(now.ends[key] - offset, 0) for key, offset in group.committed.items() if key in now.ends]
    unread = {key for key, offset in group.committed.items() if now.ends.get(key, 0) > offset}
    ages = [age for age in group.ages.values() if isinstance(age, float)]
    failures = [age for age in group.ages.values() if isinstance(age, KafkaError)]
    seconds: float | None = None
    if lags and not unread:
        seconds = 0.0
    elif ages:
        seconds = max(ages)
    moved = None
    if before is not None:
        moved = sum(
            offset - before.committed[key]
            for key, offset in group.committed.items()
            if key in before.committed
        )
    hidden = len(group.committed) - len(lags)
    error = group.error or (f"no end offset for {hidden} partitions" if hidden else "")
    return GroupRow(
        group=group.listing.group_id,
        type=group.listing.type,
        state=group.listing.state,
        partitions=len(group.committed),
        lag=sum(lags) if lags else None,
        lag_seconds=seconds,
        consumed=_a_second(moved, elapsed) if moved is not None else None,
        error=error or (failures[0].message if failures else ""),
    )


def _slow_rows(now: Sample) -> list[SlowRow]:
    rows = [
        SlowRow(
            broker=broker.node.id,
            api=str(slow.get("api", "")),
            version=int(slow.get("version", 0)),
            client_id=str(slow.get("client_id", "")),
            host=str(slow.get("host", "")),
            listener=str(slow.get("listener", "")),
            took_ms=float(slow.get("took_ms", 0.0)),
            time_ms=int(slow.get("time_ms", 0)),
        )
        for broker in now.brokers
        for slow in broker.slow
    ]
    return sorted(rows, key=lambda row: -row.took_ms)


def _broker_row(before: Sample, broker: BrokerSample, now: Sample, elapsed: float) -> BrokerRow:
    node = broker.node
    earlier = _earlier(before, broker)
    requests = cpu = None
    if earlier is not None and broker.beans and elapsed > 0:
        requests = _a_second(request_count(broker) - request_count(earlier), elapsed)
        used, used_before = (figure(sample, "Process", "ProcessCpuSeconds") for sample in (broker, earlier))
        if used is not None and used_before is not None:
            cpu = 100 * (used - used_before) / elapsed
    connections = figure(broker, "socket-server-metrics", "connection-count")
    memory = figure(broker, "Process", "ResidentMemoryBytes")
    return BrokerRow(
        broker=node.id,
        address=f"{node.host}:{node.port}",
        is_controller=node.id == now.controller,
        leaders=sum(partition.leader == node.id for partition in now.partitions.values()),
        replicas=sum(node.id in partition.replicas for partition in now.partitions.values()),
        requests=requests,
        connections=None if connections is None else int(connections),
        cpu_percent=cpu,
        memory_bytes=None if memory is None else int(memory),
        why_not=broker.why_not,
    )


def _a_second(count: float, elapsed: float) -> float | None:
    """Returns a rate of at least 0. Counts can fall if a topic is created again or a group's offsets are reset."""
    return max(count, 0) / elapsed if elapsed > 0 else None


def _or_least(value: float | None) -> float:
    return -1.0 if value is None else float(value)
