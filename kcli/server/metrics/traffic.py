"""Counts of the traffic of topics, as plain integers. Only the code of Produce and Fetch changes the counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter

from kcli.errors import ErrorCode, KafkaError

# Errors that clients cause, or that end without an action of an operator. Kafka's "failed" meters count only failures
# of the broker, so they leave these errors out.
_EXPECTED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)

# Errors that refuse a partition before its log is used. As in Kafka, such a partition is not counted as a request.
_NOT_REACHED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


@dataclass(slots=True)
class Traffic:
    """The traffic of one topic since the start of this broker. As in Kafka, a request counts once for each of its
    partitions.
    """

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    reassignment_bytes_in: int = 0
    reassignment_bytes_out: int = 0
    bytes_rejected: int = 0
    produces: int = 0
    fetches: int = 0
    failed_produces: int = 0
    failed_fetches: int = 0
    corrupt_batches: int = 0
    keyless_records: int = 0
    invalid_magic: int = 0
    invalid_sequences: int = 0
    isr_expands: int = 0
    isr_shrinks: int = 0
    failed_isr_updates: int = 0

    def add(self, other: Traffic) -> None:
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


NAMES = tuple(field.name for field in fields(Traffic))

Counts = tuple[int, ...]
"""The counts of a topic in the order of NAMES."""

counts_of: Callable[[Traffic], Counts] = attrgetter(*NAMES)
"""Returns the counts of a topic in the order of NAMES. A broker may have thousands of topics without traffic. This call
takes a tenth of the time of a loop over the names."""


class TrafficTable:
    """The traffic of every topic. Only existing topics get an entry, because a client can send any number of other
    names."""

    def __init__(self) -> None:
        self.topics: dict[str, Traffic] = {}
        self.elsewhere = Traffic()
        """The traffic of deleted and of unknown topics, which is part of the total."""
        self.on_forget: Callable[[str], None] = lambda _topic: None
        """Called after the counts of a deleted topic were added to `elsewhere`."""

    def of(self, topic: str) -> Traffic:
        """Returns the counts of an existing topic."""
        traffic = self.topics.get(topic)
        if traffic is None:
            traffic = self.topics[topic] = Traffic()
        return traffic

    def forget(self, topic: str) -> None:
        """Removes a deleted topic. Its counts stay in the total."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self.elsewhere.add(gone)
            self.on_forget(topic)

    def produce_failed(self, topic: str, error: KafkaError, size_bytes: int) -> None:
        """Counts a refused batch of `size_bytes` bytes."""
        code = error.code
        traffic = self.topics.get(topic, self.elsewhere)
        if code not in _NOT_REACHED:
            traffic.produces += 1
        if error.fault:
            count = len(error.record_errors) or 1
            setattr(traffic, error.fault, getattr(traffic, error.fault) + count)
        elif code is ErrorCode.CORRUPT_MESSAGE:
            traffic.corrupt_batches += 1
        elif code is ErrorCode.MESSAGE_TOO_LARGE:
            traffic.bytes_rejected += size_bytes
        if code not in _EXPECTED:
            traffic.failed_produces += 1

    def fetch_failed(self, topic: str, code: ErrorCode) -> None:
        traffic = self.topics.get(topic, self.elsewhere)
        if code not in _NOT_REACHED:
            traffic.fetches += 1
        if code not in _EXPECTED:
            traffic.failed_fetches += 1
